"""Types of arrays, by what they hold: one name per type, for the package; medians of a few numbers, some of many."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = [
    "Bool",
    "Float64",
    "Int8",
    "Int32",
    "Int64",
    "UInt8",
    "UInt64",
    "evenly_spread",
    "median",
    "median_deviation",
    "medians",
    "nearest",
    "quantile",
]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]

FEW_NUMBERS: Final = 512
"""Numbers up to which sorting them all costs less than what NumPy does before it looks for the middle ones."""


def median(values: ArrayLike) -> np.float64:
    """`np.median` of all these numbers (64 bits each), to the bit. A job takes hundreds of medians of a few steps, and
    NumPy needs twenty microseconds for each however few there are."""
    numbers = np.asarray(values)
    if not 0 < numbers.size <= FEW_NUMBERS:
        return np.float64(np.median(numbers))
    ordered = numbers.flatten()
    ordered.sort()
    middle = ordered.size // 2
    high = np.float64(ordered[middle if ordered[-1] == ordered[-1] else -1])  # one that is not a number is the last
    return high if ordered.size % 2 else (np.float64(ordered[middle - 1]) + high) / 2.0


def medians(values: ArrayLike, axis: int) -> Float64:
    """`np.median` of some numbers (64 bits each) along an axis, to the bit; for tables of a few steps, as `median`."""
    ordered = np.sort(values, axis=axis)
    count = ordered.shape[axis]
    if not count:
        return np.asarray(np.median(ordered, axis=axis))
    high = ordered.take(count // 2, axis=axis).astype(np.float64)
    middle = high if count % 2 else (ordered.take(count // 2 - 1, axis=axis) + high) / 2.0
    last = ordered.take(-1, axis=axis)
    return np.asarray(np.where(last == last, middle, last))  # one that is not a number is the last


def quantile(values: ArrayLike, share: float) -> np.float64:
    """`np.quantile` of these finite numbers, of which there are some: the same, without its 0.1 ms of checks."""
    ordered = np.sort(values, axis=None)
    place = (ordered.size - 1) * share
    below = int(place)
    low, high = ordered[below], ordered[min(below + 1, ordered.size - 1)]
    beyond = place - below
    return np.float64(low + (high - low) * beyond if beyond < 0.5 else high - (high - low) * (1.0 - beyond))


def evenly_spread(count: int, most: int) -> Int64:
    """Places of so many things at most, spread over all of them with the first and the last.

    >>> evenly_spread(100, 3).tolist(), evenly_spread(2, 3).tolist()
    ([0, 49, 99], [0, 1])
    """
    if count <= most:
        return np.arange(count, dtype=np.int64)
    return np.linspace(0, count - 1, most).astype(np.int64)  # at least one apart, so that no two are the same


def nearest(values: ArrayLike, among: Int64) -> Int64:
    """For each value the place of the nearest in the sorted, non-empty `among`; of two as near the first.

    >>> nearest([0, 14, 15, 90], np.array([10, 20, 30])).tolist()
    [0, 0, 0, 2]
    """
    wanted = np.asarray(values)
    right = np.minimum(np.searchsorted(among, wanted), among.size - 1)
    left = np.maximum(right - 1, 0)
    return np.where(np.abs(among[left] - wanted) <= np.abs(among[right] - wanted), left, right).astype(np.int64)


def median_deviation(values: ArrayLike) -> float:
    """Median distance of these numbers from their median; 0 without any."""
    numbers = np.asarray(values)
    return float(median(np.abs(numbers - median(numbers)))) if numbers.size else 0.0
