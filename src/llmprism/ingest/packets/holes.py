"""Sequence numbers that were skipped and may still come, a few per flow.

TCP sequence numbers and RDMA packet numbers (PSN) both wrap; differences are taken modulo their range and read as
signed. A number below the expected one is a retransmission unless it falls in a hole: then it comes late or for the
first time, and counts. HOLE_COUNT holes are kept, which bounds memory; one more pushes out the oldest, and what comes
for that later is taken for a retransmission.
"""

from __future__ import annotations

import numpy as np

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.layout import HOLE_COUNT, HOLE_CURSOR, HOLES, Number
from llmprism.ingest.packets.work import Int64

__all__ = ["add_hole", "clear_holes", "count_holes", "distance", "fill_holes"]


@inlined
def distance(later: Number, earlier: Number, bits: Number) -> Number:
    """`later - earlier` on a circle of 2**bits numbers, between -2**(bits-1) and 2**(bits-1) - 1."""
    half = np.int64(1) << (bits - 1)
    return ((later - earlier + half) & ((np.int64(1) << bits) - 1)) - half


@inlined
def clear_holes(flow: Int64) -> None:
    for hole in range(HOLE_COUNT):
        flow[HOLES + 2 * hole] = flow[HOLES + 2 * hole + 1] = 0


@inlined
def count_holes(flow: Int64) -> Number:
    count = 0
    for hole in range(HOLE_COUNT):
        count += flow[HOLES + 2 * hole] != flow[HOLES + 2 * hole + 1]
    return count


@inlined
def add_hole(flow: Int64, first: Number, after: Number) -> None:
    """Into a free place, else into that of the oldest."""
    place = _free(flow)
    if place < 0:
        place = HOLES + 2 * flow[HOLE_CURSOR]
        flow[HOLE_CURSOR] = (flow[HOLE_CURSOR] + 1) % HOLE_COUNT
    flow[place], flow[place + 1] = first, after


@inlined
def _free(flow: Int64) -> Number:
    for hole in range(HOLE_COUNT):
        if flow[HOLES + 2 * hole] == flow[HOLES + 2 * hole + 1]:
            return HOLES + 2 * hole
    return -1


@inlined
def fill_holes(flow: Int64, first: Number, after: Number, bits: Number) -> Number:
    """How many of the numbers from `first` up to `after` were missing; they no longer are.

    A fill from the middle of a hole leaves two; where there is no place for the second, the smaller is forgotten.
    """
    filled = 0
    mask = (np.int64(1) << bits) - 1
    for hole in range(HOLE_COUNT):
        place = HOLES + 2 * hole
        low, high = flow[place], flow[place + 1]
        if low == high:
            continue
        size = distance(high, low, bits)
        begin = max(distance(first, low, bits), 0)
        stop = min(distance(after, low, bits), size)
        if stop <= begin:
            continue
        filled += stop - begin
        rest = size - stop
        other = _free(flow) if begin > 0 and rest > 0 else -1
        if other >= 0:
            flow[other], flow[other + 1] = (low + stop) & mask, high
        if other >= 0 or begin >= rest:
            flow[place + 1] = (low + begin) & mask
        else:
            flow[place] = (low + stop) & mask
    return filled
