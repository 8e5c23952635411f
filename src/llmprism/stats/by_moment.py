"""Sums and extremes of many intervals up to a few moments, without bringing the intervals into one order of time.

The rows of each pair are in order of their start, but not those of several pairs together, and to sort millions of them
for the sake of some thousand moments costs more than all else that is done with them. Each row is put between the two
moments that it lies between instead, which are near those of the row before, and the results of the moments are added
up at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int8, Int64
from llmprism.kernel import kernel

__all__ = ["NEVER", "first_from", "latest_before", "sums_until"]

NEVER: Final = np.iinfo(np.int64).max
"""A time after all others."""


def sums_until(offsets: Int64, end: Int64, amount: Int64, sign: Int8, moments: Int64) -> Int64:
    """Sum of the amounts, times the sign of their pair, of all rows that have ended by each moment."""
    return _in_order(moments, lambda ascending: _sums_until(offsets, end, amount, sign, ascending))


def latest_before(
    offsets: Int64, start: Int64, end: Int64, size: Int64, floor: int, pairs: Bool, limits: Int64
) -> Int64:
    """The latest end of a row of the marked pairs, of at least `floor` bytes, that starts before each limit; -1 where
    there is none. The rows of a pair are in order of their start."""
    return _in_order(limits, lambda ascending: _latest_before(offsets, start, end, size, floor, pairs, ascending))


def first_from(offsets: Int64, start: Int64, size: Int64, floor: int, pairs: Bool, moments: Int64) -> Int64:
    """The first start of a row of the marked pairs, of at least `floor` bytes, at or after each moment; `NEVER` where
    there is none. The rows of a pair are in order of their start."""
    return _in_order(moments, lambda ascending: _first_from(offsets, start, size, floor, pairs, ascending))


def _in_order(moments: Int64, results: Callable[[Int64], Int64]) -> Int64:
    """The results for moments in any order, by a function that needs ascending ones."""
    order = np.argsort(moments, kind="stable")
    found = np.empty(moments.size, dtype=np.int64)
    found[order] = results(np.ascontiguousarray(moments[order], dtype=np.int64))
    return found


def _sums_by_arrays(offsets: Int64, end: Int64, amount: Int64, sign: Int8, moments: Int64) -> Int64:
    """The kernel below without a loop."""
    rows = np.flatnonzero(np.repeat(sign != 0, np.diff(offsets)))
    between = np.zeros(moments.size + 1, dtype=np.int64)
    signed = amount[rows] * np.repeat(sign, np.diff(offsets))[rows]
    np.add.at(between, np.searchsorted(moments, end[rows]), signed)
    return np.cumsum(between)[:-1]


@kernel(by_arrays=_sums_by_arrays)
def _sums_until(offsets: Int64, end: Int64, amount: Int64, sign: Int8, moments: Int64) -> Int64:
    between = np.zeros(moments.size + 1, dtype=np.int64)
    for pair in range(offsets.size - 1):
        if sign[pair] == 0:
            continue
        k = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while k < moments.size and moments[k] < end[row]:
                k += 1
            while k > 0 and moments[k - 1] >= end[row]:
                k -= 1
            between[k] += amount[row] * sign[pair]
    return np.cumsum(between)[:-1]


def _latest_by_arrays(
    offsets: Int64, start: Int64, end: Int64, size: Int64, floor: int, pairs: Bool, limits: Int64
) -> Int64:
    """The kernel below without a loop."""
    rows = np.flatnonzero(np.repeat(pairs, np.diff(offsets)) & (size >= floor))
    latest = np.full(limits.size + 1, -1, dtype=np.int64)
    np.maximum.at(latest, np.searchsorted(limits, start[rows], side="right"), end[rows])
    result: Int64 = np.maximum.accumulate(latest)[:-1]
    return result


@kernel(by_arrays=_latest_by_arrays)
def _latest_before(
    offsets: Int64, start: Int64, end: Int64, size: Int64, floor: int, pairs: Bool, limits: Int64
) -> Int64:
    latest = np.full(limits.size + 1, -1, dtype=np.int64)
    for pair in range(offsets.size - 1):
        if not pairs[pair]:
            continue
        k = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while k < limits.size and limits[k] <= start[row]:
                k += 1
            if size[row] >= floor:
                latest[k] = max(latest[k], end[row])
    for k in range(1, limits.size):
        latest[k] = max(latest[k], latest[k - 1])
    return latest[:-1]


def _first_by_arrays(offsets: Int64, start: Int64, size: Int64, floor: int, pairs: Bool, moments: Int64) -> Int64:
    """The kernel below by a sort."""
    ordered = np.sort(start[np.repeat(pairs, np.diff(offsets)) & (size >= floor)])
    return np.append(ordered, NEVER)[np.searchsorted(ordered, moments)]


@kernel(by_arrays=_first_by_arrays)
def _first_from(offsets: Int64, start: Int64, size: Int64, floor: int, pairs: Bool, moments: Int64) -> Int64:
    first = np.full(moments.size, NEVER, dtype=np.int64)
    for pair in range(offsets.size - 1):
        if not pairs[pair]:
            continue
        k = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while k < moments.size and moments[k] <= start[row]:
                k += 1
            if k > 0 and size[row] >= floor:
                first[k - 1] = min(first[k - 1], start[row])
    for k in range(moments.size - 2, -1, -1):
        first[k] = min(first[k], first[k + 1])
    return first
