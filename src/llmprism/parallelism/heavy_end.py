"""Where a sharded step ends: after its heavier part.

Fully sharded training sends in every part of the step, and its longest pause may be anywhere. But the two passes
differ: forward, each layer is gathered; backward, it is gathered again and its gradients are reduced, and it takes
twice as long to compute. So between two pauses the backward pass sends two or three times as much as the forward pass,
with accumulated gradients only in the last pass. A step ends where heavy bursts before give way to light ones after.
The first burst of a step may be heavy too, because the first layers are gathered ahead; so of the two pauses around
the last heavy burst the longer one is the end: the optimizer takes longer than a layer. And the last layer's reduction
may be a light burst of its own, cut off from the gathers that would make it a heavy one; then it is the pause after it
that is clearly longer, and the end.

Buckets of replicated training leave a few pauses in a step, and any order of their sizes: what has no more pauses than
they is not judged.

Bursts are what lies between the longer pauses of all sharded pairs together, or of the busiest pair where somebody is
always sending. The place is found in byte-space, where steps repeat exactly.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.row_silences import silences_of_rows
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["HeavyEnd", "heavy_end", "long_pauses", "pause_series"]


@dataclass(frozen=True, slots=True)
class HeavyEnd:
    """`shift` is the share of a step's bytes from the clock's boundary to the end of the step; `bursts` how many there
    are in a step."""

    shift: float
    bursts: int


def heavy_end(transfers: TransferTable, pairs: Bool, clock: StepClock, rules: LayoutRules = RULES) -> HeavyEnd | None:
    """Where the steps end by the weight of their bursts; None where one pause stands out or weight does not tell."""
    if clock.steps < 3:
        return None
    silences = pause_series(transfers, pairs, clock, rules)
    if silences is None:
        return None
    position = silences.bytes_before.astype(np.float64)
    boundary = np.searchsorted(silences.begin_ns, clock.boundary_ns, side="right") - 1
    begins = position[np.maximum(boundary, 0)]
    step_bytes = float(np.median(np.diff(begins)[clock.regular]))
    if step_bytes <= 0:
        return None
    pauses = long_pauses(silences, clock, rules)
    if pauses.size < max(rules.ends.turn_pauses * clock.steps, 4):
        return None
    where, length = position[pauses], silences.length_ns[pauses].astype(np.float64)
    weight = np.diff(where)
    step = np.searchsorted(begins, where, side="right") - 1
    known = (step >= 0) & (step < begins.size - 1)
    size = np.where(known, begins[np.minimum(step + 1, begins.size - 1)] - begins[np.maximum(step, 0)], 1.0)
    place = np.where(known, (where - begins[np.maximum(step, 0)]) / np.maximum(size, 1.0), -1.0)
    if _one_stands_out(place, length, step, known, rules):
        return None
    contrast = _contrast(where, weight, rules.ends.compared_bytes * step_bytes)
    return _best_place(place[known], contrast[known], length[known], clock.steps, weight, step_bytes, rules)


def pause_series(transfers: TransferTable, pairs: Bool, clock: StepClock, rules: LayoutRules) -> Silences | None:
    """All pairs together, or the busiest one; None where neither pauses often enough."""
    busiest = np.zeros_like(pairs)
    amount = np.where(pairs, transfers.pair_bytes, 0)
    busiest[int(np.argmax(amount))] = True
    for chosen in (pairs, busiest):
        found = silences_of_rows(transfers, np.flatnonzero(transfers.messages_of(chosen)))
        if found.count >= rules.ends.pauses_of_parts * (clock.boundary_ns.size - 1):
            return found
    return None


def long_pauses(silences: Silences, clock: StepClock, rules: LayoutRules) -> Int64:
    """The pauses that are not much shorter than a step's usual ones: shorter ones lie within bursts."""
    step = clock.step_at(silences.begin_ns)
    inside = np.flatnonzero(step >= 0)
    longest = np.zeros(clock.boundary_ns.size - 1)
    np.maximum.at(longest, step[inside], silences.length_ns[inside].astype(np.float64))
    total = np.bincount(step[inside], silences.length_ns[inside], minlength=longest.size)
    bursts = max(float(np.median(total[longest > 0] / longest[longest > 0])), 1.0) if (longest > 0).any() else 1.0
    mean = float(np.median(total)) / max(2.0 * bursts, 1.0)
    return np.flatnonzero(silences.length_ns >= rules.ends.compared_pauses * mean)


