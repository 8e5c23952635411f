"""Gradient accumulation in sharded training: several passes over all layers make one step.

Every micro-batch gathers and reduces all layers, so its traffic repeats exactly and each pass looks like a step. But
only the last pass of a step is followed by the optimizer, before which no layer can be gathered again. The reduction of
one pass and the gathering of the next are one burst, which only every m-th tick interrupts. That is looked for at every
place of the tick. A pause longer than half a pass is no optimizer: it is a checkpoint or an evaluation after every m-th
step, and joins nothing; neither does one before which every tick rests, as after an optimizer of its own. Gathering and
reduction are a third of a pass's bytes each at least, so a pause next to the place where every tick rests for most of
its time is no optimizer between the two: replicas synchronise there, and some of them later (logging, data).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool, Int64, median, medians
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.phase import message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["between_passes"]


def between_passes(
    transfers: TransferTable, gradient: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> tuple[StepClock, int] | None:
    """Whole steps and their number of passes where the optimizer interrupts every m-th tick at one place of its bytes;
    None where no place shows it."""
    rule = rules.sharding
    if clock.period_ns <= 0.0 or clock.steps < 2 * rule.accumulated_steps:
        return None
    silences = message_silences(transfers, gradient)
    if not silences.count:
        return None
    number, longest, which = _longest_by_place(silences, clock, rule.burst_places)
    seen = np.quantile(longest, 1.0 - 1.0 / rule.most_passes, axis=0)
    seen[_next_to_rest(longest, clock.period_ns, rules)] = 0.0
    for place in np.argsort(seen)[::-1][: rule.bursts_tried].tolist():
        rest = longest[:, place]
        uncut = float(np.quantile(rest, rule.uncut_share))
        if seen[place] < rule.least_optimizer * clock.period_ns or uncut > seen[place] / rule.burst_cut:
            continue
        for passes in range(2, rule.most_passes + 1):
            phase = _last_pass(number, rest, passes, clock.period_ns, rules)
            if phase is not None:
                ticks = np.flatnonzero((number % passes == phase) & (which[:, place] >= 0))
                whole = np.diff(number[ticks]) == passes
                regular = np.array([clock.regular[a : b + 1].all() for a, b in pairwise(ticks)], dtype=np.bool_)
                return StepClock(silences.begin_ns[which[ticks, place]], whole & regular, clock.dominance), passes
    return None


def _longest_by_place(silences: Silences, clock: StepClock, places: int) -> tuple[Int64, Int64, Int64]:
    """The ticks counted by their bytes, and the longest silence in each (rows) at each two neighbouring places of its
    bytes (columns), in ns and as its number (-1: none)."""
    step = np.searchsorted(clock.boundary_ns, silences.begin_ns, side="right") - 1
    inside = np.flatnonzero((step >= 0) & (step < clock.boundary_ns.size - 1))
    sent = np.interp(clock.boundary_ns, silences.begin_ns, silences.bytes_before)
    size = np.maximum(np.diff(sent), 1.0)
    number = np.concatenate([[0], np.cumsum(np.maximum(1, np.rint(size / median(size))))])[:-1].astype(np.int64)
    share = (silences.bytes_before[inside] - sent[step[inside]]) / size[step[inside]]
    place = np.clip((share * places).astype(np.int64), 0, places - 1)
    which = np.full((clock.boundary_ns.size - 1, places), -1, dtype=np.int64)
    order = np.argsort(silences.length_ns[inside], kind="stable")  # of those of one cell the longest is written last
    which[step[inside[order]], place[order]] = inside[order]
    longest = np.where(which >= 0, silences.length_ns[which], 0)
    second = longest[:, 1:] > longest[:, :-1]
    return number, np.maximum(longest[:, 1:], longest[:, :-1]), np.where(second, which[:, 1:], which[:, :-1])


def _next_to_rest(longest: Int64, period_ns: float, rules: LayoutRules) -> Int64:
    """The places next to the one at which ticks rest for more than half of their time; none where they do not."""
    usual, places = medians(longest, axis=0), longest.shape[1]
    rest = int(np.argmax(usual))
    if usual[rest] <= rules.sharding.longest_optimizer * period_ns:
        return np.zeros(0, dtype=np.int64)
    away = np.abs((np.arange(places) - rest + places // 2) % places - places // 2)
    return np.flatnonzero(away < rules.sharding.least_gathered * places)


def _last_pass(number: Int64, rest: Int64, passes: int, period_ns: float, rules: LayoutRules) -> int | None:
    """Which pass of `passes` is followed by the optimizer, a rest much longer than after the others; None where no one
    stands out."""
    rule = rules.sharding
    known = rest >= 0
    by_pass = [rest[known & (number % passes == phase)] for phase in range(passes)]
    if min(part.size for part in by_pass) < rule.accumulated_steps:
        return None
    usual = np.array([median(part) for part in by_pass])
    phase = int(np.argmax(usual))
    others = np.delete(usual, phase)
    if usual[phase] > rule.longest_optimizer * period_ns or usual[phase] < rule.burst_cut * max(
        float(others.max()), 1.0
    ):
        return None
    above = by_pass[phase] > float(others.max())
    below = np.concatenate([part for p, part in enumerate(by_pass) if p != phase]) < usual[phase]
    return phase if min(above.mean(), below.mean()) >= rule.last_pass_longest else None
