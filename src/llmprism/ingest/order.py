"""Puts records in the order of the FlowTable: by source, destination, start, end, bytes, path.

Two stable counting sorts (by destination, then by source) bring every directed pair together in linear time. Inside a
pair the records are nearly in order already, which insertion sort turns to account; pairs that are not are left to a
general sort. Several times faster than a general sort of all rows on all keys, and as exact; small tables are left to
the general sort.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel
from llmprism.model.flows import Int32, Int64, ranges

__all__ = ["keep_rows", "pair_order"]

MOVES_PER_ROW: Final = 16
"""Moves of insertion sort per row before a general sort is cheaper: about log2 of the rows of a pair."""

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
        unsorted = np.zeros(offsets.size - 1, dtype=np.bool_)
        _sort_inside_pairs(order, offsets, start_ns, end_ns, size, path, unsorted)
        _sort_rest(order, offsets, np.flatnonzero(unsorted), (path, size, end_ns, start_ns))
    return order, by_pair_src[offsets[:-1]], by_pair_dst[offsets[:-1]], offsets


def _sort_rest(order: Int64, offsets: Int64, pairs: Int64, keys: tuple[Int32, Int64, Int64, Int64]) -> None:
    """Sorts inside the given pairs by general means; `keys` are the least significant first."""
    if not pairs.size:
        return
    places = ranges(offsets[pairs], offsets[pairs + 1])
    pair_of_place = np.repeat(pairs, offsets[pairs + 1] - offsets[pairs])
    rows = order[places]
    order[places] = rows[np.lexsort((*(key[rows] for key in keys), pair_of_place))]


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
def _sort_inside_pairs(
    order: Int64,
    offsets: Int64,
    start_ns: Int64,
    end_ns: Int64,
    size: Int64,
    path: Int32,
    unsorted: NDArray[np.bool_],
) -> None:
    """Insertion sort of every pair; pairs that take too many moves are marked in `unsorted` and left half done."""
    for pair in range(offsets.size - 1):
        low, high = offsets[pair], offsets[pair + 1]
        moves = MOVES_PER_ROW * (high - low)
        for place in range(low + 1, high):
            row, hole = order[place], place
            while hole > low and _before(row, order[hole - 1], start_ns, end_ns, size, path):
                order[hole] = order[hole - 1]
                hole -= 1
            order[hole] = row
            moves -= place - hole
            if moves < 0:
                unsorted[pair] = True
                break


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
