"""Which trial spacings cannot be dominant, whatever chain is found for them: a bound that needs no chain.

`byte_steps` tries some hundreds of spacings and finds the best chain for each, which takes a loop over all silences.
A dominant chain needs many *dominant links*: two silences about one spacing apart with no silence between them that is
as long as both. A silence that is followed too early by one as long as itself begins no such link, and one that follows
such a one too early ends none. How many links the others can make side by side is counted in one pass, and most trials
fall through.

The bound allows for everything that a trial may do: the spacing moves by the tolerance when it is refined, and the
links keep the tolerance of the refined one.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.kernel import kernel

__all__ = ["ROUNDING", "enough_links", "last_as_long", "longest_alone", "next_as_long"]

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


def last_as_long(weight: Float64) -> Int64:
    """For each silence the last one before it that is as long or longer; -1 where none is."""
    preceding: Int64 = weight.size - 1 - next_as_long(weight[::-1].copy())[::-1]
    return preceding


def _longest_by_arrays(
    position: Float64, weight: Float64, following: Int64, preceding: Int64, least: float
) -> tuple[Float64, Float64, Int64, Int64]:
    """The kernel below without a loop."""
    chosen = weight >= least
    before = np.concatenate([[0], np.cumsum(chosen)])
    behind = preceding[chosen]
    return position[chosen], weight[chosen], before[following[chosen]], np.where(behind < 0, -1, before[behind])


@kernel(by_arrays=_longest_by_arrays)
def longest_alone(
    position: Float64, weight: Float64, following: Int64, preceding: Int64, least: float
) -> tuple[Float64, Float64, Int64, Int64]:
    """The silences of at least this length, with the next and the last one as long as each numbered among them: as
    those are as long, none of them is missing."""
    n, count = position.size, 0
    number = np.empty(n + 1, dtype=np.int64)
    for i in range(n):
        number[i] = count
        if weight[i] >= least:
            count += 1
    number[n] = count
    where, length = np.empty(count), np.empty(count)
    after, before = np.empty(count, dtype=np.int64), np.empty(count, dtype=np.int64)
    for i in range(n):
        if weight[i] >= least:
            k = number[i]
            where[k], length[k], after[k] = position[i], weight[i], number[following[i]]
            before[k] = number[preceding[i]] if preceding[i] >= 0 else -1
    return where, length, after, before


def _enough_by_arrays(
    position: Float64, weight: Float64, following: Int64, preceding: Int64, least: float, finest: float,
    coarsest: float, tolerance: float, guard: float, enough: float,
) -> bool:  # fmt: skip
    """The kernel below without a loop over silences; begins are counted in cells of the shortest link."""
    shortest = finest * (1.0 - tolerance) ** 2 * (1.0 - ROUNDING)
    farthest = coarsest * (1.0 + tolerance) ** 2 * (1.0 + ROUNDING)
    edge = guard * coarsest * (1.0 + tolerance) * (1.0 + ROUNDING)
    chosen = np.flatnonzero(weight >= least)
    here, place = position[chosen], np.append(position, np.inf)
    rival, after = following[chosen], np.append(following, position.size)
    while (near := place[rival] <= here + edge).any():
        rival = np.where(near, after[rival], rival)
    begin = here[place[rival] >= here + shortest - edge]
    place[-1] = -np.inf  # which index -1 means too
    rival, before = preceding[chosen], np.append(preceding, -1)
    while (near := place[rival] >= here - edge).any():
        rival = np.where(near, before[rival], rival)
    end = here[place[rival] <= here - shortest + edge]
    linked = np.searchsorted(end, begin + shortest) < np.searchsorted(end, begin + farthest, side="right")
    return bool(np.unique(np.floor(begin[linked] / shortest)).size >= enough)


@kernel(by_arrays=_enough_by_arrays)
def enough_links(
    position: Float64, weight: Float64, following: Int64, preceding: Int64, least: float, finest: float,
    coarsest: float, tolerance: float, guard: float, enough: float,
) -> bool:  # fmt: skip
    """Can so many dominant links lie side by side, between silences of at least this length, for a spacing between the
    finest and the coarsest? Where not, no chain has as many; the two forms may differ in what they cannot rule out.

    `following` is `next_as_long`, `preceding` is `last_as_long`; `guard` is the share of a step next to a boundary in
    which silences do not count. Counted is until there are enough, or too few can follow.
    """
    n = position.size
    shortest = finest * (1.0 - tolerance) ** 2 * (1.0 - ROUNDING)
    farthest = coarsest * (1.0 + tolerance) ** 2 * (1.0 + ROUNDING)
    edge = guard * coarsest * (1.0 + tolerance) * (1.0 + ROUNDING)
    count, first_end, free = 0, 0, position[0]
    spare = position[n - 1] - (enough - 2.0) * shortest  # from beyond here on, all side by side are one too few
    for i in range(n):
        if position[i] < free or weight[i] < least:
            continue
        if count >= enough or position[i] > spare + count * shortest:
            break
        rival = following[i]
        while rival < n and position[rival] <= position[i] + edge:
            rival = following[rival]
        if rival < n and position[rival] < position[i] + shortest - edge:
            continue
        while first_end < n and position[first_end] < position[i] + shortest:
            first_end += 1
        for end in range(first_end, n):
            if position[end] > position[i] + farthest:
                break
            if weight[end] < least:
                continue
            rival = preceding[end]
            while rival >= 0 and position[rival] >= position[end] - edge:
                rival = preceding[rival]
            if rival < 0 or position[rival] <= position[end] - shortest + edge:
                count += 1
                free = position[i] + shortest
                break
    return count >= enough
