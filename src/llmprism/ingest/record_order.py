"""Puts records in the order of the FlowTable: by pair, start, end, bytes, path.

A stable counting sort brings every directed pair together in linear time: pairs are numbers in their order. Inside a
pair the records lie in a few stretches that are in order already, as the reader's threads took them from the file;
merging turns that to account. Several times faster than a general sort of all rows on all keys, and as exact; small
tables are left to the general sort.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int32, Int64, UInt64
from llmprism.kernel import kernel

__all__ = ["SMALL_TABLE", "counting_order", "in_order", "keep_rows", "pair_order"]

RUN: Final = 16
"""Rows up to which insertion sort beats merging."""

SMALL_TABLE: Final = 200_000
"""Rows up to which a general sort is used: it takes a tenth of a second, and no kernel has to be compiled."""


def pair_order(
    pair: Int32, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, pair_count: int
) -> tuple[Int64, Int64]:
    """(order of the rows, offsets of the pairs)."""
    offsets = np.zeros(pair_count + 1, dtype=np.int64)
    np.cumsum(np.bincount(pair, minlength=pair_count), out=offsets[1:])
    if pair.size <= SMALL_TABLE:
        return np.lexsort((path, size, end_ns, start_ns, pair)), offsets
    order = counting_order(pair, offsets)
    _sort_inside_pairs(order, offsets, start_ns, end_ns, size, path)
    return order, offsets


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


def _each_in_order(
    order: Int64, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, connection: UInt64
) -> tuple[Int64, Int64, Int64, Int32, UInt64]:
    return start_ns[order], end_ns[order], size[order], path[order], connection[order]


@kernel(small=_each_in_order)
def in_order(
    order: Int64, start_ns: Int64, end_ns: Int64, size: Int64, path: Int32, connection: UInt64
) -> tuple[Int64, Int64, Int64, Int32, UInt64]:
    """The columns in this order. Where they are fields of records, each record is visited once."""
    rows = order.size
    out_start, out_end, out_size = np.empty(rows, np.int64), np.empty(rows, np.int64), np.empty(rows, np.int64)
    out_path, out_connection = np.empty(rows, np.int32), np.empty(rows, np.uint64)
    for place in range(rows):
        row = order[place]
        out_start[place], out_end[place], out_size[place] = start_ns[row], end_ns[row], size[row]
        out_path[place], out_connection[place] = path[row], connection[row]
    return out_start, out_end, out_size, out_path, out_connection


def keep_rows(offsets: Int64, keep: Bool) -> Int64:
    """Offsets of the pairs after rows were dropped (pairs may become empty)."""
    kept_before = np.concatenate(([0], np.cumsum(keep)))
    return kept_before[offsets].astype(np.int64)
