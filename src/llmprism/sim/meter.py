"""The flow meter: transfers become records, as a meter at the leaf would cut them.

A transfer runs over its pair's connections at once, in chunks. A connection's record grows while the pauses inside it
stay below the idle timeout and it is younger than the active timeout; otherwise it is closed and a new one begins. So
two messages back to back become one record and a message with a pause becomes two, as in the real captures. A transfer
so slow that single bursts are further apart than the idle timeout falls into one record per burst.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.sim.compiled import inlined, kernel
from llmprism.sim.noise import uniform

__all__ = ["Connections", "Meter", "Records", "close_idle", "measure", "new_meter"]


BURST_BYTES = 96_000
"""What a sender hands to its NIC at once; the size of the records of a throttled NIC in the real captures."""

SPLIT_BYTES = 65_536
"""Messages below this go over one connection."""

STREAM_NS_PER_BYTE = 0.25
"""A chunk on the wire moves at about 4 GB/s per connection, however long the chunks are apart."""


class Connections(NamedTuple):
    """Per pair: id of its first data connection, how many it has, and the size of its chunks."""

    first: Int32
    lanes: Int32
    chunk_bytes: Int64


class Meter(NamedTuple):
    """The open record of each connection; `bytes` 0: none."""

    start: Int64
    end: Int64
    bytes: Int64


class Records(NamedTuple):
    connection: Int32
    start: Int64
    end: Int64
    bytes: Int64


def new_meter(connections: int) -> Meter:
    return Meter(*(np.zeros(connections, dtype=np.int64) for _ in range(3)))


@inlined
def _close(meter: Meter, out: Records, row: int, connection: int) -> int:
    out.connection[row], out.start[row] = connection, meter.start[connection]
    out.end[row], out.bytes[row] = meter.end[connection], meter.bytes[connection]
    meter.bytes[connection] = 0
    return row + 1


@kernel
def _feed(
    meter: Meter, out: Records, row: int, connection: int, start: int, end: int, size: int, idle: int, active: int
) -> int:
    if meter.bytes[connection] > 0:
        if start - meter.end[connection] <= idle and end - meter.start[connection] <= active:
            meter.end[connection] = max(meter.end[connection], end)
            meter.bytes[connection] += size
            return row
        row = _close(meter, out, row, connection)
    meter.start[connection], meter.end[connection], meter.bytes[connection] = start, end, size
    return row


@kernel
def measure(
    pair: Int32,
    start: Int64,
    end: Int64,
    size: Int64,
    active_ns: Int64,
    first: int,
    connections: Connections,
    meter: Meter,
    out: Records,
    idle: int,
    active: int,
    seed: np.uint64,
) -> tuple[int, int]:
    """Meters transfers from row `first` on; returns the next row to meter and the number of records written."""
    row = 0
    i = first
    while i < pair.size:
        p = pair[i]
        lanes = connections.lanes[p] if size[i] >= SPLIT_BYTES else 1
        share = size[i] // lanes
        chunk = connections.chunk_bytes[p]
        slow = active_ns[i] * (BURST_BYTES / max(share, 1)) > idle and share > BURST_BYTES
        if slow:
            chunk = BURST_BYTES
        pieces = max(1, (share + chunk // 2) // chunk)
        if row + lanes * (pieces + 2) > out.start.size:
            break
        pause = end[i] - start[i] - active_ns[i]
        for lane in range(lanes):
            mine = share + (size[i] - share * lanes if lane == 0 else 0)
            rate = active_ns[i] / mine
            cut = int(mine * uniform(seed, i, p, 11) * (0.97 + 0.03 * uniform(seed, i, lane, 9))) if pause > 0 else mine
            sent = 0
            while sent < mine:
                amount = min(chunk, mine - sent)
                if mine - sent - amount < chunk // 2 and not slow:
                    amount = mine - sent
                if sent < cut < sent + amount:
                    amount = cut - sent
                begin = start[i] + int(sent * rate) + (pause if sent >= cut else 0)
                length = int(min(amount * rate, amount * STREAM_NS_PER_BYTE * (1.0 + uniform(seed, i, lane, sent))))
                if amount == mine:
                    length = end[i] - begin
                sent += amount
                if sent >= mine:
                    begin = max(start[i], end[i] - length - (int(0.02 * pause) if lane else 0))
                row = _feed(meter, out, row, connections.first[p] + lane, begin, begin + length, amount, idle, active)
        i += 1
    return i, row


@kernel
def close_idle(meter: Meter, out: Records, before: int, first: int) -> tuple[int, int]:
    """Closes the open records that ended before a time, from connection `first` on; returns the next one and rows."""
    row = 0
    for connection in range(first, meter.bytes.size):
        if row >= out.start.size:
            return connection, row
        if meter.bytes[connection] > 0 and meter.end[connection] < before:
            row = _close(meter, out, row, connection)
    return meter.bytes.size, row
