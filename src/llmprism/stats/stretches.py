"""Stretches of a series in which something holds most of the time, or nothing changes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Int64

__all__ = ["stretch_starts", "stretches_of"]


def stretches_of(flag: Bool, *, bridge: int = 1, shortest: int = 1) -> list[tuple[int, int]]:
    """Half-open index ranges of true values, gaps of at most `bridge` bridged, ranges below `shortest` left out.

    >>> stretches_of(np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=bool), bridge=1, shortest=2)
    [(1, 5)]
    """
    true = np.flatnonzero(flag)
    if not true.size:
        return []
    cut = np.flatnonzero(np.diff(true) > bridge + 1) + 1
    parts = np.split(true, cut)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts if part.size >= shortest]


def stretch_starts(*columns: NDArray[np.integer[Any]]) -> Int64:
    """Positions from which rows of these columns (at least one) stay the same up to the next.

    >>> stretch_starts(np.array([7, 7, 7, 8]), np.array([0, 1, 1, 1])).tolist()
    [0, 1, 3]
    """
    changes = np.ones(columns[0].size, dtype=np.bool_)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(changes)
