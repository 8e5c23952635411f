"""The clocks that may be a job's, and the one that explains it best.

Candidates come from three sources: the rhythms that the job was recognised by, the spacings in byte-space after which
the silences of a few pairs repeat (`stats.byte_periods`), and several ticks of either taken together where their
durations repeat (layers to steps, passes to steps). All are judged in one currency by what they say about pairs of
every size (`clock_score`); none is ruled out beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable, ranges
from llmprism.model.job import Job
from llmprism.parallelism.clock_score import Pauses, pauses_of, price_of
from llmprism.parallelism.part_sizes import bits_of_unlike_parts
from llmprism.parallelism.row_silences import silences_of_rows
from llmprism.stats.byte_periods import fundamental_spacings, repeating_lags
from llmprism.stats.byte_steps import chain_at
from llmprism.stats.silences import Silences

__all__ = ["BestClock", "best_clock"]

SAME_BYTES: Final = 0.03
"""Difference of the logarithms of two pairs' bytes within which they carry the same: losses and cut windows."""

CLASSES: Final = 3
"""Sorts of pairs, by their bytes, that are asked for spacings: all of a job's pairs repeat with its step."""

TOGETHER: Final = 64
"""Pairs of one sort that are looked at as one series at most; of more somebody is always sending."""

JUDGES: Final = 24
"""Pairs that judge the clocks, spread over all sorts."""

JUDGED_MESSAGES: Final = 12_000
"""Messages of the judges at most."""

PER_STEP: Final = 12
"""Silences of each step, the longest, that a chain is sought through."""

TOLERANCE: Final = 0.03
"""Relative deviation of one step's bytes."""

MOST_TICKS: Final = 128
"""Ticks taken together at most: the layers of a deep sharded model, forward and backward."""

MOSTLY: Final = 0.75
"""Share of the ticks taken together that must be regular: embeddings and heads are unlike the other layers."""

SAME_PERIOD: Final = 0.02
"""Relative difference of periods, and of phases relative to the period, within which two clocks are one."""

RIVAL: Final = 1.5
"""Bits per pause by which a finer clock may be behind its multiple and still be compared with it at all phases."""

MARGIN: Final = 0.1
"""Bits per pause by which a multiple must be better than the finer clock: it has fewer ticks to misplace..."""

UNLIKE: Final = 0.1
"""...unless its parts, one for each finer tick, send unlike messages: by so many bits per message. Equal steps reach
0.08, the parts of real sharded steps 0.2 to 0.9."""

PARTS: Final = 8
"""Parts of a step, of equal bytes, whose messages are compared: collectives of one sort fill a part or more."""

PHASES: Final = 8
"""Phases of the step at which the two are compared."""

LEAST_STEPS: Final = 3
"""Steps that a clock must show."""

COVERED: Final = 0.5
"""Share of the job's time that a clock must tick through."""


@dataclass(frozen=True, slots=True)
class BestClock:
    """The clock, and how many bits per pause the best clock of another period is behind (infinite without any), whose
    period is `rival_period` times its own (0 without any)."""

    clock: StepClock
    lead: float
    rival_period: float = 0.0


def best_clock(job: Job, bulk: Bool) -> BestClock | None:
    """The clock that explains the pauses of all sorts of pairs with the fewest bits; None where nothing repeats."""
    transfers = job.transfers
    sorts = _sorts(transfers, np.flatnonzero(bulk))
    if not sorts:
        return None
    rivals = _distinct(_candidates(job, sorts))
    if not rivals:
        return None
    judges = _judges(transfers, sorts)
    starts = transfers.start_ns[transfers.messages_of(bulk)]
    window = (int(np.quantile(starts, 0.05)), int(starts.max()))
    covering = [clock for clock in rivals if _covers(clock, window)]
    if not covering:
        return None
    pauses = pauses_of(transfers, judges)
    price = _price(pauses, covering, window)
    best = int(np.argmin(price))
    finer = [i for i in np.argsort(price) if _divides(covering[i], covering[best]) and price[i] < price[best] + RIVAL]
    if finer:
        return _at_best_phases(pauses, covering[best], covering[finer[0]], _silences(transfers, judges), window)
    period = np.array([clock.period_ns for clock in covering])
    same = np.abs(period / period[best] - 1.0) <= SAME_PERIOD
    by_pauses = price_of(pauses, [covering[i].boundary_ns for i in np.flatnonzero(same)], window)
    chosen = covering[int(np.flatnonzero(same)[np.argmin(by_pauses)])]
    if same.all():
        return BestClock(chosen, float("inf"))
    rival = int(np.argmin(np.where(same, np.inf, price)))
    return BestClock(chosen, float(price[rival] - price[best]), float(period[rival] / period[best]))


