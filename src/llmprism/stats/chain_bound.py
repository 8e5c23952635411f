"""Which trial spacings cannot be dominant, whatever chain is found for them: a bound that needs no chain.

`byte_steps` tries some hundreds of spacings and finds the best chain for each, which takes a loop over all silences.
A dominant chain needs many *dominant links*: two silences about one spacing apart with no silence between them that is
as long as both. A silence that is followed too early by one as long as itself begins no such link. How many of the
others can lie one spacing apart is counted in one pass, and nine trials of ten fall through.

The bound allows for everything that a trial may do: the spacing moves by the tolerance when it is refined, and the
links keep the tolerance of the refined one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["ROUNDING", "most_links", "next_as_long"]

ROUNDING: Final = 1e-9
"""Relative slack for the rounding of the trial's own arithmetic."""


@kernel
def next_as_long(weight: Float64) -> Int64:
    """For each silence the next one that is as long or longer; the number of silences where none is."""
    following = np.full(weight.size, weight.size, dtype=np.int64)
    for i in range(weight.size - 2, -1, -1):
        j = i + 1
        while j < weight.size and weight[j] < weight[i]:
            j = following[j]
        following[i] = j
    return following


def _most_by_arrays(
    position: Float64, weight: Float64, following: Int64, least: float, spacing: float, tolerance: float, guard: float
) -> int:
    """The kernel below without a loop over silences; begins are counted in cells of the shortest link."""
    shortest = spacing * (1.0 - tolerance) ** 2 * (1.0 - ROUNDING)
    farthest = spacing * (1.0 + tolerance) ** 2 * (1.0 + ROUNDING)
    edge = guard * spacing * (1.0 + tolerance) * (1.0 + ROUNDING)
    chosen = np.flatnonzero(weight >= least)
    begin = position[chosen]
    end = np.searchsorted(position, begin + shortest)
    linked = end < np.searchsorted(position, begin + farthest, side="right")
    chosen, begin = chosen[linked], begin[linked]
    beyond, after = np.append(position, np.inf), np.append(following, position.size)
    rival = following[chosen]
    while (early := beyond[rival] <= begin + edge).any():
        rival = np.where(early, after[rival], rival)
    return int(np.unique(np.floor(begin[beyond[rival] >= begin + shortest - edge] / shortest)).size)


@kernel(small=_most_by_arrays)
def most_links(
    position: Float64, weight: Float64, following: Int64, least: float, spacing: float, tolerance: float, guard: float
) -> int:
    """Dominant links that can lie side by side at most, between silences of at least this length.

    `following` is `next_as_long`; `guard` is the share of a step next to a boundary where silences do not count.
    """
    n = position.size
    shortest = spacing * (1.0 - tolerance) ** 2 * (1.0 - ROUNDING)
    farthest = spacing * (1.0 + tolerance) ** 2 * (1.0 + ROUNDING)
    edge = guard * spacing * (1.0 + tolerance) * (1.0 + ROUNDING)
    count, end, free = 0, 0, position[0]
    for i in range(n):
        if weight[i] < least or position[i] < free:
            continue
        while end < n and position[end] < position[i] + shortest:
            end += 1
        if end == n:
            break
        rival = following[i]
        while rival < n and position[rival] <= position[i] + edge:
            rival = following[rival]
        inside = rival < n and position[rival] < position[i] + shortest - edge
        if not inside and position[end] <= position[i] + farthest:
            count += 1
            free = position[i] + shortest
    return count
