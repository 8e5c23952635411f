"""RoCEv2: RDMA messages out of packets, per source, destination and queue pair.

Layout and codes are those of the InfiniBand specification (volume 1, chapter 9) and annex A17. Here a packet is read
and its number compared with those seen before: one that was seen is a retransmission and adds nothing; one that was
skipped comes late. `parts.py` puts the messages together. The size of a WRITE is in the RETH of its first packet; of a
SEND or a READ response it is the sum of its packets.

Acknowledgements, READ requests and congestion notifications (CNP) carry no payload; CNPs and negative acknowledgements
are counted per flow as evidence of congestion.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.connection_tables import find_flow
from llmprism.ingest.packets.holes import add_hole, clear_holes, distance, fill_holes
from llmprism.ingest.packets.layout import (
    C_ACKNOWLEDGEMENTS,
    C_MALFORMED,
    C_MISSING,
    C_NEGATIVE,
    C_NOTIFICATIONS,
    C_OTHER,
    C_RETRANSMITTED,
    C_TRUNCATED,
    END,
    ENDED,
    LOWEST,
    MESSAGES,
    MISSING,
    NEGATIVE,
    NEXT,
    NOTIFICATIONS,
    P_END,
    P_FAMILY,
    P_LENGTH,
    P_PAYLOAD,
    PORT,
    RESPONSES,
    RETRANSMITTED,
    Number,
)
from llmprism.ingest.packets.loads import big16, big32, byte
from llmprism.ingest.packets.parts import FIRST, LAST, PSN_BITS, PSN_MASK, add_packet, close_messages, continues
from llmprism.ingest.packets.work import Bytes, Int64, PacketWork

__all__ = ["roce"]

UDP_HEADER: Final = 8
BASE_HEADER: Final = 12
CHECKSUM: Final = 4
CNP: Final = 0x81
DATAGRAM: Final = 3
EXTENDED: Final = 5
ACKNOWLEDGE: Final = 17

MAX_JUMP: Final = 1 << 20
"""Packets: more than any sender has outstanding; a larger jump is a new connection."""

SILENCE_NS: Final = 1_000_000_000
"""1 s: retransmission timers of RoCE are well below; an old number after that is a new connection."""

EARLY_PACKETS: Final = 64
"""A number so little below the first one seen was overtaken by it: adaptive routing reorders by tens of packets."""

SETTLED_PACKETS: Final = 1024
"""After so many more, nothing from before the first packet seen comes any more."""

MAX_MESSAGE_BYTES: Final = 1 << 31
"""The specification's largest message; a RETH that promises more is broken."""

SEEN_BEFORE: Final = -1
LATE: Final = -2

ONLY: Final = FIRST | LAST
# Per operation (the low five bits of the opcode): bytes of extension headers, and FIRST | LAST; -1: no data.
_EXTENSIONS = np.zeros(32, dtype=np.int64)
_POSITIONS = np.full(32, -1, dtype=np.int64)
for _operation, _size, _position in (
    (0, 0, FIRST),  # SEND First
    (1, 0, 0),  # SEND Middle
    (2, 0, LAST),  # SEND Last
    (3, 4, LAST),  # SEND Last with immediate
    (4, 0, ONLY),  # SEND Only
    (5, 4, ONLY),  # SEND Only with immediate
    (6, 16, FIRST),  # WRITE First
    (7, 0, 0),  # WRITE Middle
    (8, 0, LAST),  # WRITE Last
    (9, 4, LAST),  # WRITE Last with immediate
    (10, 16, ONLY),  # WRITE Only
    (11, 20, ONLY),  # WRITE Only with immediate
    (13, 4, FIRST),  # READ response First
    (14, 0, 0),  # READ response Middle
    (15, 4, LAST),  # READ response Last
    (16, 4, ONLY),  # READ response Only
    (22, 4, LAST),  # SEND Last with invalidate
    (23, 4, ONLY),  # SEND Only with invalidate
):
    _EXTENSIONS[_operation], _POSITIONS[_operation] = _size, _position
WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE = 6, 10, 11
READ_RESPONSE_FIRST, READ_RESPONSE_ONLY = 13, 16


@inlined
def roce(work: PacketWork, time_ns: Number) -> None:
    """One packet to the RoCE port."""
    data, packet, counters = work.data, work.packet, work.counters
    base = packet[P_PAYLOAD] + UDP_HEADER
    if base + BASE_HEADER > packet[P_END]:
        counters[C_TRUNCATED] += 1
        return
    opcode = byte(data, base)
    queue_pair = big32(data, base + 4) & 0xFFFFFF
    transport, operation = opcode >> 5, opcode & 31
    responses = transport != DATAGRAM and READ_RESPONSE_FIRST <= operation <= READ_RESPONSE_ONLY and opcode != CNP
    word = packet[P_FAMILY] << 56 | (RESPONSES if responses else MESSAGES) << 48 | queue_pair
    flow = work.flows[find_flow(work, word)]
    if opcode == CNP:
        flow[NOTIFICATIONS] += 1
        counters[C_NOTIFICATIONS] += 1
        return
    if operation == ACKNOWLEDGE and transport != DATAGRAM:
        counters[C_ACKNOWLEDGEMENTS] += 1
        _acknowledgement(data, packet, base + BASE_HEADER + (4 if transport == EXTENDED else 0), flow, counters)
        return
    if _POSITIONS[operation] < 0 or (transport == DATAGRAM and _POSITIONS[operation] != ONLY):
        counters[C_OTHER] += 1
        return
    _data(work, base, time_ns, flow, responses)


