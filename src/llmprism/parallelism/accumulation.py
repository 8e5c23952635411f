"""Gradient accumulation in sharded training: several passes over all layers make one step.

Every micro-batch gathers and reduces all layers, so its traffic repeats exactly and each pass looks like a step. But
only the last pass of a step is followed by the optimizer, before which no layer can be gathered again. The reduction of
one pass and the gathering of the next are one burst, which only every m-th tick interrupts. That is looked for at every
place of the tick, in places as small as single collectives: layers pause next to it for much longer than an optimizer
takes. Which ticks are interrupted is told in bits: by their share alone, and by their place among m. What the second
saves, less the price of saying which place of the tick and which of the m passes, must be more than chance saves.

A pause longer than half a pass is no optimizer: it is a checkpoint or an evaluation after every m-th step, and joins
nothing; neither does one before which every tick rests, as after an optimizer of its own. And a pass gathers layer
after layer, forward and backward: a tick most of whose silence is one is a step, with passes in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median, medians
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.phase import message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["between_passes", "longest_share"]


@dataclass(frozen=True, slots=True)
class _Rests:
    """The ticks counted by their bytes, and the longest silence in each (rows) at each place of its bytes (columns), in
    ns and as its number (-1: none)."""

    number: Int64
    longest: Int64
    which: Int64

    def at_places(self, together: int) -> _Rests:
        """The same with so many places taken as one, and each with its next: what lies at the border of two is one."""
        best = np.argmax(self.longest.reshape(self.number.size, -1, together), axis=2)
        column = np.arange(best.shape[1]) * together + best
        column = np.where(
            np.take_along_axis(self.longest, column[:, 1:], 1) > np.take_along_axis(self.longest, column[:, :-1], 1),
            column[:, 1:],
            column[:, :-1],
        )
        longest, which = (np.take_along_axis(one, column, axis=1) for one in (self.longest, self.which))
        return _Rests(self.number, longest, which)


@dataclass(frozen=True, slots=True)
class _LastPass:
    """The optimizer follows the pass of this number of so many, at this place; `bits` that it explains."""

    bits: float
    passes: int
    phase: int
    which: Int64


def between_passes(
    transfers: TransferTable, gradient: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> tuple[StepClock, int] | None:
    """Whole steps and their number of passes where the optimizer interrupts every m-th tick at one place of its bytes;
    None where no place shows it."""
    rule = rules.sharding
    if clock.period_ns <= 0.0 or clock.steps < 2 * rule.accumulated_steps:
        return None
    silences = message_silences(transfers, gradient)
    if not silences.count or longest_share(silences, clock) > rule.longest_layer:
        return None
    rests = _rests_by_place(silences, clock, max(rule.burst_places))
    found = [
        last
        for places in rule.burst_places
        for last in _last_passes(rests.at_places(max(rule.burst_places) // places), clock.period_ns, rules)
    ]
    if not found:
        return None
    last = max(found, key=lambda one: one.bits)
    ticks = np.flatnonzero(rests.number % last.passes == last.phase)
    whole = np.diff(rests.number[ticks]) == last.passes
    regular = np.array([clock.regular[a : b + 1].all() for a, b in pairwise(ticks)], dtype=np.bool_)
    return StepClock(_ends(silences, clock, ticks, last.which[ticks]), whole & regular, clock.dominance), last.passes


def _ends(silences: Silences, clock: StepClock, ticks: Int64, which: Int64) -> Int64:
    """Where the silences begin that end these ticks; one that was not seen, at the bytes of the others."""
    sent = np.interp(clock.boundary_ns, silences.begin_ns, silences.bytes_before)
    size, seen = np.diff(sent)[ticks], which >= 0
    place = median((silences.bytes_before[which] - sent[ticks])[seen] / np.maximum(size[seen], 1.0))
    supposed = np.interp(sent[ticks] + place * size, silences.bytes_before, silences.begin_ns).astype(np.int64)
    return np.where(seen, silences.begin_ns[which], supposed)


def longest_share(silences: Silences, clock: StepClock) -> float:
    """The longest silence of most ticks, as a share of the tick."""
    first = np.searchsorted(silences.begin_ns, clock.boundary_ns)
    filled = np.flatnonzero(np.diff(first) > 0)
    if not filled.size:
        return 0.0
    longest = np.maximum.reduceat(silences.length_ns, first[filled])
    return float(median(longest / np.diff(clock.boundary_ns)[filled]))


def _rests_by_place(silences: Silences, clock: StepClock, places: int) -> _Rests:
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
    return _Rests(number, np.where(which >= 0, silences.length_ns[which], 0), which)


def _last_passes(rests: _Rests, period_ns: float, rules: LayoutRules) -> list[_LastPass]:
    """Where a rest follows every m-th pass that is much longer than after the others: the places and numbers of passes
    that explain more than chance does."""
    rule, places = rules.sharding, rests.longest.shape[1]
    seen, uncut = np.quantile(rests.longest, [1.0 - 1.0 / rule.most_passes, rule.uncut_share], axis=0)
    tried = np.flatnonzero((seen >= rule.least_optimizer * period_ns) & (uncut * rule.burst_cut <= seen))
    rest, which, found = rests.longest[:, tried], rests.which[:, tried], []
    for passes in range(2, rule.most_passes + 1):
        of_pass = [rests.number % passes == phase for phase in range(passes)]
        if min(int(own.sum()) for own in of_pass) < rule.accumulated_steps or not tried.size:
            break
        usual = np.array([medians(rest[own], axis=0) for own in of_pass])
        phase = np.argmax(usual, axis=0)
        others, longest = np.sort(usual, axis=0)[-2:]
        stands_out = (longest >= rule.burst_cut * np.maximum(others, 1.0)) & (
            longest <= rule.longest_optimizer * period_ns
        )
        for i in np.flatnonzero(stands_out).tolist():
            interrupted = rest[:, i] * np.sqrt(rule.burst_cut) > longest[i]
            bits = _explained(interrupted, of_pass[phase[i]]) - float(np.log2(places * rule.most_passes * passes))
            if bits >= rules.clock.compound_bits:
                found.append(_LastPass(bits, passes, int(phase[i]), which[:, i]))
    return found


def _explained(interrupted: Bool, last: Bool) -> float:
    """Bits that it saves to say which ticks are interrupted if it is known which are the last of a step."""
    return _entropy(interrupted) - _entropy(interrupted[last]) - _entropy(interrupted[~last])


def _entropy(one: Bool) -> float:
    """Bits of a row of zeros and ones whose share of ones is known."""
    share: Float64 = np.array([one.mean(), 1.0 - one.mean()]) if one.size else np.ones(1)
    return float(-one.size * (share * np.log2(np.maximum(share, 1e-12))).sum())
