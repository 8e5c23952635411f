"""Puts records in the order of the FlowTable: by pair, start, end, bytes, path.

A stable counting sort brings every directed pair together in linear time: pairs are numbers in their order. Inside a
pair the records lie in a few stretches that are in order already, as the reader's threads took them from the file;
merging turns that to account. Several times faster than a general sort of all rows on all keys, and as exact; small
tables are left to the general sort.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Int32, Int64, UInt64
from llmprism.kernel import kernel

__all__ = ["SMALL_TABLE", "Columns", "counting_order", "keep_rows", "rows_in_order"]

Columns = tuple[Int64, Int64, Int64, Int32, UInt64]
"""Start, end, bytes, path and connection of some records."""

RUN: Final = 16
"""Rows up to which insertion sort beats merging."""

SMALL_TABLE: Final = 200_000
"""Rows up to which a general sort is used: it takes a tenth of a second, and no kernel has to be compiled."""


def rows_in_order(
    pair: Int32, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, connection: UInt64, pair_count: int, *,
    by_kernel: bool = False,
) -> tuple[Columns, Int64, Int64]:  # fmt: skip
    """(start, end, bytes, path and connection in order, order of the rows, offsets of the pairs). `by_kernel`: small
    tables are not left to the general sort."""
    offsets = np.zeros(pair_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=pair_count), out=offsets[1:])
    if pair.size <= SMALL_TABLE and not by_kernel:
        order = np.lexsort((path, size, end_ns, start_ns, pair))
        return (start_ns[order], end_ns[order], size[order], path[order], connection[order]), order, offsets
    order = counting_order(pair, offsets)
    return _sorted_inside_pairs(order, offsets, start_ns, end_ns, size, path, connection), order, offsets


@kernel
def counting_order(key: Int32, offsets: Int64) -> Int64:
    """The rows stably sorted by `key`, of which the rows of value `k` go to `offsets[k]:offsets[k + 1]`."""
    next_place = offsets[:-1].copy()
    order = np.empty(key.size, dtype=np.int64)
    for row in range(key.size):
        order[next_place[key[row]]] = row
        next_place[key[row]] += 1
    return order


@kernel
def _sorted_inside_pairs(
    order: Int64, offsets: Int64, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, connection: UInt64
) -> tuple[Int64, Int64, Int64, Int32, UInt64]:
    """The columns pair by pair, each pair in order, and so `order`.

    Rows of a pair are fetched from where they lie once, before anything is compared: waiting for memory is most of the
    work, and what does not depend on each other is waited for together.
    """
    rows = order.size
    starts, ends, sizes = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    paths, connections = np.empty(rows, np.int32), np.empty(rows, np.uint64)
    most = np.max(offsets[1:] - offsets[:-1])
    places, scratch = np.empty(most, np.int64), np.empty(most, np.int64)
    for pair in range(offsets.size - 1):
        low, high = offsets[pair], offsets[pair + 1]
        for place in range(low, high):
            row = order[place]
            starts[place], ends[place], sizes[place] = start_ns[row], end_ns[row], size[row]
            paths[place], connections[place] = path[row], connection[row]
        start, end, amount, way = starts[low:high], ends[low:high], sizes[low:high], paths[low:high]
        if _sort_places(places[: high - low], scratch, start, end, amount, way):
            _put_in_order(start, places)
            _put_in_order(end, places)
            _put_in_order(amount, places)
            _put_in_order(way, places)
            _put_in_order(connections[low:high], places)
            _put_in_order(order[low:high], places)
    return starts, ends, sizes, paths, connections


@kernel
def _sort_places(places: Int64, scratch: Int64, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32) -> bool:
    """Writes the order of some rows to `places`; whether it is another than theirs.

    Merge sort from short runs that insertion sort makes; runs that follow each other stay.
    """
    rows = places.size
    moved = False
    for first in range(0, rows, RUN):
        places[first] = first
        for place in range(first + 1, min(first + RUN, rows)):
            hole = place
            while hole > first and _before(place, places[hole - 1], start_ns, end_ns, size, path):
                places[hole] = places[hole - 1]
                hole -= 1
            places[hole] = place
            moved = moved or hole != place
    width = RUN
    while width < rows:
        for first in range(0, rows - width, 2 * width):
            last = min(first + 2 * width, rows)
            if _before(places[first + width], places[first + width - 1], start_ns, end_ns, size, path):
                _merge_runs(places, first, first + width, last, scratch, start_ns, end_ns, size, path)
                moved = True
        width *= 2
    return moved


@kernel
def _put_in_order(column: NDArray[Any], places: Int64) -> None:
    before = column.copy()
    for place in range(column.size):
        column[place] = before[places[place]]


@kernel
def _merge_runs(
    order: Int64,
    first: int,
    middle: int,
    last: int,
    scratch: Int64,
    start_ns: Int64,
    end_ns: Int64,
    size: Int64,
    path: Int32,
) -> None:
    """Makes one run of the two `first:middle` and `middle:last`, of which the second begins within the first."""
    begin = middle - 1
    while begin > first and _before(order[middle], order[begin - 1], start_ns, end_ns, size, path):
        begin -= 1
    left = middle - begin
    scratch[:left] = order[begin:middle]
    i, j, place = 0, middle, begin
    while i < left:
        if j < last and _before(order[j], scratch[i], start_ns, end_ns, size, path):
            order[place] = order[j]
            j += 1
        else:
            order[place] = scratch[i]
            i += 1
        place += 1


@kernel
def _before(one: int, two: int, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32) -> bool:
    """Whether row `one` belongs before row `two`."""
    if start_ns[one] != start_ns[two]:
        return bool(start_ns[one] < start_ns[two])
    if end_ns[one] != end_ns[two]:
        return bool(end_ns[one] < end_ns[two])
    if size[one] != size[two]:
        return bool(size[one] < size[two])
    return bool(path[one] < path[two])


def keep_rows(offsets: Int64, keep: Bool) -> Int64:
    """Offsets of the pairs after rows were dropped (pairs may become empty)."""
    kept_before = np.concatenate(([0], np.cumsum(keep)))
    return kept_before[offsets].astype(np.int64)
