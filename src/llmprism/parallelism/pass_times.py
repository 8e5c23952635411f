"""When the passes of each member begin and end in each step, and what others send before, in and after them.

Loops over the rows of pairs, which are in order of time, so that the step of a row is near that of the row before.
Times are tables with a row for each node and a column for each step; the last row is for nodes that take no part.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.kernel import kernel
from llmprism.model.flows import rows_of_pairs
from llmprism.stats.by_moment import NEVER

__all__ = ["extremes", "mark_late", "steps_by_place", "sums_in_passes"]


def _extremes_by_arrays(
    offsets: Int64, start: Int64, moment: Int64, size: Int64, floor: int, pairs: Int64, ends: Int64, boundary: Int64,
    nodes: int, latest: bool,
) -> Int64:  # fmt: skip
    """The kernel below without a loop."""
    steps = boundary.size - 1
    times = np.full((nodes + 1) * steps, -1 if latest else NEVER, dtype=np.int64)
    rows, pair = rows_of_pairs(offsets, pairs)
    step = np.searchsorted(boundary, start[rows], side="right") - 1
    kept = (size[rows] >= floor) & (step >= 0) & (step < steps)
    rows, pair, step = rows[kept], pair[kept], step[kept]
    begins = np.flatnonzero(np.diff(pair * steps + step, prepend=-1))
    if begins.size:
        update = np.maximum if latest else np.minimum
        extreme = update.reduceat(moment[rows], begins)
        for end in ends:
            update.at(times, end[pair[begins]] * steps + step[begins], extreme)
    by_node = times.reshape(nodes + 1, steps)
    by_node[-1] = NEVER
    return by_node


@kernel(by_arrays=_extremes_by_arrays)
def extremes(
    offsets: Int64, start: Int64, moment: Int64, size: Int64, floor: int, pairs: Int64, ends: Int64, boundary: Int64,
    nodes: int, latest: bool,
) -> Int64:  # fmt: skip
    """The first (or latest) moment of the messages of these pairs in each step, for both of their ends (`ends` are the
    rows of the table for each pair); `NEVER` (or -1) where there is none."""
    steps = boundary.size - 1
    times = np.full((nodes + 1, steps), -1 if latest else NEVER, dtype=np.int64)
    for i in range(pairs.size):
        step = -1
        for row in range(offsets[pairs[i]], offsets[pairs[i] + 1]):
            while step < steps and start[row] >= boundary[step + 1]:
                step += 1
            if size[row] < floor or step < 0 or step >= steps:
                continue
            for end in range(2):
                node = ends[end, i]
                if latest:
                    times[node, step] = max(times[node, step], moment[row])
                else:
                    times[node, step] = min(times[node, step], moment[row])
    times[-1] = NEVER
    return times


def _sums_by_arrays(
    offsets: Int64, start: Int64, middle: Int64, size: Int64, floor: int, pairs: Int64, link_of: Int64, links: int,
    boundary: Int64, sender: Int64, activation: Int64, gradient: Int64, last: Int64,
) -> tuple[Float64, Int64]:  # fmt: skip
    """The kernel below without a loop."""
    steps = boundary.size - 1
    rows, pair = rows_of_pairs(offsets, pairs)
    link, when, amount = link_of[pair], start[rows], size[rows].astype(np.float64)
    step = np.searchsorted(boundary, when, side="right") - 1
    inside = (step >= 0) & (step < steps)
    rows, link, pair, step = rows[inside], link[inside], pair[inside], step[inside]
    when, amount = when[inside], amount[inside]
    early = (when > activation[sender[1, pair], step]) & (when < gradient[sender[2, pair], step])
    early &= amount >= floor
    late = middle[rows] >= last[sender[0, pair], step]
    sums = [np.bincount(link[which], amount[which], minlength=links) for which in (~late, late)]
    seen = np.bincount(np.unique(link[early] * steps + step[early]) // steps, minlength=links)
    return np.array(sums), seen


@kernel(by_arrays=_sums_by_arrays)
def sums_in_passes(
    offsets: Int64, start: Int64, middle: Int64, size: Int64, floor: int, pairs: Int64, link_of: Int64, links: int,
    boundary: Int64, sender: Int64, activation: Int64, gradient: Int64, last: Int64,
) -> tuple[Float64, Int64]:  # fmt: skip
    """Per link the bytes up to the end of the passes and after them; and in how many steps a message is sent after the
    first activation and before the first gradient. What lies before the first tick or after the last one does not
    count: of these steps nobody knows when their passes end. Records are where their middle is: one may begin with the
    last exchange of the passes and hold all gradients.

    `sender` holds for each pair the rows of its sender in the table of the passes' ends (`last`), of activations and of
    gradients.
    """
    steps = boundary.size - 1
    sums = np.zeros((2, links))
    seen_in = np.zeros((links, steps), dtype=np.bool_)
    for i in range(pairs.size):
        link, step = link_of[i], -1
        for row in range(offsets[pairs[i]], offsets[pairs[i] + 1]):
            while step < steps and start[row] >= boundary[step + 1]:
                step += 1
            if step < 0 or step >= steps:
                continue
            when = start[row]
            if size[row] >= floor and activation[sender[1, i], step] < when < gradient[sender[2, i], step]:
                seen_in[link, step] = True
            sums[1 if middle[row] >= last[sender[0, i], step] else 0, link] += float(size[row])
    seen = np.zeros(links, dtype=np.int64)
    for link in range(links):
        for step in range(steps):
            seen[link] += seen_in[link, step]
    return sums, seen


def _late_by_arrays(
    offsets: Int64, start: Int64, middle: Int64, pairs: Int64, sender: Int64, boundary: Int64, last: Int64,
    late_row: Bool,
) -> Bool:  # fmt: skip
    """The kernel below without a loop."""
    rows, pair = rows_of_pairs(offsets, pairs)
    step = np.clip(np.searchsorted(boundary, start[rows], side="right") - 1, 0, boundary.size - 2)
    late_row[rows] = middle[rows] >= last[sender[pair], step]
    return late_row


@kernel(by_arrays=_late_by_arrays)
def mark_late(
    offsets: Int64, start: Int64, middle: Int64, pairs: Int64, sender: Int64, boundary: Int64, last: Int64,
    late_row: Bool,
) -> Bool:  # fmt: skip
    """Marks, of the rows of these pairs, those after the passes of their senders; no other is changed."""
    for i in range(pairs.size):
        step = 0
        for row in range(offsets[pairs[i]], offsets[pairs[i] + 1]):
            while step + 2 < boundary.size and start[row] >= boundary[step + 1]:
                step += 1
            late_row[row] = middle[row] >= last[sender[i], step]
    return late_row


def _places_by_arrays(
    offsets: Int64, start: Int64, size: Int64, floor: int, pairs: Int64, link_of: Int64, links: int, boundary: Int64,
    sender: Int64, first: Int64, last: Int64, places: int,
) -> Int64:  # fmt: skip
    """The kernel below without a loop."""
    steps = boundary.size - 1
    rows, pair = rows_of_pairs(offsets, pairs)
    when = start[rows]
    step = np.searchsorted(boundary, when, side="right") - 1
    inside = (step >= 0) & (step < steps) & (size[rows] >= floor)
    at = np.where(inside, step, 0)
    begin, end = first[sender[pair], at], last[sender[pair], at]
    known = inside & (when >= begin) & (when < end)
    place = (when[known] - begin[known]) * places // np.maximum(end[known] - begin[known], 1)
    key = link_of[pair[known]] * places + place.clip(0, places - 1)
    busy = np.unique(key * steps + step[known]) // steps
    return np.bincount(busy, minlength=links * places).reshape(links, places)


@kernel(by_arrays=_places_by_arrays)
def steps_by_place(
    offsets: Int64, start: Int64, size: Int64, floor: int, pairs: Int64, link_of: Int64, links: int, boundary: Int64,
    sender: Int64, first: Int64, last: Int64, places: int,
) -> Int64:  # fmt: skip
    """In how many steps a message of each link begins in each of so many equal parts of its senders' passes."""
    steps = boundary.size - 1
    busy = np.zeros((links, places, steps), dtype=np.bool_)
    for i in range(pairs.size):
        step = -1
        for row in range(offsets[pairs[i]], offsets[pairs[i] + 1]):
            while step < steps and start[row] >= boundary[step + 1]:
                step += 1
            if step < 0 or step >= steps or size[row] < floor:
                continue
            begin, end = first[sender[i], step], last[sender[i], step]
            if begin <= start[row] < end:
                place = (start[row] - begin) * places // max(end - begin, 1)
                busy[link_of[i], min(max(place, 0), places - 1), step] = True
    found = np.zeros((links, places), dtype=np.int64)
    for link in range(links):
        for place in range(places):
            for step in range(steps):
                found[link, place] += busy[link, place, step]
    return found
