"""Where a sharded step ends: after its heavier part.

Fully sharded training sends in every part of the step, and its longest pause may be anywhere. But the two passes
differ: forward, each layer is gathered; backward, it is gathered again and its gradients are reduced, and it takes
twice as long to compute. So between two pauses the backward pass sends two or three times as much as the forward pass,
with accumulated gradients only in the last pass. A step ends where heavy bursts before give way to light ones after.
The first burst of a step may be heavy too, because the first layers are gathered ahead; so of the two pauses around
the last heavy burst the longer one is the end: the optimizer takes longer than a layer.

Bursts are what lies between the longer pauses of all sharded pairs together, or of the busiest pair where somebody is
always sending. The place is found in byte-space, where steps repeat exactly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable
from llmprism.parallelism.row_silences import silences_of_rows
from llmprism.stats.silences import Silences

__all__ = ["HeavyEnd", "heavy_end"]

REACH: Final = 0.2
"""Share of a step's bytes before and after a pause that are compared: less than the forward pass, a quarter to a third
of the bytes; more than the embedding or the head alone."""

PLACES: Final = 200
"""Places of the step that are told apart."""

MANY: Final = 4
"""Pauses per step from which a series shows the parts of the step."""

LONGER: Final = 0.2
"""Pauses are compared down to this share of the mean of the longest pause of each step over the number of bursts..."""

STANDS_OUT: Final = 1.8
"""Longest pause of a step relative to the next longest one, from which it ends the step by itself."""

HEAVIER: Final = 0.3
"""Logarithm of the weight before relative to the weight after: a third more. Backward bursts are twice as heavy or
more; a job without this difference is not sharded."""

FIRST_BURST: Final = 0.15
"""Share of a step's bytes that the first burst takes at most: two layers and the embedding."""

MOST_BURSTS: Final = 25
"""Bursts that are told apart when the place is looked for in each step: it varies by more than a hundredth."""

SEEN: Final = 0.6
"""Share of the steps in which the place must be a pause."""


@dataclass(frozen=True, slots=True)
class HeavyEnd:
    """`shift` is the share of a step's bytes from the clock's boundary to the end of the step; `bursts` how many there
    are in a step."""

    shift: float
    bursts: int


def heavy_end(transfers: TransferTable, pairs: Bool, clock: StepClock) -> HeavyEnd | None:
    """Where the steps end by the weight of their bursts; None where one pause stands out or weight does not tell."""
    if clock.steps < 3:
        return None
    silences = _series(transfers, pairs, clock)
    if silences is None:
        return None
    position = silences.bytes_before.astype(np.float64)
    boundary = np.searchsorted(silences.begin_ns, clock.boundary_ns, side="right") - 1
    begins = position[np.maximum(boundary, 0)]
    step_bytes = float(np.median(np.diff(begins)[clock.regular]))
    if step_bytes <= 0:
        return None
    pauses = _long_pauses(silences, clock)
    where, length = position[pauses], silences.length_ns[pauses].astype(np.float64)
    weight = np.diff(where)
    if weight.size < 3:
        return None
    step = np.searchsorted(begins, where, side="right") - 1
    known = (step >= 0) & (step < begins.size - 1)
    size = np.where(known, begins[np.minimum(step + 1, begins.size - 1)] - begins[np.maximum(step, 0)], 1.0)
    place = np.where(known, (where - begins[np.maximum(step, 0)]) / np.maximum(size, 1.0), -1.0)
    if _one_stands_out(place, length, step, known):
        return None
    contrast = _contrast(where, weight, REACH * step_bytes)
    return _best_place(place[known], contrast[known], length[known], clock.steps, weight, step_bytes)


def _series(transfers: TransferTable, pairs: Bool, clock: StepClock) -> Silences | None:
    """All pairs together, or the busiest one; None where neither pauses often enough."""
    busiest = np.zeros_like(pairs)
    amount = np.where(pairs, transfers.pair_bytes, 0)
    busiest[int(np.argmax(amount))] = True
    for chosen in (pairs, busiest):
        found = silences_of_rows(transfers, np.flatnonzero(transfers.messages_of(chosen)))
        if found.count >= MANY * (clock.boundary_ns.size - 1):
            return found
    return None


