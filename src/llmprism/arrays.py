"""Types of arrays, by what they hold: one name per type, for the whole package; and medians of a few numbers."""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Bool", "Float64", "Int8", "Int32", "Int64", "UInt8", "UInt64", "median", "median_deviation"]

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
UInt64 = NDArray[np.uint64]
UInt8 = NDArray[np.uint8]

FEW_NUMBERS: Final = 256
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


def median_deviation(values: ArrayLike) -> float:
    """Median distance of these numbers from their median; 0 without any."""
    numbers = np.asarray(values)
    return float(median(np.abs(numbers - median(numbers)))) if numbers.size else 0.0
