"""The arrays that the packet kernels read and write, handed around as one tuple. Columns are named in `layout.py`."""

from __future__ import annotations

from typing import NamedTuple

from llmprism.arrays import Int32, Int64, UInt8

__all__ = ["Bytes", "Int32", "Int64", "PacketWork"]

Bytes = UInt8


class PacketWork(NamedTuple):
    """`data` is the buffer with packets; the others are the state of the run."""

    data: Bytes
    flows: Int64
    parts: Int64
    addresses: Int64
    buckets: Int32
    state: Int64
    out: Int64
    packet: Int64
    counters: Int64
