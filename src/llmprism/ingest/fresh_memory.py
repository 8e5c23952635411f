"""Large arrays that are filled once, from one end to the other."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

__all__ = ["fresh_array"]


def fresh_array(size: int, kind: DTypeLike) -> NDArray[Any]:
    """Like np.empty, but of ordinary pages: NumPy asks for huge ones, and when memory is full of cached files the
    system takes up to five times as long to make room for those. What is never written to takes no memory at all, and
    all of it goes back to the system when the array goes."""
    length = size * np.dtype(kind).itemsize
    if not length:
        return np.empty(size, dtype=kind)
    memory = mmap.mmap(-1, length, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.frombuffer(memory, dtype=kind, count=size)
