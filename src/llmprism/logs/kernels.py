"""Numba loops of the reader: keys of (shape, writer) pairs, iteration numbers, times carried forward."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int32, Int64, UInt8, UInt64
from llmprism.kernel_cache import compiled

__all__ = ["fill_times", "numbers_after", "pair_keys"]


@compiled
def pair_keys(shape: Int32, writer: Int32, out: UInt64) -> None:
    for i in range(shape.size):
        mixed = (np.uint64(shape[i]) << np.uint64(32)) | np.uint64(writer[i])
        mixed = (mixed ^ (mixed >> np.uint64(31))) * np.uint64(0x9E3779B97F4A7C15)
        out[i] = mixed ^ (mixed >> np.uint64(29))


@compiled
def numbers_after(buf: UInt8, start: Int64, end: Int64, which: Int32, anchors: UInt8, sizes: Int32, out: Int64) -> None:
    """For each line the number that follows, blanks aside, the first place where its anchor stands so; or -1."""
    for row in range(start.size):
        size = sizes[which[row]]
        first = anchors[which[row], 0]
        out[row] = -1
        for i in range(start[row], end[row] - size):
            if buf[i] != first:
                continue
            same = True
            for k in range(1, size):
                if buf[i + k] != anchors[which[row], k]:
                    same = False
                    break
            j = i + size
            while same and j < end[row] and buf[j] == 32:
                j += 1
            if not same or j >= end[row] or not (48 <= buf[j] <= 57):
                continue
            value = 0
            while j < end[row] and 48 <= buf[j] <= 57 and value < 1 << 50:
                value = value * 10 + int(buf[j]) - 48
                j += 1
            out[row] = value
            break


@compiled
def fill_times(time_ns: Int64, last: int) -> int:
    """Give lines without a time the one before them in the file."""
    for i in range(time_ns.size):
        if time_ns[i] == 0:
            time_ns[i] = last
        else:
            last = time_ns[i]
    return last
