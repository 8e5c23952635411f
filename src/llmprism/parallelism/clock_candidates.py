"""The clocks that may be a job's, and the pairs that judge them.

Candidates come from three sources: the rhythms that the job was recognised by, the spacings in byte-space after which
the silences of a few pairs repeat (`stats.byte_periods`), and several ticks of either taken together where their
durations repeat (layers to steps, passes to steps). None is ruled out beforehand (`rival_clocks`).
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable, ranges
from llmprism.model.job import Job
from llmprism.parallelism.row_silences import silences_of_rows
from llmprism.parallelism.rules import LayoutRules
from llmprism.stats.byte_periods import fundamental_spacings, repeating_lags
from llmprism.stats.byte_steps import chain_at
from llmprism.stats.silences import Silences

__all__ = [
    "candidate_clocks",
    "covers",
    "distinct_clocks",
    "joined_ticks",
    "judging_pairs",
    "same_period",
    "same_phase",
    "silences_of",
    "sorts_of_pairs",
]


def sorts_of_pairs(transfers: TransferTable, pairs: Int64, rules: LayoutRules) -> list[Int64]:
    """The pairs, those of about the same bytes together, the sort with the most bytes first."""
    size = transfers.pair_bytes[pairs].astype(np.float64)
    pairs, size = pairs[size > 0], size[size > 0]
    if not pairs.size:
        return []
    order = np.argsort(size, kind="stable")
    cuts = np.flatnonzero(np.diff(np.log(size[order])) > rules.clock.same_bytes) + 1
    sorts = [pairs[part] for part in np.split(order, cuts)]
    return sorted(sorts, key=lambda sort: -float(transfers.pair_bytes[sort].sum()))


def candidate_clocks(job: Job, sorts: list[Int64], rules: LayoutRules) -> list[StepClock]:
    clocks = [] if job.clock is None else [job.clock]
    clocks += [candidate.clock for candidate in job.clock_candidates]
    for sort in sorts[: rules.clock.sorts_sampled]:
        witnesses = [sort[sort.size // 2 : sort.size // 2 + 1]]
        if 1 < sort.size <= rules.clock.pairs_together:
            witnesses.append(sort)
        for witness in witnesses:
            silences = silences_of(job.transfers, witness)
            clocks += [_clock_at(silences, spacing, rules) for spacing in fundamental_spacings(silences)]
    return clocks + [joined for clock in clocks for joined in joined_ticks(clock, rules)]


def silences_of(transfers: TransferTable, pairs: Int64) -> Silences:
    return silences_of_rows(transfers, ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1]))


def _clock_at(silences: Silences, spacing: float, rules: LayoutRules) -> StepClock:
    """The chain of that spacing through the longer silences, among which the boundaries of steps are."""
    most = int(rules.clock.silences_per_step * silences.bytes_before[-1] / spacing) + rules.clock.silences_per_step
    if silences.count > most:
        kept = np.sort(np.argpartition(silences.length_ns, -most)[-most:])
        silences = Silences(silences.begin_ns[kept], silences.length_ns[kept], silences.bytes_before[kept])
    chain = chain_at(silences, spacing, rules.clock.step_tolerance)
    return StepClock(silences.begin_ns[chain.boundaries], chain.regular, chain.dominance)


def joined_ticks(clock: StepClock, rules: LayoutRules) -> list[StepClock]:
    """The clock with several ticks taken together, where their durations repeat; begun at its longest interval."""
    duration = np.log2(np.maximum(np.diff(clock.boundary_ns), 1).astype(np.float64))
    result = []
    for ticks in repeating_lags(duration, min(rules.clock.most_ticks, duration.size // rules.clock.least_steps)):
        usual = [float(median(duration[offset::ticks])) for offset in range(ticks)]
        chosen = np.arange((int(np.argmax(usual))) % ticks, clock.boundary_ns.size, ticks)
        so_far = np.concatenate([[0], np.cumsum(clock.regular)])
        regular = np.diff(so_far[chosen]) >= rules.clock.regular_ticks * ticks
        result.append(StepClock(clock.boundary_ns[chosen], regular, clock.dominance))
    return result


def distinct_clocks(clocks: list[StepClock], rules: LayoutRules) -> list[StepClock]:
    """The clocks with some steps, one of each period and phase."""
    kept: list[tuple[StepClock, float, int]] = []
    for clock in clocks:
        steps, period = clock.steps, clock.period_ns
        if steps < rules.clock.least_steps or period <= 0.0:
            continue
        near = (other for other, own, count in kept if abs(steps - count) <= 1 and same_period(period, own, rules))
        if not any(same_phase(clock, other, period, rules) for other in near):
            kept.append((clock, period, steps))
    return [clock for clock, _, _ in kept]


def same_period(period: float, other: float, rules: LayoutRules) -> bool:
    return abs(period / other - 1.0) <= rules.clock.same_period


def same_phase(one: StepClock, other: StepClock, period_ns: float, rules: LayoutRules) -> bool:
    nearest = np.searchsorted(other.boundary_ns, one.boundary_ns).clip(1, other.boundary_ns.size - 1)
    off = np.minimum(
        np.abs(other.boundary_ns[nearest] - one.boundary_ns), np.abs(other.boundary_ns[nearest - 1] - one.boundary_ns)
    )
    return float(median(off)) <= rules.clock.same_period * period_ns


def covers(clock: StepClock, window: tuple[int, int], rules: LayoutRules) -> bool:
    inside = min(int(clock.boundary_ns[-1]), window[1]) - max(int(clock.boundary_ns[0]), window[0])
    return inside >= rules.clock.covered_time * (window[1] - window[0])


def judging_pairs(transfers: TransferTable, sorts: list[Int64], rules: LayoutRules) -> Int64:
    """Pairs of all sorts, a few of each."""
    each = max(1, rules.clock.judges // len(sorts))
    chosen = [
        sort[np.linspace(0, sort.size - 1, min(each, sort.size)).astype(np.int64)]
        for sort in sorts[: rules.clock.judges]
    ]
    judges = np.sort(np.concatenate(chosen))
    messages = np.cumsum(np.diff(transfers.pair_offsets)[judges])
    return judges[: max(1, int(np.searchsorted(messages, rules.clock.judged_messages, side="right")))].astype(np.int64)