def _at_best_phases(
    pauses: Pauses, coarse: StepClock, fine: StepClock, quiet: Silences, window: tuple[int, int]
) -> BestClock:
    """The better of a clock and a finer one that divides it, each at its best phase."""
    variants = [coarse, fine]
    variants += [shifted for clock in variants for shifted in _phases(clock, quiet)]
    costs = _price(pauses, variants, window)
    is_fine = np.array([False, True] + [False] * (PHASES - 1) + [True] * (PHASES - 1))
    best_fine, best_coarse = (np.flatnonzero(which)[np.argmin(costs[which])] for which in (is_fine, ~is_fine))
    times = round(_mean_step(coarse) / max(_mean_step(fine), 1.0))
    alike = times > PARTS or bits_of_unlike_parts(pauses, coarse.boundary_ns, max(times, 2)) < UNLIKE
    ahead = costs[best_fine] <= costs[best_coarse] + (MARGIN if alike else 0.0)
    chosen, other = (best_fine, best_coarse) if ahead else (best_coarse, best_fine)
    ratio = variants[other].period_ns / max(variants[chosen].period_ns, 1.0)
    return BestClock(variants[chosen], float(costs[other] - costs[chosen]), ratio)


def _price(pauses: Pauses, clocks: list[StepClock], window: tuple[int, int]) -> Float64:
    """Bits per message under each clock: for its pause, less what the place in the step tells about its size.

    Whatever a clock tells about sizes, a coarser one can tell too, by the same rhythm inside its steps: so layers that
    are alike do not pass for steps because they are cut more finely.
    """
    ticks = [clock.boundary_ns for clock in clocks]
    told = np.array([max(0.0, bits_of_unlike_parts(pauses, one, PARTS)) for one in ticks])
    by_period = np.argsort([_mean_step(clock) for clock in clocks])
    told[by_period] = np.maximum.accumulate(told[by_period])
    price: Float64 = price_of(pauses, ticks, window) - told
    return price


def _mean_step(clock: StepClock) -> float:
    return float(clock.boundary_ns[-1] - clock.boundary_ns[0]) / max(clock.boundary_ns.size - 1, 1)


def _divides(fine: StepClock, coarse: StepClock) -> bool:
    """Does the finer clock tick a whole number of times, two and more, in each step of the coarser one? The medians
    of the steps tell where some ticks are missing, their means where parts of a step are of unlike length."""
    if fine.period_ns <= 0.0:
        return False
    for times in (coarse.period_ns / fine.period_ns, _mean_step(coarse) / max(_mean_step(fine), 1.0)):
        if round(times) > 1 and abs(times / round(times) - 1.0) <= SAME_PERIOD:
            return True
    return False


def _phases(clock: StepClock, quiet: Silences) -> list[StepClock]:
    """The clock at other phases, each tick moved to the longest silence of the judges nearby."""
    result = []
    length = np.diff(clock.boundary_ns)
    for phase in np.arange(1, PHASES) / PHASES:
        centre = clock.boundary_ns[:-1] + (phase * length).astype(np.int64)
        reach = (length / (2 * PHASES)).astype(np.int64)
        first, last = (np.searchsorted(quiet.begin_ns, centre + way * reach) for way in (-1, 1))
        ticks = np.array(
            [
                quiet.begin_ns[a + int(np.argmax(quiet.length_ns[a:b]))] if b > a else c
                for a, b, c in zip(first.tolist(), last.tolist(), centre.tolist(), strict=True)
            ],
            dtype=np.int64,
        )
        result.append(StepClock(ticks, clock.regular[1:] & clock.regular[:-1], clock.dominance))
    return result


def _sorts(transfers: TransferTable, pairs: Int64) -> list[Int64]:
    """The pairs, those of about the same bytes together, the sort with the most bytes first."""
    size = transfers.pair_bytes[pairs].astype(np.float64)
    pairs, size = pairs[size > 0], size[size > 0]
    if not pairs.size:
        return []
    order = np.argsort(size, kind="stable")
    cuts = np.flatnonzero(np.diff(np.log(size[order])) > SAME_BYTES) + 1
    sorts = [pairs[part] for part in np.split(order, cuts)]
    return sorted(sorts, key=lambda sort: -float(transfers.pair_bytes[sort].sum()))


