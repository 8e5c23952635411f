"""Puts records in the order of the FlowTable: by source, destination, start, end, bytes, path.

Two stable counting sorts (by destination, then by source) bring every directed pair together in linear time. Inside a
pair the records lie in a few stretches that are in order already, as the reader's threads took them from the file;
merging turns that to account. Several times faster than a general sort of all rows on all keys, and as exact; small
tables are left to the general sort.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel
from llmprism.model.flows import Int32, Int64

__all__ = ["keep_rows", "pair_order"]

RUN: Final = 16
"""Rows up to which insertion sort beats merging."""

SMALL_TABLE: Final = 200_000
"""Rows up to which a general sort is used: it takes a tenth of a second, and no kernel has to be compiled."""


def pair_order(
    src: Int32, dst: Int32, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, address_count: int
) -> tuple[Int64, Int32, Int32, Int64]:
    """(order of the rows, source and destination of every pair, offsets of the pairs)."""
    if not src.size:
        none = np.zeros(0, dtype=np.int32)
        return np.zeros(0, dtype=np.int64), none, none, np.zeros(1, dtype=np.int64)
    small = src.size <= SMALL_TABLE
    if small:
        order = np.lexsort((path, size, end_ns, start_ns, dst, src))
    else:
        order = _counting_order(dst, np.arange(dst.size, dtype=np.int64), address_count)
        order = _counting_order(src, order, address_count)
    by_pair_src, by_pair_dst = src[order], dst[order]
    change = np.flatnonzero((np.diff(by_pair_src) != 0) | (np.diff(by_pair_dst) != 0)) + 1
    offsets = np.concatenate(([0], change, [src.size])).astype(np.int64)
    if not small:
        _sort_inside_pairs(order, offsets, start_ns, end_ns, size, path)
    return order, by_pair_src[offsets[:-1]], by_pair_dst[offsets[:-1]], offsets


@kernel
def _counting_order(key: Int32, order: Int64, key_count: int) -> Int64:
    """The given order, stably sorted by `key`."""
    next_place = np.zeros(key_count + 1, dtype=np.int64)
    for row in range(key.size):
        next_place[key[row] + 1] += 1
    for value in range(key_count):
        next_place[value + 1] += next_place[value]
    result = np.empty_like(order)
    for position in range(order.size):
        row = order[position]
        result[next_place[key[row]]] = row
        next_place[key[row]] += 1
    return result


@kernel
def _sort_inside_pairs(order: Int64, offsets: Int64, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32) -> None:
    """Merge sort of every pair, from short runs that insertion sort makes; runs that follow each other stay."""
    scratch = np.empty(np.max(offsets[1:] - offsets[:-1]), dtype=np.int64)
    for pair in range(offsets.size - 1):
        low, high = offsets[pair], offsets[pair + 1]
        for first in range(low, high, RUN):
            for place in range(first + 1, min(first + RUN, high)):
                row, hole = order[place], place
                while hole > first and _before(row, order[hole - 1], start_ns, end_ns, size, path):
                    order[hole] = order[hole - 1]
                    hole -= 1
                order[hole] = row
        width = RUN
        while width < high - low:
            for first in range(low, high - width, 2 * width):
                _merge_runs(
                    order, first, first + width, min(first + 2 * width, high), scratch, start_ns, end_ns, size, path
                )
            width *= 2


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
    """Makes one run of the two `first:middle` and `middle:last`."""
    if not _before(order[middle], order[middle - 1], start_ns, end_ns, size, path):
        return
    left = middle - first
    scratch[:left] = order[first:middle]
    i, j, place = 0, middle, first
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


def keep_rows(offsets: Int64, keep: NDArray[np.bool_]) -> Int64:
    """Offsets of the pairs after rows were dropped (pairs may become empty)."""
    kept_before = np.concatenate(([0], np.cumsum(keep)))
    return kept_before[offsets].astype(np.int64)
