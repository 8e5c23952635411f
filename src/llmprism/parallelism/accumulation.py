"""Gradient accumulation in sharded training: several passes over all layers make one step.

Every micro-batch gathers and reduces all layers, so its traffic repeats exactly and each pass looks like a step. But
only the last pass of a step is followed by the optimizer, before which no layer can be gathered again. The reduction of
one pass and the gathering of the next are one burst, which only every m-th tick interrupts. That is looked for at every
place of the tick. A pause longer than half a pass is no optimizer: it is a checkpoint or an evaluation after every m-th
step, and joins nothing; neither does one before which every tick rests, as after an optimizer of its own. And a pass
gathers layer after layer, forward and backward: a tick most of whose silence is one is a step, with passes in it.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool, Int64, median
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
    if not silences.count or _longest_share(silences, clock) > rule.longest_layer:
        return None
    number, longest, which = _longest_by_place(silences, clock, rule.burst_places)
    seen = np.quantile(longest, 1.0 - 1.0 / rule.most_passes, axis=0)
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


def _longest_share(silences: Silences, clock: StepClock) -> float:
    """The longest silence of most ticks, as a share of the tick."""
    first = np.searchsorted(silences.begin_ns, clock.boundary_ns)
    filled = np.flatnonzero(np.diff(first) > 0)
    if not filled.size:
        return 0.0
    longest = np.maximum.reduceat(silences.length_ns, first[filled])
    return float(median(longest / np.diff(clock.boundary_ns)[filled]))


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