def _candidates(job: Job, sorts: list[Int64]) -> list[StepClock]:
    clocks = [] if job.clock is None else [job.clock]
    clocks += [candidate.clock for candidate in job.clock_candidates]
    for sort in sorts[:CLASSES]:
        witnesses = [sort[sort.size // 2 : sort.size // 2 + 1]]
        if 1 < sort.size <= TOGETHER:
            witnesses.append(sort)
        for witness in witnesses:
            silences = _silences(job.transfers, witness)
            clocks += [_clock_at(silences, spacing) for spacing in fundamental_spacings(silences)]
    return clocks + [joined for clock in clocks for joined in _joined(clock)]


def _silences(transfers: TransferTable, pairs: Int64) -> Silences:
    return silences_of_rows(transfers, ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1]))


def _clock_at(silences: Silences, spacing: float) -> StepClock:
    """The chain of that spacing through the longer silences, among which the boundaries of steps are."""
    most = int(PER_STEP * silences.bytes_before[-1] / spacing) + PER_STEP
    if silences.count > most:
        kept = np.sort(np.argpartition(silences.length_ns, -most)[-most:])
        silences = Silences(silences.begin_ns[kept], silences.length_ns[kept], silences.bytes_before[kept])
    chain = chain_at(silences, spacing, TOLERANCE)
    return StepClock(silences.begin_ns[chain.boundaries], chain.regular, chain.dominance)


def _joined(clock: StepClock) -> list[StepClock]:
    """The clock with several ticks taken together, where their durations repeat; begun at its longest interval."""
    duration = np.log2(np.maximum(np.diff(clock.boundary_ns), 1).astype(np.float64))
    result = []
    for ticks in repeating_lags(duration, min(MOST_TICKS, duration.size // LEAST_STEPS)):
        usual = [float(np.median(duration[offset::ticks])) for offset in range(ticks)]
        chosen = np.arange((int(np.argmax(usual))) % ticks, clock.boundary_ns.size, ticks)
        so_far = np.concatenate([[0], np.cumsum(clock.regular)])
        regular = np.diff(so_far[chosen]) >= MOSTLY * ticks
        result.append(StepClock(clock.boundary_ns[chosen], regular, clock.dominance))
    return result


def _distinct(clocks: list[StepClock]) -> list[StepClock]:
    """The clocks with some steps, one of each period and phase."""
    kept: list[tuple[StepClock, float, int]] = []
    for clock in clocks:
        steps, period = clock.steps, clock.period_ns
        if steps < LEAST_STEPS or period <= 0.0:
            continue
        near = (other for other, own, count in kept if abs(steps - count) <= 1 and _close(period, own))
        if not any(_same_phase(clock, other, period) for other in near):
            kept.append((clock, period, steps))
    return [clock for clock, _, _ in kept]


def _close(period: float, other: float) -> bool:
    return abs(period / other - 1.0) <= SAME_PERIOD


def _same_phase(one: StepClock, other: StepClock, period_ns: float) -> bool:
    nearest = np.searchsorted(other.boundary_ns, one.boundary_ns).clip(1, other.boundary_ns.size - 1)
    off = np.minimum(
        np.abs(other.boundary_ns[nearest] - one.boundary_ns), np.abs(other.boundary_ns[nearest - 1] - one.boundary_ns)
    )
    return float(np.median(off)) <= SAME_PERIOD * period_ns


def _covers(clock: StepClock, window: tuple[int, int]) -> bool:
    inside = min(int(clock.boundary_ns[-1]), window[1]) - max(int(clock.boundary_ns[0]), window[0])
    return inside >= COVERED * (window[1] - window[0])


def _judges(transfers: TransferTable, sorts: list[Int64]) -> Int64:
    """Pairs of all sorts, a few of each."""
    each = max(1, JUDGES // len(sorts))
    chosen = [sort[np.linspace(0, sort.size - 1, min(each, sort.size)).astype(np.int64)] for sort in sorts[:JUDGES]]
    judges = np.sort(np.concatenate(chosen))
    messages = np.cumsum(np.diff(transfers.pair_offsets)[judges])
    return judges[: max(1, int(np.searchsorted(messages, JUDGED_MESSAGES, side="right")))].astype(np.int64)
