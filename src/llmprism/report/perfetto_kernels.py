"""The loops of the trace writer: lanes for events that overlap, and the packets of the slices.

A timeline of thousands of GPUs holds millions of events and each becomes two packets, so the bytes are laid down by
compiled loops. The layout of a packet is fixed and short: every nested message stays below 128 bytes even with the
longest varints (see `PACKET_BYTES`), so that each length is one byte, written back when the message is complete.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from llmprism.arrays import Int32, Int64, UInt8
from llmprism.kernel_cache import compiled

__all__ = ["PACKET_BYTES", "SEQUENCE", "assign_lanes", "encode_slices"]

SEQUENCE: Final = 1
"""The one packet sequence that a trace of ours has."""

PACKET_BYTES: Final = 128
"""Upper bound of one packet with its key and length: 2 + timestamp 11 + sequence 2 + flags 2 + event 2 + 73."""

_BEGIN: Final = 1
_END: Final = 2


@compiled
def assign_lanes(address: Int32, start_ns: Int64, end_ns: Int64) -> Int32:
    """A lane per event (sorted by address and start) so that no two events of an address overlap in one lane.

    Every event takes the lowest lane that is free when it starts.
    """
    lanes = np.zeros(address.size, dtype=np.int32)
    lane_end = np.zeros(address.size, dtype=np.int64)
    used = 0
    for event in range(address.size):
        if event == 0 or address[event] != address[event - 1]:
            used = 0
        lane = 0
        while lane < used and lane_end[lane] > start_ns[event]:
            lane += 1
        used = max(used, lane + 1)
        lane_end[lane] = max(end_ns[event], start_ns[event])
        lanes[event] = lane
    return lanes


@compiled
def _varint(out: UInt8, at: int, value: Any) -> int:
    rest = np.uint64(value)
    while rest > np.uint64(0x7F):
        out[at] = np.uint8((rest & np.uint64(0x7F)) | np.uint64(0x80))
        rest = rest >> np.uint64(7)
        at += 1
    out[at] = np.uint8(rest)
    return at + 1


@compiled
def _number(out: UInt8, at: int, key: int, value: Any) -> int:
    out[at] = key
    return _varint(out, at + 1, value)


@compiled
def _annotation(out: UInt8, at: int, name: int, long_key: bool, value: Any) -> int:
    """TrackEvent.debug_annotations = 4 {name_iid = 1, uint_value = 3 or string_value_iid = 17 (a two-byte key)}."""
    out[at] = 0x22
    length_at = at + 1
    at = _number(out, at + 2, 0x08, name)
    if long_key:
        out[at] = 0x88
        at = _number(out, at + 1, 0x01, value)
    else:
        at = _number(out, at, 0x18, value)
    out[length_at] = at - length_at - 1
    return at


@compiled
def _open_packet(out: UInt8, at: int, time_ns: Any, kind: int, track: Any) -> tuple[int, int, int]:
    """Trace.packet = 1 {timestamp = 8, sequence id = 10, needs state: flags = 13, track_event = 11 {type, track}}."""
    out[at] = 0x0A
    packet_length_at = at + 1
    at = _number(out, at + 2, 0x40, time_ns)
    at = _number(out, at, 0x50, SEQUENCE)
    at = _number(out, at, 0x68, 2)
    out[at] = 0x5A
    event_length_at = at + 1
    at = _number(out, at + 2, 0x48, kind)
    at = _number(out, at, 0x58, track)
    return at, packet_length_at, event_length_at


@compiled
def encode_slices(
    start_ns: Int64, end_ns: Int64, track: Int64, name: Int32, step: Int32, peer: Int32, size: Int64
) -> UInt8:
    """Two packets per event: begin (with its name, step, peer and bytes where it has them) and end.

    `name` and `peer` are interned ids, `peer` 0 and `step` -1 and `size` 0 mean none. Interned annotation names:
    1 step, 2 peer, 3 bytes.
    """
    out = np.empty(2 * PACKET_BYTES * start_ns.size, dtype=np.uint8)
    at = 0
    for event in range(start_ns.size):
        at, packet_at, event_at = _open_packet(out, at, start_ns[event], _BEGIN, track[event])
        at = _number(out, at, 0x50, name[event])
        if step[event] >= 0:
            at = _annotation(out, at, 1, False, step[event])
        if peer[event] > 0:
            at = _annotation(out, at, 2, True, peer[event])
        if size[event] > 0:
            at = _annotation(out, at, 3, False, size[event])
        out[event_at] = at - event_at - 1
        out[packet_at] = at - packet_at - 1
        at, packet_at, event_at = _open_packet(out, at, max(end_ns[event], start_ns[event]), _END, track[event])
        out[event_at] = at - event_at - 1
        out[packet_at] = at - packet_at - 1
    return out[:at]
