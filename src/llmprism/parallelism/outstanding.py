"""The clock of a pipeline by what is outstanding: how many messages of a link are not answered yet.

Activations go ahead and gradients follow, so the bytes sent one way less those sent the other way, looked at in the
silences of a link, go through the same levels in every step: up by the messages of the warm-up, along, and down to
nothing where the step ends. The lowest level, or the highest, is passed once in a step. A micro-batch passes neither:
each is answered before the next but one, and the level stays. So where the silences at one of these two levels are
even in byte-space, with several messages between them, they are a step apart: however the passes pause, whatever
gathers of sharded stages fill them, and whether or not anything is synchronised at the end. Which of the two levels is
the end of the step is not decided here.

What two members of a collective send each other is answered at once: there is one level and no clock. Links of a tree
go up and down by one message each time. So links that show such a clock pass activations on, whatever else they look
like: with 64 micro-batches that are sent in one batch with the gradients of those before, all but the first and last
message of a step leave at one time both ways, as two replicas would send them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.uneven_messages import Bursts, bursts_of

__all__ = ["OutstandingSteps", "outstanding_steps"]


@dataclass(frozen=True, slots=True)
class OutstandingSteps:
    """The clock of what is outstanding, and one direction of each link looked at of the sorts most of whose links agree
    about it."""

    clock: StepClock
    pairs: tuple[int, ...]


def outstanding_steps(transfers: TransferTable, bulk: Bool, rules: LayoutRules = RULES) -> OutstandingSteps | None:
    """The clock whose period most of the links agree about that show one; None where there is none. Links of one sort
    do the same: what few of them show is chance."""
    sorts = _sorts(transfers, bulk, rules)
    shown = [[_clocks(transfers, link, rules) for link in sort] for sort in sorts]
    believed = [clocks for clocks in shown if sum(map(bool, clocks)) >= rules.clock.outstanding_agreed * len(clocks)]
    found = [clock for clocks in believed for own in clocks for clock in own]
    if not found:
        return None
    period = np.array([clock.period_ns for clock in found])
    agreeing = np.abs(np.log(period[:, None] / period)) < np.log(rules.clock.slower)
    votes = agreeing.sum(axis=1)
    most = int(np.argmax(votes))
    if votes[most] <= rules.clock.outstanding_agreed * period.size:
        return None
    agreed = {id(found[i]) for i in np.flatnonzero(agreeing[most])}
    clock = max((one for one in found if id(one) in agreed), key=lambda one: (one.dominance, one.steps))
    passing: list[int] = []
    for sort, clocks in zip(sorts, shown, strict=True):
        if np.mean([any(id(one) in agreed for one in own) for own in clocks]) >= rules.clock.outstanding_sort:
            passing += [link[0] for link in sort]
    return OutstandingSteps(clock, tuple(passing))


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
    """The clocks of the silences at the lowest and at the highest levels of one link; bursts are what lies between
    silences, of which it is not known how long they are."""
    rule = rules.clock
    found: list[StepClock] = []
    counted = 0
    for silence in rule.outstanding_silences:
        bursts = bursts_of(transfers, link, silence)
        if bursts.there.size < rule.least_steps or bursts.there.size == counted:
            continue
        counted = bursts.there.size
        unit = max(float(median(np.maximum(bursts.there, bursts.back))), 1.0)
        ways = np.concatenate([bursts.there, bursts.back]).reshape(2, -1) / unit
        for level in _levels(bursts, unit, rules):
            extremes = (_passed(level, rules), _passed(-level, rules))
            for each in (ways, np.round(ways)):  # sequences of many lengths: messages are counted
                sent = np.cumsum(each.sum(axis=0)) / 2.0
                clocks = (_even(bursts.end_ns, sent, at, rules) for at in extremes)
                found += [clock for clock in clocks if clock is not None]
    slowest = max((clock.period_ns for clock in found), default=0.0)  # chunks pass a level several times in a step
    return [clock for clock in found if clock.period_ns * rule.slower > slowest]


def _levels(bursts: Bursts, unit: float, rules: LayoutRules) -> list[Float64]:
    """Messages outstanding after each burst: added up one by one, and as the rounded sum of bytes, whose drift (bytes
    that are lost, or vary) is what neighbouring bursts have in common besides whole messages."""
    ahead = (bursts.there - bursts.back) / unit
    total = np.cumsum(ahead)
    window = np.ones(min(rules.clock.drift_bursts, ahead.size))
    common = np.angle(np.convolve(np.exp(2j * np.pi * total), window, "same"))
    one_by_one, in_all = np.cumsum(np.round(ahead)), np.round(total - np.unwrap(common) / (2 * np.pi))
    return [one_by_one] if np.ptp(one_by_one - in_all) == 0.0 else [one_by_one, in_all]


def _passed(level: Float64, rules: LayoutRules) -> Int64:
    """Where the lowest level begins, each time; where that is seldom, because a burst was cut in two, the next one."""
    begins = np.zeros(0, dtype=np.int64)
    for one in np.unique(level)[:-1][: rules.clock.outstanding_levels]:
        low = level <= one
        begins = np.flatnonzero(low & ~np.concatenate([[False], low[:-1]]))
        if begins.size > rules.clock.least_steps:
            break
    return begins


def _even(end_ns: Int64, sent: Float64, at: Int64, rules: LayoutRules) -> StepClock | None:
    """The clock of these silences, where they cover the time and are of equal bytes, several messages each; of those of
    them that follow each other so, where stalls make others."""
    found = _clock_at(end_ns, sent, at, rules)
    return _clock_at(end_ns, sent, at[_chain(sent[at], rules)], rules) if found is None else found


def _clock_at(end_ns: Int64, sent: Float64, at: Int64, rules: LayoutRules) -> StepClock | None:
    rule = rules.clock
    if at.size <= rule.least_steps:
        return None
    between = np.diff(sent[at])
    usual = float(median(between))
    regular: Bool = np.abs(between - usual) <= rule.step_tolerance * usual
    covered = float(end_ns[at[-1]] - end_ns[at[0]]) / max(float(end_ns[-1] - end_ns[0]), 1.0)
    share = covered * float(regular.mean())
    if usual < rule.outstanding_messages or share < rule.outstanding_even:
        return None
    return StepClock(end_ns[at], regular, share)


def _chain(place: Float64, rules: LayoutRules) -> Int64:
    """Of these ascending places those that follow each other at one distance, the distance and the beginning with which
    they reach farthest; none where there are too many places to tell, or as many others: these may be steps too."""
    rule = rules.clock
    best, reach = np.zeros(0, dtype=np.int64), 0.0
    if not rule.least_steps < place.size <= rule.chained_places:
        return best
    distances = np.concatenate([place[k:] - place[:-k] for k in range(1, rule.stalls_in_step + 2)])
    for distance in _frequent(distances[distances >= rule.outstanding_messages], rules):
        near = np.searchsorted(place, place + (1.0 - rule.step_tolerance) * distance)
        beyond = np.append(place, np.inf)[near] - place > (1.0 + rule.step_tolerance) * distance
        after = np.where(beyond, -1, near).tolist()
        for first in range(rule.stalls_in_step + 1):
            chain = [first]
            while (following := after[chain[-1]]) >= 0:
                chain.append(following)
            if place[chain[-1]] - place[first] > reach:
                best, reach = np.array(chain), float(place[chain[-1]] - place[first])
    others = int(best[-1] - best[0]) + 1 - best.size if best.size else 0
    return best if others <= rule.stalled_steps * best.size else best[:0]


def _frequent(distances: Float64, rules: LayoutRules) -> Float64:
    """The few most frequent of these distances, each the median of those that are alike."""
    level = np.round(np.log(distances) / rules.clock.step_tolerance).astype(np.int64)
    found, count = np.unique(level, return_counts=True)
    often = found[np.argsort(-count, kind="stable")][: rules.clock.chained_distances]
    return np.array([median(distances[np.abs(level - one) <= 1]) for one in often])
