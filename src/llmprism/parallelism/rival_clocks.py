"""The clocks that may be a job's, and the one that explains it best.

Candidates (`clock_candidates`) are judged in one currency by what they say about pairs of every size (`clock_score`);
none is ruled out beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.parallelism.bridged_clock import bridged_clock
from llmprism.parallelism.clock_candidates import (
    candidate_clocks,
    covers,
    distinct_clocks,
    joined_ticks,
    judging_pairs,
    same_period,
    same_phase,
    silences_of,
    sorts_of_pairs,
)
from llmprism.parallelism.clock_score import Pauses, Priced, bits_of, pauses_of, priced, variation_of
from llmprism.parallelism.compound_steps import are_alike, are_steps, slower_clock, ticks_in_steps
from llmprism.parallelism.half_ticks import half_tick_clock
from llmprism.parallelism.known_step import known_clock
from llmprism.parallelism.lost_records import loses_records, with_usual_bytes
from llmprism.parallelism.outstanding import outstanding_steps
from llmprism.parallelism.part_sizes import bits_of_unlike_parts
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.standing_out import may_be_steps, standing_out
from llmprism.stats.silences import Silences

__all__ = ["BestClock", "best_clock", "parts_of_steps"]


@dataclass(frozen=True, slots=True)
class BestClock:
    """The clock, and how many bits per pause the best clock of another period is behind (infinite without any), whose
    period is `rival_period` times its own (0 without any); `rival` says the same from that clock's side. `step_bytes`
    are those of the job in a step as the window alone shows it. `lossy`: the collector loses records. `settled`: what
    is outstanding on links of pipelines shows that its period is the step's; `passing` is one direction of each of the
    links that were seen to show it. `passes`: its ticks are the ends of steps, each after so many passes that reduce
    and one gathering (0: not known)."""

    clock: StepClock
    lead: float
    rival_period: float = 0.0
    step_bytes: int = 0
    rival: BestClock | None = None
    lossy: bool = False
    settled: bool = False
    passes: int = 0
    passing: tuple[int, ...] = ()

    @classmethod
    def of(cls, clock: StepClock, rival: StepClock, lead: float) -> BestClock:
        """The clock and its rival, which is so many bits per pause behind."""
        ratio = rival.period_ns / max(clock.period_ns, 1.0)
        other = cls(rival, -lead, clock.period_ns / max(rival.period_ns, 1.0))
        return cls(clock, lead, ratio, rival=other)


def parts_of_steps(best: BestClock, rules: LayoutRules = RULES) -> StepClock | None:
    """The rival, where it is the faster clock: its ticks may be parts of a step."""
    rival = best.rival
    faster = rival is not None and rival.clock.period_ns * rules.clock.slower <= best.clock.period_ns
    return rival.clock if rival is not None and faster else None


def best_clock(job: Job, bulk: Bool, rules: LayoutRules = RULES, known_bytes: int = 0) -> BestClock | None:
    """The clock that explains the pauses of all sorts of pairs with the fewest bits; None where nothing repeats. Where
    the bytes of a step are known from before (`known_step`), a clock that has them goes before. Where the collector
    loses records a second look, at usual bytes, puts its ticks in place."""
    best = _best_clock(job, bulk, rules, known_bytes)
    if best is None or not loses_records(job, bulk, best.clock, rules):
        return best
    again = _best_clock(with_usual_bytes(job, best.clock, rules), bulk, rules, known_bytes)
    same = again is not None and same_period(again.clock.period_ns, best.clock.period_ns, rules)
    return replace(again if again is not None and same else best, lossy=True)


def _best_clock(job: Job, bulk: Bool, rules: LayoutRules, known_bytes: int) -> BestClock | None:
    transfers = job.transfers
    sorts = sorts_of_pairs(transfers, np.flatnonzero(bulk), rules)
    if not sorts:
        return None
    rivals = distinct_clocks(candidate_clocks(job, sorts, rules), rules)
    if not rivals:
        return None
    judges = judging_pairs(transfers, sorts, rules)
    starts = transfers.start_ns[transfers.messages_of(bulk)]
    window = (int(np.quantile(starts, 0.05)), int(starts.max()))
    covering = [clock for clock in rivals if covers(clock, window, rules)]
    if not covering:
        return None
    pauses = pauses_of(transfers, judges, rules)
    quiet = silences_of(transfers, judges)
    covering = _bridged(covering, pauses, quiet, window, rules)
    best = _cheapest(pauses, quiet, covering, window, rules)
    best = _whole_steps(pauses, _single_steps(pauses, best, covering, window, rules), covering, rules)
    best = _with_half_ticks(pauses, best, quiet, rules)
    best = _standing_out(job, pauses, best, covering, rules)
    best = _answered(transfers, bulk, pauses, best, covering, window, rules)
    known = known_clock(transfers, bulk, pauses, best.clock, covering, known_bytes, rules)
    if known.chosen is None:
        other = best.rival
        if other is not None:
            step_bytes = known_clock(transfers, bulk, pauses, other.clock, covering, rules=rules).step_bytes
            other = replace(other, step_bytes=step_bytes)
        return replace(best, step_bytes=known.step_bytes, rival=other)
    ratio = best.clock.period_ns / max(known.chosen.period_ns, 1.0)
    return BestClock(known.chosen, best.lead, ratio, known.step_bytes)


def _bridged(
    clocks: list[StepClock], pauses: Pauses, quiet: Silences, window: tuple[int, int], rules: LayoutRules
) -> list[StepClock]:
    """The clocks, those with holes bridged where that explains the pauses better. Bytes are left out of account: a hole
    hides the steps in which some are missing."""
    bridges = [bridged_clock(clock, quiet, rules) for clock in clocks]
    both = [(clock, bridge) for clock, bridge in zip(clocks, bridges, strict=True) if bridge is not None]
    if not both:
        return clocks
    by_clock = priced(pauses, [one.boundary_ns for pair in both for one in pair], window, rules)
    better = [by_clock[2 * i + 1].pause_bits < by_clock[2 * i].pause_bits for i in range(len(both))]
    taken = iter(bridge if good else clock for (clock, bridge), good in zip(both, better, strict=True))
    return [clock if bridge is None else next(taken) for clock, bridge in zip(clocks, bridges, strict=True)]


def _answered(
    transfers: TransferTable, bulk: Bool, pauses: Pauses, best: BestClock, rivals: list[StepClock],
    window: tuple[int, int], rules: LayoutRules,
) -> BestClock:  # fmt: skip
    """The best clock, or where links of pipelines show a step that is far from its own by what is outstanding on them,
    the clock of such steps whose ticks are best in place."""
    shown = outstanding_steps(transfers, bulk, rules)
    if shown is None:
        return best
    steps, passing = shown.clock, shown.pairs
    if not _far(steps, best.clock, rules):
        return replace(best, settled=True, passing=passing)
    clocks = [one for one in (*rivals, steps) if not _far(one, steps, rules)]
    by_clock = priced(pauses, [clock.boundary_ns for clock in clocks], window, rules)
    chosen = clocks[int(np.argmin(bits_of(pauses, by_clock, rules, every_step=True)))]
    return replace(BestClock.of(chosen, best.clock, rules.clock.margin_bits), settled=True, passing=passing)


def _far(one: StepClock, other: StepClock, rules: LayoutRules) -> bool:
    """Is one of the two clocks slower than the other?"""
    ratio = max(one.period_ns, 1.0) / max(other.period_ns, 1.0)
    return max(ratio, 1.0 / ratio) >= rules.clock.slower


def _single_steps(
    pauses: Pauses, best: BestClock, rivals: list[StepClock], window: tuple[int, int], rules: LayoutRules
) -> BestClock:
    """The best clock, or a finer one that is a little behind and whose ticks are steps: each sends the same bytes, and
    the place in the slower step tells nothing about them. Pauses alone may fit more places better by chance."""
    others = [*rivals, best.rival.clock] if best.rival is not None else rivals
    for one in sorted(others, key=lambda clock: -clock.period_ns):
        slow = best.clock
        if one.period_ns * rules.clock.slower > slow.period_ns or not _same_bytes(pauses, one, slow, rules):
            continue
        if are_alike(pauses, one.boundary_ns, slow.boundary_ns, rules):
            both = [slow, one]
            price = _price(pauses, both, priced(pauses, [clock.boundary_ns for clock in both], window, rules), rules)
            if price[1] < price[0] + rules.clock.uneven_margin_bits:
                best = BestClock.of(one, slow, float(price[0] - price[1]))
    return best


def _same_bytes(pauses: Pauses, fine: StepClock, coarse: StepClock, rules: LayoutRules) -> bool:
    """Are the bytes between ticks of the finer clock as constant as those of the other one's steps, but for a message
    now before and now after a tick and for the losses of a collector, which shrink with the root of the time?"""
    longer = np.sqrt(coarse.period_ns / max(fine.period_ns, 1.0))
    of_fine, of_coarse = (variation_of(pauses, clock.boundary_ns, rules) for clock in (fine, coarse))
    message = fine.boundary_ns.size / np.maximum(np.diff(pauses.offsets), 1)
    return bool(median(of_fine / np.maximum(np.maximum(of_coarse * longer, message), rules.clock.exact_bytes)) <= 1.0)


def _whole_steps(pauses: Pauses, best: BestClock, rivals: list[StepClock], rules: LayoutRules) -> BestClock:
    """The best clock, or a slower one whose steps its ticks are parts of. Few steps are alike by chance, or because
    each has a checkpoint."""
    for _ in range(rules.clock.least_steps):
        slower = [one for one in (*rivals, *joined_ticks(best.clock, rules)) if one.steps >= rules.clock.compound_steps]
        found = slower_clock(pauses, best.clock, slower, rules)
        if found is None:
            break
        clock, compound = found
        best = BestClock.of(clock, best.clock, compound.bits / max(pauses.counted, 1))
    return best


def _with_half_ticks(pauses: Pauses, best: BestClock, quiet: Silences, rules: LayoutRules) -> BestClock:
    """The best clock, or one whose steps are several of its ticks and half a tick."""
    found = half_tick_clock(quiet, best.clock, rules)
    if found is None:
        return best
    return replace(BestClock.of(found.clock, best.clock, found.bits / max(pauses.counted, 1)), passes=found.passes)


def _standing_out(job: Job, pauses: Pauses, best: BestClock, rivals: list[StepClock], rules: LayoutRules) -> BestClock:
    """The best clock, or a slower rhythm that stands out, where the ticks of the best one are no steps; or one that it
    is a part of."""
    found = best
    while (slow := standing_out(job, found.clock, rules)) is not None:
        if may_be_steps(pauses, found.clock, slow, rules):
            break
        found = BestClock.of(slow, found.clock, rules.clock.margin_bits)
    return best if found is best else _whole_steps(pauses, found, rivals, rules)


def _cheapest(
    pauses: Pauses, quiet: Silences, covering: list[StepClock], window: tuple[int, int], rules: LayoutRules
) -> BestClock:
    """The clock with the fewest bits. A slower one that is a little behind is tried at other phases before that, its
    ticks in silences of all judges."""
    by_clock = priced(pauses, [clock.boundary_ns for clock in covering], window, rules)
    price = _price(pauses, covering, by_clock, rules)
    best = int(np.argmin(price))
    slower = _slower_in_reach(covering, price, best, rules)
    if slower is not None:
        phases = _phases(covering[slower], quiet, rules)
        covering = covering + phases
        by_clock += priced(pauses, [clock.boundary_ns for clock in phases], window, rules)
        price = _price(pauses, covering, by_clock, rules)
        best = int(np.argmin(price))
    finer = [
        i
        for i in np.argsort(price)
        if _divides(covering[i], covering[best], rules) and price[i] < price[best] + rules.clock.rival_bits
    ]
    slow = covering[best].boundary_ns
    steps = (i for i in finer if are_steps(pauses, covering[i].boundary_ns, slow, float(price[i] - price[best]), rules))
    if (found := next(steps, None)) is not None:
        best = int(found)
    elif finer:
        coarse, fine = (_best_in_place(pauses, covering, by_clock, one, rules)[0] for one in (best, int(finer[0])))
        return _at_best_phases(pauses, coarse, fine, quiet, window, rules)
    chosen, same = _best_in_place(pauses, covering, by_clock, best, rules)
    if same.all():
        return BestClock(chosen, float("inf"))
    rival = int(np.argmin(np.where(same, np.inf, price)))
    other, _ = _best_in_place(pauses, covering, by_clock, rival, rules)
    return BestClock.of(chosen, other, float(price[rival] - price[best]))


def _slower_in_reach(clocks: list[StepClock], price: Float64, best: int, rules: LayoutRules) -> int | None:
    """The cheapest of the slower clocks that are behind the best one by so little that their ticks need only be better
    in place; None where there is none."""
    slow = [
        i
        for i, clock in enumerate(clocks)
        if clock.period_ns > rules.clock.slower * clocks[best].period_ns
        and clock.steps >= rules.clock.compound_steps
        and price[i] < price[best] + rules.clock.uneven_margin_bits
    ]
    return min(slow, key=lambda i: float(price[i]), default=None)


def _best_in_place(
    pauses: Pauses, clocks: list[StepClock], by_clock: list[Priced], index: int, rules: LayoutRules
) -> tuple[StepClock, Bool]:
    """Of the clocks with the period of this one, the one whose ticks are best in place; and which clocks these are."""
    period = np.array([clock.period_ns for clock in clocks])
    same = np.abs(period / period[index] - 1.0) <= rules.clock.same_period
    by_pauses = bits_of(pauses, [by_clock[i] for i in np.flatnonzero(same)], rules, every_step=True)
    return clocks[int(np.flatnonzero(same)[np.argmin(by_pauses)])], same


def _at_best_phases(
    pauses: Pauses, coarse: StepClock, fine: StepClock, quiet: Silences, window: tuple[int, int], rules: LayoutRules
) -> BestClock:
    """The better of a clock and a finer one that divides it, each at its best phase."""
    variants = [coarse, fine]
    variants += [shifted for clock in variants for shifted in _phases(clock, quiet, rules)]
    by_variant = priced(pauses, [clock.boundary_ns for clock in variants], window, rules)
    costs = _price(pauses, variants, by_variant, rules)
    in_place = bits_of(pauses, by_variant, rules, every_step=True)
    is_fine = np.array([False, True] + [False] * (rules.clock.phases - 1) + [True] * (rules.clock.phases - 1))
    best_fine, best_coarse = (np.flatnonzero(which)[np.argmin(in_place[which])] for which in (is_fine, ~is_fine))
    ahead = costs[best_fine] <= costs[best_coarse] + _margin(coarse, fine, rules)
    chosen, other = (best_fine, best_coarse) if ahead else (best_coarse, best_fine)
    return BestClock.of(variants[chosen], variants[other], float(costs[other] - costs[chosen]))


def _margin(coarse: StepClock, fine: StepClock, rules: LayoutRules) -> float:
    """Bits per pause by which a clock must be better than a finer one that divides it: more where its steps are less
    even, none where those of the finer one are, since whole steps are not."""
    rule = rules.clock
    if coarse.unevenness > rule.uneven + fine.unevenness:
        return rule.uneven_margin_bits
    return 0.0 if fine.unevenness > rule.uneven + coarse.unevenness else rule.margin_bits


def _price(pauses: Pauses, clocks: list[StepClock], by_clock: list[Priced], rules: LayoutRules) -> Float64:
    """Bits per message under each clock: for its pause, less what the place in the step tells about its size.

    Whatever a clock tells about sizes, a coarser one can tell too, by the same rhythm inside its steps: so layers that
    are alike do not pass for steps because they are cut more finely.
    """
    explained = np.array(
        [max(0.0, bits_of_unlike_parts(pauses, one.boundary_ns, rules.clock.step_parts, rules)) for one in clocks]
    )
    by_period = np.argsort([_mean_step(clock) for clock in clocks])
    explained[by_period] = np.maximum.accumulate(explained[by_period])
    few = np.array([clock.steps < rules.clock.compound_steps for clock in clocks])
    price: Float64 = bits_of(pauses, by_clock, rules) - explained + few * rules.clock.margin_bits
    return price


def _mean_step(clock: StepClock) -> float:
    return float(clock.boundary_ns[-1] - clock.boundary_ns[0]) / max(clock.boundary_ns.size - 1, 1)


def _divides(fine: StepClock, coarse: StepClock, rules: LayoutRules) -> bool:
    """Does the finer clock tick a whole number of times, two and more, in each step of the coarser one? The medians
    of the steps tell where some ticks are missing, their means where parts of a step are of unlike length, the ticks
    themselves where few steps are as long as the others. One that ticks regularly less often than the coarser one does
    not."""
    if fine.period_ns <= 0.0 or fine.steps < coarse.steps:
        return False
    for times in (coarse.period_ns / fine.period_ns, _mean_step(coarse) / max(_mean_step(fine), 1.0)):
        if round(times) > 1 and abs(times / round(times) - 1.0) <= rules.clock.same_period:
            return True
    together = same_phase(coarse, fine, fine.period_ns, rules)
    return together and ticks_in_steps(fine.boundary_ns, coarse.boundary_ns, rules) is not None


def _phases(clock: StepClock, quiet: Silences, rules: LayoutRules) -> list[StepClock]:
    """The clock at other phases, each tick moved to the longest silence of the judges nearby."""
    result = []
    length = np.diff(clock.boundary_ns)
    for phase in np.arange(1, rules.clock.phases) / rules.clock.phases:
        centre = clock.boundary_ns[:-1] + (phase * length).astype(np.int64)
        reach = (length / (2 * rules.clock.phases)).astype(np.int64)
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
