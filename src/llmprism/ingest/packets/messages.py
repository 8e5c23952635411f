"""RoCEv2: one record per RDMA message, from First (or Only) to Last, per source, destination and queue pair.

Layout and codes are those of the InfiniBand specification (volume 1, chapter 9) and annex A17. The size of a WRITE is
in the RETH of its first packet; of a SEND or a READ response it is the sum of its packets. Packets of a message but the
last all carry one path MTU, so packets that the mirror lost inside a message are counted with that size, and the sum is
exact all the same. A packet number that was seen before is a retransmission and adds nothing. One limit: where the
first packet of a short WRITE is lost on the way to the mirror and comes again only after other messages, the size of
that message is an estimate from its other packets.

Acknowledgements, READ requests and congestion notifications (CNP) carry no payload; CNPs and negative acknowledgements
are counted per flow as evidence of congestion.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.packets.bursts import emit, emit_message
from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.holes import add_hole, distance, fill_holes
from llmprism.ingest.packets.layout import (
    BYTES,
    C_ACKNOWLEDGEMENTS,
    C_MALFORMED,
    C_MISSING,
    C_NEGATIVE,
    C_NOTIFICATIONS,
    C_OTHER,
    C_RETRANSMITTED,
    C_TRUNCATED,
    END,
    HAS_FIRST,
    MESSAGE_FIRST,
    MESSAGE_SIZE,
    MESSAGES,
    MISSING,
    MTU,
    NEGATIVE,
    NEXT,
    NOTIFICATIONS,
    P_END,
    P_FAMILY,
    P_LENGTH,
    P_PAYLOAD,
    PACKETS,
    PORT,
    RESPONSES,
    RETRANSMITTED,
    START,
    WAITING,
    Number,
)
from llmprism.ingest.packets.loads import big16, big32, byte
from llmprism.ingest.packets.tables import find_flow

__all__ = ["roce"]

Bytes = NDArray[np.uint8]
Int64 = NDArray[np.int64]
Int32 = NDArray[np.int32]

UDP_HEADER: Final = 8
BASE_HEADER: Final = 12
CHECKSUM: Final = 4
PSN_BITS: Final = 24
CNP: Final = 0x81
DATAGRAM: Final = 3
EXTENDED: Final = 5
ACKNOWLEDGE: Final = 17

MAX_JUMP: Final = 1 << 20
"""Packets: more than any sender has outstanding; a larger jump is a new connection."""

SILENCE_NS: Final = 1_000_000_000
"""1 s: retransmission timers of RoCE are well below; an old number after that is a new connection."""

SEEN_BEFORE: Final = -1
FILLS_HOLE: Final = -2

FIRST: Final = 1
LAST: Final = 2
# Per operation (the low five bits of the opcode): bytes of extension headers, and FIRST | LAST; -1: no data.
_EXTENSIONS = np.zeros(32, dtype=np.int64)
_POSITIONS = np.full(32, -1, dtype=np.int64)
for _operation, _size, _position in (
    (0, 0, FIRST),  # SEND First
    (1, 0, 0),  # SEND Middle
    (2, 0, LAST),  # SEND Last
    (3, 4, LAST),  # SEND Last with immediate
    (4, 0, FIRST | LAST),  # SEND Only
    (5, 4, FIRST | LAST),  # SEND Only with immediate
    (6, 16, FIRST),  # WRITE First
    (7, 0, 0),  # WRITE Middle
    (8, 0, LAST),  # WRITE Last
    (9, 4, LAST),  # WRITE Last with immediate
    (10, 16, FIRST | LAST),  # WRITE Only
    (11, 20, FIRST | LAST),  # WRITE Only with immediate
    (13, 4, FIRST),  # READ response First
    (14, 0, 0),  # READ response Middle
    (15, 4, LAST),  # READ response Last
    (16, 4, FIRST | LAST),  # READ response Only
    (22, 4, LAST),  # SEND Last with invalidate
    (23, 4, FIRST | LAST),  # SEND Only with invalidate
):
    _EXTENSIONS[_operation], _POSITIONS[_operation] = _size, _position
WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE = 6, 10, 11
READ_RESPONSE_FIRST, READ_RESPONSE_ONLY = 13, 16


@inlined
def roce(
    data: Bytes,
    packet: Int64,
    time_ns: Number,
    flows: Int64,
    addresses: Int64,
    buckets: Int32,
    state: Int64,
    out: Int64,
    counters: Int64,
) -> None:
    """One packet to the RoCE port."""
    base = packet[P_PAYLOAD] + UDP_HEADER
    if base + BASE_HEADER > packet[P_END]:
        counters[C_TRUNCATED] += 1
        return
    opcode = byte(data, base)
    queue_pair = big32(data, base + 4) & 0xFFFFFF
    transport, operation = opcode >> 5, opcode & 31
    responses = transport != DATAGRAM and READ_RESPONSE_FIRST <= operation <= READ_RESPONSE_ONLY and opcode != CNP
    word = packet[P_FAMILY] << 56 | (RESPONSES if responses else MESSAGES) << 48 | queue_pair
    flow = flows[find_flow(flows, addresses, buckets, state, packet, word)]
    if opcode == CNP:
        flow[NOTIFICATIONS] += 1
        counters[C_NOTIFICATIONS] += 1
        return
    if operation == ACKNOWLEDGE and transport != DATAGRAM:
        counters[C_ACKNOWLEDGEMENTS] += 1
        _acknowledgement(data, packet, base + BASE_HEADER + (4 if transport == EXTENDED else 0), flow, counters)
        return
    if _POSITIONS[operation] < 0:
        counters[C_OTHER] += 1
        return
    _data(data, packet, base, time_ns, flow, responses, out, state, counters)


@inlined
def _acknowledgement(data: Bytes, packet: Int64, at: Number, flow: Int64, counters: Int64) -> None:
    """Counts negative ones: receiver not ready, or sequence and other errors."""
    if at < packet[P_END] and byte(data, at) >> 5 & 3 in (1, 3):
        flow[NEGATIVE] += 1
        counters[C_NEGATIVE] += 1


@inlined
def _data(
    data: Bytes,
    packet: Int64,
    base: Number,
    time_ns: Number,
    flow: Int64,
    responses: Number,
    out: Int64,
    state: Int64,
    counters: Int64,
) -> None:
    opcode = byte(data, base)
    transport, operation = opcode >> 5, opcode & 31
    position = _POSITIONS[operation]
    extra = (8 if transport == DATAGRAM else 0) + (4 if transport == EXTENDED and not responses else 0)
    padding = byte(data, base + 1) >> 4 & 3
    headers = UDP_HEADER + BASE_HEADER + extra + _EXTENSIONS[operation] + padding + CHECKSUM
    payload = packet[P_LENGTH] - headers
    if payload < 0:
        counters[C_MALFORMED] += 1
        return
    promised = np.int64(-1)
    reth = base + BASE_HEADER + extra
    if operation in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE) and reth + 16 <= packet[P_END]:
        promised = big32(data, reth + 12)
    number = big32(data, base + 8) & 0xFFFFFF
    skipped = np.int64(0)
    if transport != DATAGRAM:
        if _restarted(flow, number, position, time_ns):
            flow[NEXT] = -1
        skipped = _check_number(flow, number, responses and position & FIRST != 0, counters)
        if skipped < 0:
            if skipped == FILLS_HOLE:
                _late(flow, number, position, payload, promised, time_ns, out, state)
            return
    flow[PORT] = big16(data, packet[P_PAYLOAD])
    _append(flow, number, position, payload, promised, skipped, time_ns, out, state)


@inlined
def _restarted(flow: Int64, number: Number, position: Number, time_ns: Number) -> Number:
    """Whether the queue pair was set up anew, with another packet number: a far jump, or an old First after silence."""
    if flow[NEXT] < 0:
        return False
    ahead = distance(number, flow[NEXT], PSN_BITS)
    return abs(ahead) > MAX_JUMP or (ahead < 0 and position & FIRST != 0 and time_ns - flow[END] > SILENCE_NS)


@inlined
def _check_number(flow: Int64, number: Number, may_jump: Number, counters: Int64) -> Number:
    """How many packets are missing before this one; FILLS_HOLE if it was missing itself, SEEN_BEFORE if it was not."""
    ahead = distance(number, flow[NEXT], PSN_BITS) if flow[NEXT] >= 0 else 0
    if ahead < 0:
        if fill_holes(flow, number, (number + 1) & 0xFFFFFF, PSN_BITS):
            flow[MISSING] -= 1
            counters[C_MISSING] -= 1
            return FILLS_HOLE
        flow[RETRANSMITTED] += 1
        counters[C_RETRANSMITTED] += 1
        return SEEN_BEFORE
    if ahead > 0 and may_jump:
        ahead = np.int64(0)
    if ahead > 0:
        add_hole(flow, flow[NEXT], number)
        flow[MISSING] += ahead
        counters[C_MISSING] += ahead
    flow[NEXT] = (number + 1) & 0xFFFFFF
    return ahead


@inlined
def _late(
    flow: Int64,
    number: Number,
    position: Number,
    payload: Number,
    promised: Number,
    time_ns: Number,
    out: Int64,
    state: Int64,
) -> None:
    """A packet that was missing comes late. Inside the open message its bytes are counted already.

    It may be the First with the size of the message, or a whole message of its own that nothing was seen of before.
    """
    inside = flow[PACKETS] > 0 and distance(number, flow[MESSAGE_FIRST], PSN_BITS) >= 0
    if position == FIRST | LAST:
        if inside:
            flow[BYTES] -= min(flow[BYTES], flow[MTU])
        emit_message(flow, time_ns, promised if promised > 0 else payload, out, state)
    elif inside:
        flow[START] = min(flow[START], time_ns)
        flow[END] = max(flow[END], time_ns)
        if position & FIRST and not flow[HAS_FIRST]:
            flow[HAS_FIRST] = 1
            flow[MESSAGE_SIZE] = promised
            if flow[WAITING] == 2:
                _finish(flow, out, state)
            flow[WAITING] = 0


@inlined
def _append(
    flow: Int64,
    number: Number,
    position: Number,
    payload: Number,
    promised: Number,
    skipped: Number,
    time_ns: Number,
    out: Int64,
    state: Int64,
) -> None:
    if flow[PACKETS] > 0 and flow[WAITING] == 2:
        _finish(flow, out, state)
    if flow[PACKETS] > 0 and _past_end(flow, number):
        skipped = min(skipped, distance(number, _end(flow), PSN_BITS))
        _finish(flow, out, state)
    if position & FIRST:
        if flow[PACKETS] > 0:
            flow[BYTES] += skipped * flow[MTU]
            _finish(flow, out, state)
        flow[MESSAGE_SIZE] = promised
        flow[HAS_FIRST] = 1
        flow[MESSAGE_FIRST] = number
        if not position & LAST:
            flow[MTU] = payload
    elif flow[PACKETS] == 0:
        flow[MESSAGE_SIZE] = -1
        flow[HAS_FIRST] = 0
        flow[MESSAGE_FIRST] = (number - skipped) & 0xFFFFFF
        if not position & LAST:
            flow[MTU] = payload
        flow[BYTES] = skipped * flow[MTU]
        flow[WAITING] = 1 if skipped > 0 else 0
    else:
        flow[BYTES] += skipped * flow[MTU]
    _extend(flow, time_ns, payload)
    if position & LAST and flow[WAITING] == 1:
        flow[WAITING] = 2
    elif position & LAST:
        _finish(flow, out, state)


@inlined
def _extend(flow: Int64, time_ns: Number, payload: Number) -> None:
    if flow[PACKETS] == 0:
        flow[START] = flow[END] = time_ns
    flow[START] = min(flow[START], time_ns)
    flow[END] = max(flow[END], time_ns)
    flow[BYTES] += payload
    flow[PACKETS] += 1


@inlined
def _past_end(flow: Int64, number: Number) -> Number:
    """Whether the open WRITE, whose size is known, must have ended before this packet."""
    if flow[MESSAGE_SIZE] <= 0 or flow[MTU] <= 0 or not flow[HAS_FIRST]:
        return False
    return distance(number, _end(flow), PSN_BITS) >= 0


@inlined
def _end(flow: Int64) -> Number:
    """The first packet number after the open WRITE."""
    return (flow[MESSAGE_FIRST] + (flow[MESSAGE_SIZE] + flow[MTU] - 1) // flow[MTU]) & 0xFFFFFF


@inlined
def _finish(flow: Int64, out: Int64, state: Int64) -> None:
    emit(flow, flow[MESSAGE_SIZE] if flow[MESSAGE_SIZE] > 0 else flow[BYTES], out, state)
    flow[MESSAGE_SIZE] = -1
    flow[HAS_FIRST] = flow[WAITING] = 0
