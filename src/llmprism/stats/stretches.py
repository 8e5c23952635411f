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
    cut = np.flatnonzero(true[1:] - true[:-1] > bridge + 1)
    first, last = np.concatenate(([0], cut + 1)), np.append(cut, true.size - 1)
    kept = last - first >= shortest - 1
    return list(zip(true[first[kept]].tolist(), (true[last[kept]] + 1).tolist(), strict=True))


def stretch_starts(*columns: NDArray[np.integer[Any]]) -> Int64:
    """Positions from which rows of these columns (at least one) stay the same up to the next.

    >>> stretch_starts(np.array([7, 7, 7, 8]), np.array([0, 1, 1, 1])).tolist()
    [0, 1, 3]
    """
    changes = np.ones(columns[0].size, dtype=np.bool_)
    changes[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return np.flatnonzero(changes)
