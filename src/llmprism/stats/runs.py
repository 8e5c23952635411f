"""Runs: stretches of a series in which something holds most of the time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["runs_of"]


def runs_of(flag: NDArray[np.bool_], *, bridge: int = 1, shortest: int = 1) -> list[tuple[int, int]]:
    """Half-open index ranges of true values, gaps of at most `bridge` bridged, ranges below `shortest` left out.

    >>> runs_of(np.array([0, 1, 1, 0, 1, 0, 0, 1], dtype=bool), bridge=1, shortest=2)
    [(1, 5)]
    """
    true = np.flatnonzero(flag)
    if not true.size:
        return []
    cut = np.flatnonzero(np.diff(true) > bridge + 1) + 1
    parts = np.split(true, cut)
    return [(int(part[0]), int(part[-1]) + 1) for part in parts if part.size >= shortest]
