"""Sequence numbers that were skipped and may still come, a few per flow.

TCP sequence numbers and RDMA packet numbers (PSN) both wrap; differences are taken modulo their range and read as
signed. A number below the expected one is a retransmission unless it falls in a hole: then it comes late or for the
first time, and counts. Only the latest HOLE_COUNT holes are kept, which bounds memory; an older hole that is filled
later is taken for a retransmission.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.layout import HOLE_COUNT, HOLE_CURSOR, HOLES, Number

__all__ = ["add_hole", "clear_holes", "distance", "fill_holes"]

Int64 = NDArray[np.int64]


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
def add_hole(flow: Int64, first: Number, after: Number) -> None:
    place = HOLES + 2 * flow[HOLE_CURSOR]
    flow[place], flow[place + 1] = first, after
    flow[HOLE_CURSOR] = (flow[HOLE_CURSOR] + 1) % HOLE_COUNT


@inlined
def fill_holes(flow: Int64, first: Number, after: Number, bits: Number) -> Number:
    """How many of the numbers from `first` up to `after` were missing; they no longer are.

    A fill from the middle of a hole keeps the larger rest and forgets the smaller.
    """
    filled = 0
    for hole in range(HOLE_COUNT):
        place = HOLES + 2 * hole
        low, high = flow[place], flow[place + 1]
        if low == high:
            continue
        begin = max(distance(first, low, bits), 0)
        stop = min(distance(after, low, bits), distance(high, low, bits))
        if stop <= begin:
            continue
        filled += stop - begin
        rest = distance(high, low, bits) - stop
        mask = (np.int64(1) << bits) - 1
        if begin >= rest:
            flow[place + 1] = (low + begin) & mask
        else:
            flow[place] = (low + stop) & mask
    return filled
