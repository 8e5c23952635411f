"""Silences of a series of intervals, placed in time and in byte-space.

Between two bursts lies a silence. Its place in *byte-space* is the number of bytes sent before it. Steps that are
ragged in time are regular there, because a step moves the same bytes every time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int64
from llmprism.kernel import kernel

__all__ = ["Silences", "scan_silences", "silences_of"]


@dataclass(frozen=True, slots=True)
class Silences:
    """Silence `i` begins at `begin_ns[i]`, lasts `length_ns[i]`, and has `bytes_before[i]` bytes before it.

    The last entry is the end of the series: what follows it was not seen, so its length is that of the longest other.
    """

    begin_ns: Int64
    length_ns: Int64
    bytes_before: Int64

    @property
    def count(self) -> int:
        return int(self.begin_ns.size)


@kernel
def scan_silences(
    start: Int64, end: Int64, size: Int64, floor: int, first: int, shift: int, held: Int64, latest: Int64
) -> tuple[Int64, Int64, Int64]:
    """The silences of intervals in order of their start. Slot k of time, from `first + (k << shift)` on, holds so many
    bytes (`held`) of intervals besides, of which the latest ends at `latest` (-1: none) and none begins a silence."""
    n = start.size + 1
    begin, length, before = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    count, slot, horizon, total, longest = 0, 0, np.int64(-1), np.int64(0), np.int64(1)
    for i in range(n):
        until = held.size if i == start.size else min((start[i] - first) >> shift, held.size)
        while slot < until:
            horizon, total = max(horizon, latest[slot]), total + held[slot]
            slot += 1
        if i == start.size:
            break
        if size[i] >= floor:
            if horizon >= 0 and start[i] > horizon:
                begin[count], length[count], before[count] = horizon, start[i] - horizon, total
                longest = max(longest, length[count])
                count += 1
            horizon = max(horizon, end[i])
        total += size[i]
    if horizon >= 0:
        begin[count], length[count], before[count] = horizon, longest, total
        count += 1
    return begin[:count], length[:count], before[:count]


def silences_of(start_ns: Int64, end_ns: Int64, size: Int64, floor: int = 0) -> Silences:
    """Silences of intervals sorted by start; intervals below `floor` bytes add their bytes but break no silence."""
    none = np.zeros(0, dtype=np.int64)
    return Silences(*scan_silences(start_ns, end_ns, size, floor, 0, 0, none, none))