@inlined
def _acknowledgement(data: Bytes, packet: Int64, at: Number, flow: Int64, counters: Int64) -> None:
    """Counts negative ones: receiver not ready, or sequence and other errors."""
    if at < packet[P_END] and byte(data, at) >> 5 & 3 in (1, 3):
        flow[NEGATIVE] += 1
        counters[C_NEGATIVE] += 1


@inlined
def _data(work: PacketWork, base: Number, time_ns: Number, flow: Int64, responses: Number) -> None:
    data, packet = work.data, work.packet
    opcode = byte(data, base)
    transport, operation = opcode >> 5, opcode & 31
    position = _POSITIONS[operation]
    extra = (8 if transport == DATAGRAM else 0) + (4 if transport == EXTENDED and not responses else 0)
    padding = byte(data, base + 1) >> 4 & 3
    headers = UDP_HEADER + BASE_HEADER + extra + _EXTENSIONS[operation] + padding + CHECKSUM
    payload = packet[P_LENGTH] - headers
    if payload < 0:
        work.counters[C_MALFORMED] += 1
        return
    number = big32(data, base + 8) & PSN_MASK
    is_start = flow[NEXT] < 0
    if transport != DATAGRAM:
        if _restarted(flow, number, position, time_ns):
            _set_up_anew(flow, work)
            is_start = True
        order = _order(flow, number, responses and position & FIRST != 0, work)
        if order == SEEN_BEFORE:
            return
        if order == LATE and responses and position & FIRST and continues(flow, number, work):
            # A READ that lost packets asks again from the first lost one on: the answer is a First in mid-message.
            position &= LAST
    flow[PORT] = big16(data, packet[P_PAYLOAD])
    flow[END] = max(flow[END], time_ns)
    promised = _promised(data, packet, base + BASE_HEADER + extra, operation)
    add_packet(flow, number, position, payload, promised, is_start, time_ns, work)


@inlined
def _promised(data: Bytes, packet: Int64, reth: Number, operation: Number) -> Number:
    """The size of the message that the RETH gives; -1 where there is none (or it was not captured)."""
    if operation not in (WRITE_FIRST, WRITE_ONLY, WRITE_ONLY_IMMEDIATE) or reth + 16 > packet[P_END]:
        return np.int64(-1)
    size = big32(data, reth + 12)
    return size if size <= MAX_MESSAGE_BYTES else np.int64(-1)


@inlined
def _restarted(flow: Int64, number: Number, position: Number, time_ns: Number) -> Number:
    """Whether the queue pair was set up anew, with another packet number: a far jump, or an old First after silence."""
    if flow[NEXT] < 0:
        return False
    ahead = distance(number, flow[NEXT], PSN_BITS)
    return abs(ahead) > MAX_JUMP or (ahead < 0 and position & FIRST != 0 and time_ns - flow[END] > SILENCE_NS)


@inlined
def _set_up_anew(flow: Int64, work: PacketWork) -> None:
    close_messages(flow, work)
    clear_holes(flow)
    flow[NEXT] = flow[ENDED] = flow[LOWEST] = -1


@inlined
def _order(flow: Int64, number: Number, may_jump: Number, work: PacketWork) -> Number:
    """LATE where the packet was missing, SEEN_BEFORE where it was not, else 0; counts what is missing before it.

    READ responses take their numbers from the requests, which lie between them: a First may skip numbers.
    """
    if flow[NEXT] < 0:
        flow[NEXT] = flow[LOWEST] = number
    ahead = distance(number, flow[NEXT], PSN_BITS)
    if ahead < 0:
        return _behind(flow, number, work)
    if may_jump and not continues(flow, flow[NEXT], work):
        ahead = np.int64(0)
    if ahead > 0:
        add_hole(flow, flow[NEXT], number)
        flow[MISSING] += ahead
        work.counters[C_MISSING] += ahead
    flow[NEXT] = (number + 1) & PSN_MASK
    if flow[LOWEST] >= 0 and distance(flow[NEXT], flow[LOWEST], PSN_BITS) > SETTLED_PACKETS:
        flow[LOWEST] = -1
    return 0


@inlined
def _behind(flow: Int64, number: Number, work: PacketWork) -> Number:
    """A number below the next one: it fills a hole, it was overtaken by the very first packet, or it was seen."""
    after = (number + 1) & PSN_MASK
    if fill_holes(flow, number, after, PSN_BITS):
        flow[MISSING] -= 1
        work.counters[C_MISSING] -= 1
        return LATE
    below = distance(flow[LOWEST], number, PSN_BITS) if flow[LOWEST] >= 0 else 0
    if 0 < below <= EARLY_PACKETS:
        if below > 1:
            add_hole(flow, after, flow[LOWEST])
            flow[MISSING] += below - 1
            work.counters[C_MISSING] += below - 1
        flow[LOWEST] = number
        return LATE
    flow[RETRANSMITTED] += 1
    work.counters[C_RETRANSMITTED] += 1
    return SEEN_BEFORE
