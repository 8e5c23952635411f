"""The clock of a pipeline by what is outstanding: how many messages of a link are not answered yet.

Activations go ahead and gradients follow, so the bytes sent one way less those sent the other way, looked at in the
silences of a link, go through the same levels in every step: up by the messages of the warm-up, along, and down to
nothing where the step ends. The lowest level, or the highest, is passed once in a step. A micro-batch passes neither:
each is answered before the next but one, and the level stays. So where the silences at one of these two levels are
even in byte-space, with several messages between them, they are a step apart: however the passes pause, whatever
gathers of sharded stages fill them, and whether or not anything is synchronised at the end. Which of the two levels is
the end of the step is not decided here.

What two members of a collective send each other is answered at once: there is one level and no clock. Links of a tree
go up and down by one message each time.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.uneven_messages import bursts_of

__all__ = ["outstanding_clock"]


def outstanding_clock(transfers: TransferTable, bulk: Bool, rules: LayoutRules = RULES) -> StepClock | None:
    """The clock whose period most of the links agree about that show one; None where there is none. Links of one sort
    do the same: what few of them show is chance."""
    found: list[StepClock] = []
    for sort in _sorts(transfers, bulk, rules):
        shown = [_clocks(transfers, link, rules) for link in sort]
        if sum(map(bool, shown)) >= rules.clock.outstanding_agreed * len(sort):
            found += [clock for clocks in shown for clock in clocks]
    if not found:
        return None
    period = np.array([clock.period_ns for clock in found])
    agreeing = np.abs(period[:, None] / period - 1.0) <= rules.clock.same_period
    votes = agreeing.sum(axis=1)
    most = int(np.argmax(votes))
    if votes[most] <= rules.clock.outstanding_agreed * period.size:
        return None
    return max((found[i] for i in np.flatnonzero(agreeing[most])), key=lambda one: (one.dominance, one.steps))


def _sorts(transfers: TransferTable, bulk: Bool, rules: LayoutRules) -> list[list[tuple[int, int]]]:
    """The two directions of a few links of each sort that carry as much there as back, the heaviest sorts first."""
    one = np.flatnonzero(bulk)
    src, dst = transfers.pair_src[one].astype(np.int64), transfers.pair_dst[one].astype(np.int64)
    other = transfers.pairs_between(dst, src)
    one, other = one[other > one], other[other > one]
    size = transfers.pair_bytes.astype(np.float64)
    there, back = size[one], size[other]
    even = np.minimum(there, back) >= (1.0 - rules.clock.uneven_ways) * np.maximum(there, back)
    one, other, level = one[even], other[even], np.round(np.log(there[even]) / rules.clock.same_bytes)
    chosen = []
    for sort in np.unique(level)[::-1][: rules.clock.sorts_sampled]:
        few = np.flatnonzero(level == sort)[: rules.clock.outstanding_links]
        chosen.append(list(zip(one[few].tolist(), other[few].tolist(), strict=True)))
    return chosen


def _clocks(transfers: TransferTable, link: tuple[int, int], rules: LayoutRules) -> list[StepClock]:
    """The clocks of the silences at the lowest and at the highest level of one link; bursts are what lies between
    silences, of which it is not known how long they are."""
    rule = rules.clock
    found = []
    for silence in rule.outstanding_silences:
        bursts = bursts_of(transfers, link, silence)
        if bursts.there.size < rule.least_steps:
            continue
        unit = float(np.median(np.maximum(bursts.there, bursts.back)))
        level = np.cumsum(np.round((bursts.there - bursts.back) / max(unit, 1.0)))
        sent = np.cumsum(bursts.there + bursts.back) / (2.0 * max(unit, 1.0))
        if np.ptp(level) >= 1.0:
            ticks = (np.flatnonzero(level == extreme) for extreme in (level.min(), level.max()))
            clocks = [_even(bursts.end_ns, sent, at, rules) for at in ticks]
            found += [clock for clock in clocks if clock is not None]
    return found


def _even(end_ns: Int64, sent: Float64, at: Int64, rules: LayoutRules) -> StepClock | None:
    """The clock of these silences, where they cover the time and are of equal bytes, several messages each."""
    rule = rules.clock
    if at.size <= rule.least_steps:
        return None
    between = np.diff(sent[at])
    usual = float(np.median(between))
    regular: Bool = np.abs(between - usual) <= rule.step_tolerance * usual
    covered = float(end_ns[at[-1]] - end_ns[at[0]]) / max(float(end_ns[-1] - end_ns[0]), 1.0)
    share = covered * float(regular.mean())
    if usual < rule.outstanding_messages or share < rule.outstanding_even:
        return None
    return StepClock(end_ns[at], regular, share)