def _one_stands_out(place: Float64, length: Float64, step: Int64, known: Bool, rules: LayoutRules) -> bool:
    """Is the longest pause of most steps much longer than any pause at another place, and longer than layers take?

    Passes of accumulated gradients that reduce nothing leave nothing to send between them: the longest pause of such a
    step lies between two of its passes, as long as a layer or two take, and not at its end.
    """
    if float(median(length[known])) * rules.ends.turn_pause > _longest_of_steps(length[known], step[known]):
        return False
    order = np.flatnonzero(known)
    order = order[np.lexsort((-length[order], step[order]))]
    _, first, count = np.unique(step[order], return_index=True, return_counts=True)
    longest = np.repeat(order[first], count)
    elsewhere = np.abs((place[order] - place[longest] + 0.5) % 1.0 - 0.5) > 2.0 / rules.ends.heavy_places
    others = np.zeros(first.size)
    np.maximum.at(others, np.repeat(np.arange(first.size), count)[elsewhere], length[order[elsewhere]])
    return bool(np.median(length[order[first]] / np.maximum(others, 1.0)) >= rules.ends.longest_stands_out)


def _longest_of_steps(length: Float64, step: Int64) -> float:
    """The longest pause of most steps."""
    longest = np.zeros(int(step.max(initial=0)) + 1)
    np.maximum.at(longest, step, length)
    return float(median(longest[longest > 0]))


def _contrast(where: Float64, weight: Float64, reach: float) -> Float64:
    """Logarithm of the mean burst before each pause relative to that after it, by bytes."""
    moment = np.concatenate([[0.0], np.cumsum(weight**2)])
    before = np.interp(where, where, moment) - np.interp(where - reach, where, moment)
    after = np.interp(where + reach, where, moment) - np.interp(where, where, moment)
    known = (where - reach >= where[0]) & (where + reach <= where[-1])
    return np.where(known, np.log(np.maximum(before, 1.0) / np.maximum(after, 1.0)), 0.0)


def _best_place(
    place: Float64,
    contrast: Float64,
    length: Float64,
    steps: int,
    weight: Float64,
    step_bytes: float,
    rules: LayoutRules,
) -> HeavyEnd | None:
    """The place at which most steps pause and become lightest."""
    rule = rules.ends
    slot = np.minimum((place * rule.heavy_places).astype(np.int64), rule.heavy_places - 1)
    seen, lightening, pause = (_around(slot, values, rules) for values in (np.ones(slot.size), contrast, length))
    often = seen >= rule.heavy_seen * steps
    mean = np.where(often, lightening / np.maximum(seen, 1.0), -np.inf)
    best = int(np.argmax(mean))
    if not mean[best] >= rule.heavier_before:
        return None
    if (
        2.0 * seen[0] >= rule.heavy_seen * steps and lightening[0] / seen[0] >= mean[best] - rule.heavier_before
    ):  # the clock's own place
        return HeavyEnd(0.0, rule.most_bursts)
    before = (best - 2 - np.arange(int(rule.first_burst * rule.heavy_places))) % rule.heavy_places
    earlier = before[often[before] & (mean[before] >= 0.5 * mean[best])]
    if earlier.size and pause[earlier[0]] / seen[earlier[0]] > pause[best] / seen[best]:
        best = int(earlier[0])
    best = _after_the_last(best, often, pause / np.maximum(seen, 1.0), rules)
    around = np.abs((place - (best + 0.5) / rule.heavy_places + 0.5) % 1.0 - 0.5) <= 1.5 / rule.heavy_places
    offset = (place[around] - (best + 0.5) / rule.heavy_places + 0.5) % 1.0 - 0.5
    shift = ((best + 0.5) / rule.heavy_places + float(np.median(offset))) % 1.0
    bursts = round(step_bytes / float(np.median(weight)))
    return HeavyEnd(shift, min(max(2, bursts), rule.most_bursts))


def _after_the_last(best: int, often: Bool, pause: Float64, rules: LayoutRules) -> int:
    """The next place after the best one at which most steps pause, if it is within a burst of it and the pause is
    clearly longer; else the best one."""
    rule = rules.ends
    after = (best + 2 + np.arange(int(rule.compared_bytes * rule.heavy_places))) % rule.heavy_places
    apart = after[often[after] & ~often[after - 1]]  # a pause is seen at three places in a row
    following = int(apart[0]) + 1 if apart.size else best
    following %= rule.heavy_places
    return following if pause[following] >= rule.longer_after * pause[best] else best


def _around(slot: Int64, values: Float64, rules: LayoutRules) -> Float64:
    """Sums of the values by slot, those of the two neighbouring slots added."""
    total: Float64 = np.bincount(slot, values, minlength=rules.ends.heavy_places).astype(np.float64)
    return total + np.roll(total, 1) + np.roll(total, -1)
