"""What the code for pauses is made of: each pause in a place of its step, and the medians of the places.

A clock is priced (`clock_score`) by how far pauses are off the medians of their places. That needs order statistics of
many small sets, for every clock that is tried, so all of them are taken from one order of the pauses of each pair,
which is made once: the values of a place come out of it in ascending order, and so do those of the whole pair.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.kernel import kernel

__all__ = ["NOT_JUDGED", "OUTSIDE", "around_medians", "by_value", "counts_by_part", "places_in_steps", "sent_by"]

OUTSIDE: Final = -1
"""Place of a pause outside all steps..."""

NOT_JUDGED: Final = -2
"""...and of one that is not judged."""


def _sent_by_searches(offsets: Int64, start: Int64, sent: Int64, total: Int64, ticks: Int64) -> Int64:
    """The kernel below by a search for each pair."""
    result = np.empty((offsets.size - 1, ticks.size), dtype=np.int64)
    for index in range(result.shape[0]):
        rows = slice(int(offsets[index]), int(offsets[index + 1]))
        before = np.append(sent[rows], total[index])
        result[index] = before[np.searchsorted(start[rows], ticks)]
    return result


@kernel(by_arrays=_sent_by_searches)
def sent_by(offsets: Int64, start: Int64, sent: Int64, total: Int64, ticks: Int64) -> Int64:
    """Bytes that each pair had sent by each tick: `sent` before each message, `total` in all."""
    result = np.empty((offsets.size - 1, ticks.size), dtype=np.int64)
    for pair in range(offsets.size - 1):
        row, end = offsets[pair], offsets[pair + 1]
        for k in range(ticks.size):
            while row < end and start[row] < ticks[k]:
                row += 1
            result[pair, k] = sent[row] if row < end else total[pair]
    return result


def by_value(offsets: Int64, value: Float64) -> Int64:
    """The rows, pair by pair in ascending order of their values; those without one (NaN) last in their pair."""
    pair = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    return np.lexsort((value, pair))


def _places_by_arrays(
    offsets: Int64, start: Int64, sent: Int64, by_tick: Int64, ticks: Int64, judged: Bool, per_pause: float, most: int
) -> tuple[Int64, Int64, Int64]:
    """The kernel below without a loop."""
    pairs, steps = offsets.size - 1, ticks.size - 1
    step = np.searchsorted(ticks, start, side="right") - 1
    inside = judged & (step >= 0) & (step < steps)
    pair = np.repeat(np.arange(pairs), np.diff(offsets))
    own, at = pair[inside], step[inside]
    count = np.bincount(own, minlength=pairs)
    places = np.clip(per_pause * count / max(steps, 1), 1.0, most).astype(np.int64)
    part = (sent[inside] - by_tick[own, at]) / np.maximum((by_tick[own, at + 1] - by_tick[own, at]).astype(float), 1.0)
    place = np.full(start.size, OUTSIDE, dtype=np.int64)
    place[inside] = np.floor(part * places[own] + 0.5).astype(np.int64) % places[own]
    place[~judged] = NOT_JUDGED
    return place, places, step + 1


@kernel(by_arrays=_places_by_arrays)
def places_in_steps(
    offsets: Int64, start: Int64, sent: Int64, by_tick: Int64, ticks: Int64, judged: Bool, per_pause: float, most: int
) -> tuple[Int64, Int64, Int64]:
    """The place of each judged pause in the bytes of its step, `OUTSIDE` or `NOT_JUDGED`; how many places a step of
    each pair has: so many per pause of a usual step; and how many ticks there were by each message."""
    pairs, steps = offsets.size - 1, ticks.size - 1
    place, places = np.empty(start.size, dtype=np.int64), np.ones(pairs, dtype=np.int64)
    before = np.empty(start.size, dtype=np.int64)
    for pair in range(pairs):
        step, count = -1, 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while step < steps and start[row] >= ticks[step + 1]:
                step += 1
            before[row] = step + 1
            if judged[row] and 0 <= step < steps:
                count += 1
        places[pair] = int(min(max(per_pause * count / max(steps, 1), 1.0), float(most)))
        for row in range(offsets[pair], offsets[pair + 1]):
            if not judged[row]:
                place[row] = NOT_JUDGED
            elif 0 < before[row] <= steps:
                first, last = by_tick[pair, before[row] - 1], by_tick[pair, before[row]]
                part = (sent[row] - first) / max(float(last - first), 1.0)
                place[row] = int(np.floor(part * places[pair] + 0.5)) % places[pair]
            else:
                place[row] = OUTSIDE
    return place, places, before


def _around_by_arrays(
    offsets: Int64, value: Float64, order: Int64, place: Int64, places: Int64
) -> tuple[Float64, Float64, Int64, Int64, Int64, Float64, Float64, Int64]:
    """The kernel below by sorts of all values at once."""
    pairs = offsets.size - 1
    chosen = place >= 0
    pair = np.repeat(np.arange(pairs), np.diff(offsets))
    first_cell = np.cumsum(places) - places
    cell = first_cell[pair] + place
    rows = order[chosen[order]]
    rows = rows[np.argsort(cell[rows], kind="stable")]
    held = np.bincount(cell[rows], minlength=int(places.sum()))
    size = held[held > 0]
    begin = np.cumsum(size) - size
    median = np.zeros(held.size)
    median[held > 0] = 0.5 * (value[rows[begin + (size - 1) // 2]] + value[rows[begin + size // 2]])
    deviation = value[chosen] - median[cell[chosen]]
    count = np.bincount(pair[chosen], minlength=pairs)
    from_usual, usual, spread = np.zeros(deviation.size), np.zeros(pairs), np.zeros(pairs)
    bounds = np.cumsum(count) - count
    for index in np.flatnonzero(count).tolist():
        own = slice(int(bounds[index]), int(bounds[index] + count[index]))
        here, half = value[chosen][own], int(count[index]) // 2
        low, high = (np.partition(here, at)[at] for at in ((int(count[index]) - 1) // 2, half))
        from_usual[own] = here - 0.5 * (low + high)
        usual[index] = np.partition(np.abs(from_usual[own]), half)[half]
        spread[index] = np.partition(np.abs(deviation[own]), half)[half]
    pair_of_cell = np.repeat(np.arange(pairs), places)[held > 0]
    number = (np.cumsum(held > 0) - 1)[cell[chosen]].astype(np.int64)
    return deviation, from_usual, number, count, size, usual, spread, pair_of_cell


@kernel(by_arrays=_around_by_arrays)
def around_medians(
    offsets: Int64, value: Float64, order: Int64, place: Int64, places: Int64
) -> tuple[Float64, Float64, Int64, Int64, Int64, Float64, Float64, Int64]:
    """Of the values with a place (0 and more): the deviation of each from the median of its place and pair, that from
    the median of its pair, and the number of its place among those that are used; for each pair how many there are;
    the size of each place that is used; for each pair the upper median of the distances from the median of the pair,
    and of those from the medians of the places; the pair of each place that is used.

    `order` lists the rows of each pair in ascending order of their values.
    """
    pairs = offsets.size - 1
    deviation, from_usual, n = np.empty(value.size), np.empty(value.size), 0
    cell = np.empty(value.size, dtype=np.int64)
    count = np.zeros(pairs, dtype=np.int64)
    usual, spread = np.zeros(pairs), np.zeros(pairs)
    size, pair_of_cell = np.empty(places.sum(), dtype=np.int64), np.empty(places.sum(), dtype=np.int64)
    cells = 0
    for pair in range(pairs):
        begin, end = offsets[pair], offsets[pair + 1]
        held = np.zeros(places[pair] + 1, dtype=np.int64)
        for row in range(begin, end):
            if place[row] >= 0:
                held[place[row] + 1] += 1
        first = np.cumsum(held)
        own = first[-1]
        if own == 0:
            continue
        ordered, placed, cursor, k = np.empty(own), np.empty(own), first.copy(), 0
        for i in range(begin, end):
            row = order[i]
            if place[row] >= 0:
                ordered[k] = value[row]
                placed[cursor[place[row]]] = value[row]
                cursor[place[row]] += 1
                k += 1
        median, numbered = np.zeros(places[pair]), np.zeros(places[pair], dtype=np.int64)
        middle = 0.5 * (ordered[(own - 1) // 2] + ordered[own // 2])
        for p in range(places[pair]):
            number = held[p + 1]
            if number > 0:
                numbered[p] = cells
                median[p] = 0.5 * (placed[first[p] + (number - 1) // 2] + placed[first[p] + number // 2])
                size[cells], pair_of_cell[cells] = number, pair
                cells += 1
        off, k = np.empty(own), 0
        for row in range(begin, end):
            if place[row] >= 0:
                deviation[n + k] = value[row] - median[place[row]]
                from_usual[n + k], cell[n + k] = value[row] - middle, numbered[place[row]]
                off[k] = abs(deviation[n + k])
                k += 1
        spread[pair] = np.partition(off, own // 2)[own // 2]
        usual[pair] = _upper_median_distance(ordered)
        count[pair] = own
        n += own
    return deviation[:n], from_usual[:n], cell[:n], count, size[:cells], usual, spread, pair_of_cell[:cells]


@kernel
def _upper_median_distance(ordered: Float64) -> float:
    """The upper median of the distances of ascending values from their median: these ascend to either side of it."""
    n = ordered.size
    middle = 0.5 * (ordered[(n - 1) // 2] + ordered[n // 2])
    right = 0
    while right < n and ordered[right] < middle:
        right += 1
    left, distance = right - 1, 0.0
    for _ in range(n // 2 + 1):
        if right >= n or (left >= 0 and abs(ordered[left] - middle) <= abs(ordered[right] - middle)):
            distance = abs(ordered[left] - middle)
            left -= 1
        else:
            distance = abs(ordered[right] - middle)
            right += 1
    return distance


def _counts_by_arrays(
    offsets: Int64, start: Int64, sent: Int64, by_tick: Int64, ticks: Int64, sort: Int64, parts: int, sorts: int,
    weight: Float64,
) -> Float64:  # fmt: skip
    """The kernel below without a loop."""
    step = np.searchsorted(ticks, start, side="right") - 1
    inside = (step >= 0) & (step < ticks.size - 1)
    pair, at = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))[inside], step[inside]
    whole = np.maximum(by_tick[pair, at + 1] - by_tick[pair, at], 1)
    part = np.minimum((sent[inside] - by_tick[pair, at]) * parts // whole, parts - 1)
    counts = np.bincount(part * sorts + sort[inside], weight[at], minlength=parts * sorts)
    return counts.astype(np.float64).reshape(parts, sorts)


@kernel(by_arrays=_counts_by_arrays)
def counts_by_part(
    offsets: Int64, start: Int64, sent: Int64, by_tick: Int64, ticks: Int64, sort: Int64, parts: int, sorts: int,
    weight: Float64,
) -> Float64:  # fmt: skip
    """How many messages of each sort are sent in each part of the steps, which are cut into equal shares of the bytes
    that their pair sends in them. A message counts as much as its step has `weight`."""
    counts = np.zeros((parts, sorts))
    steps = ticks.size - 1
    for pair in range(offsets.size - 1):
        step = -1
        for row in range(offsets[pair], offsets[pair + 1]):
            while step < steps and start[row] >= ticks[step + 1]:
                step += 1
            if 0 <= step < steps:
                first = by_tick[pair, step]
                whole = max(by_tick[pair, step + 1] - first, 1)
                counts[min((sent[row] - first) * parts // whole, parts - 1), sort[row]] += weight[step]
    return counts