def _long_pauses(silences: Silences, clock: StepClock) -> Int64:
    """The pauses that are not much shorter than a step's usual ones: shorter ones lie within bursts."""
    step = clock.step_at(silences.begin_ns)
    inside = np.flatnonzero(step >= 0)
    longest = np.zeros(clock.boundary_ns.size - 1)
    np.maximum.at(longest, step[inside], silences.length_ns[inside].astype(np.float64))
    total = np.bincount(step[inside], silences.length_ns[inside], minlength=longest.size)
    bursts = max(float(np.median(total[longest > 0] / longest[longest > 0])), 1.0) if (longest > 0).any() else 1.0
    mean = float(np.median(total)) / max(2.0 * bursts, 1.0)
    return np.flatnonzero(silences.length_ns >= LONGER * mean)


def _one_stands_out(place: Float64, length: Float64, step: Int64, known: Bool) -> bool:
    """Is the longest pause of most steps much longer than any pause at another place?"""
    order = np.flatnonzero(known)
    order = order[np.lexsort((-length[order], step[order]))]
    _, first, count = np.unique(step[order], return_index=True, return_counts=True)
    longest = np.repeat(order[first], count)
    elsewhere = np.abs((place[order] - place[longest] + 0.5) % 1.0 - 0.5) > 2.0 / PLACES
    others = np.zeros(first.size)
    np.maximum.at(others, np.repeat(np.arange(first.size), count)[elsewhere], length[order[elsewhere]])
    return bool(np.median(length[order[first]] / np.maximum(others, 1.0)) >= STANDS_OUT)


def _contrast(where: Float64, weight: Float64, reach: float) -> Float64:
    """Logarithm of the mean burst before each pause relative to that after it, by bytes."""
    moment = np.concatenate([[0.0], np.cumsum(weight**2)])
    before = np.interp(where, where, moment) - np.interp(where - reach, where, moment)
    after = np.interp(where + reach, where, moment) - np.interp(where, where, moment)
    known = (where - reach >= where[0]) & (where + reach <= where[-1])
    return np.where(known, np.log(np.maximum(before, 1.0) / np.maximum(after, 1.0)), 0.0)


def _best_place(
    place: Float64, contrast: Float64, length: Float64, steps: int, weight: Float64, step_bytes: float
) -> HeavyEnd | None:
    """The place at which most steps pause and become lightest."""
    slot = np.minimum((place * PLACES).astype(np.int64), PLACES - 1)
    seen, lightening, pause = (_around(slot, values) for values in (np.ones(slot.size), contrast, length))
    often = seen >= SEEN * steps
    mean = np.where(often, lightening / np.maximum(seen, 1.0), -np.inf)
    best = int(np.argmax(mean))
    if not mean[best] >= HEAVIER:
        return None
    if 2.0 * seen[0] >= SEEN * steps and lightening[0] / seen[0] >= mean[best] - HEAVIER:  # the clock's own place
        return HeavyEnd(0.0, MOST_BURSTS)
    before = (best - 2 - np.arange(int(FIRST_BURST * PLACES))) % PLACES
    earlier = before[often[before] & (mean[before] >= 0.5 * mean[best])]
    if earlier.size and pause[earlier[0]] / seen[earlier[0]] > pause[best] / seen[best]:
        best = int(earlier[0])
    around = np.abs((place - (best + 0.5) / PLACES + 0.5) % 1.0 - 0.5) <= 1.5 / PLACES
    offset = (place[around] - (best + 0.5) / PLACES + 0.5) % 1.0 - 0.5
    shift = ((best + 0.5) / PLACES + float(np.median(offset))) % 1.0
    bursts = round(step_bytes / float(np.median(weight)))
    return HeavyEnd(shift, min(max(2, bursts), MOST_BURSTS))


def _around(slot: Int64, values: Float64) -> Float64:
    """Sums of the values by slot, those of the two neighbouring slots added."""
    total: Float64 = np.bincount(slot, values, minlength=PLACES).astype(np.float64)
    return total + np.roll(total, 1) + np.roll(total, -1)
