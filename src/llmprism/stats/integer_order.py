"""The order of whole numbers, fast.

A stable sort of positions moves twice the data of a sort of values and cannot use vector instructions. Where a value's
distance from the smallest and its position fit into one integer of 64 bits together, sorting these integers gives the
same order: ties are distinguished by position.

>>> stable_order(np.array([30, 10, 30, 20])).tolist()
[1, 3, 0, 2]
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Int64

__all__ = ["grouped_order", "stable_order"]

BITS: Final = 63
"""Bits of a signed integer that is not negative."""


def stable_order(values: NDArray[np.integer[Any]]) -> Int64:
    """Positions of the values in ascending order, equal ones as they come."""
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    least = int(values.min())
    for_position = (values.size - 1).bit_length()
    if (int(values.max()) - least).bit_length() + for_position > BITS:
        return np.argsort(values, kind="stable")
    packed: Int64 = (np.subtract(values, least, dtype=np.int64) << for_position) | np.arange(values.size)
    packed.sort()
    return packed & ((1 << for_position) - 1)


def grouped_order(group: NDArray[np.integer[Any]], values: NDArray[np.integer[Any]]) -> Int64:
    """Positions by group (numbers from 0 on) and within each by value, equal ones as they come: group, value and
    position in one number, where they fit.

    >>> grouped_order(np.array([1, 0, 1, 0]), np.array([5, 9, 4, 7])).tolist()
    [3, 1, 2, 0]
    """
    if not values.size:
        return np.zeros(0, dtype=np.int64)
    least = int(values.min())
    for_value = (int(values.max()) - least).bit_length()
    if int(group.max()).bit_length() + for_value > BITS:
        return np.lexsort((values, group))
    return stable_order((group.astype(np.int64) << for_value) | np.subtract(values, least, dtype=np.int64))
