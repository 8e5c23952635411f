"""The packet kernels: one pass over a buffer of a pcap or pcapng stream, framing, decoding and counting in one go.

A scan stops where the buffer ends, where the tables need room, where the output is full, or at a pcapng block that
describes the stream; Python deals with that and scans on. Nothing is allocated per packet.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.ingest.packets.bursts import SYN, close_burst, count_tcp, extend_burst, ports_word, tcp_length
from llmprism.ingest.packets.compiled import inlined, kernel
from llmprism.ingest.packets.connection_tables import find_flow
from llmprism.ingest.packets.decode import FRAGMENT, NOT_IP, OK, TRUNCATED, decode
from llmprism.ingest.packets.layout import (
    ADDRESS_COUNT,
    BROKEN,
    C_DECODED,
    C_FIRST_NS,
    C_FRAGMENTS,
    C_LAST_NS,
    C_MALFORMED,
    C_NOT_IP,
    C_OTHER,
    C_PACKETS,
    C_TRUNCATED,
    FLOW_COUNT,
    GROW_ADDRESSES,
    GROW_FLOWS,
    GROW_PARTS,
    NEED_BYTES,
    OPEN,
    OUT_COUNT,
    OUT_FULL,
    P_END,
    P_FAMILY,
    P_LENGTH,
    P_PAYLOAD,
    P_PROTOCOL,
    PACKETS,
    PART_COUNT,
    PARTS_ROWS,
    ROCE_PORT,
    SPECIAL_BLOCK,
    TCP,
    UDP,
    Number,
)
from llmprism.ingest.packets.loads import big16, big32, byte, little32
from llmprism.ingest.packets.messages import roce
from llmprism.ingest.packets.parts import close_messages
from llmprism.ingest.packets.work import Bytes, Int64, PacketWork

__all__ = ["MAX_PACKET_BYTES", "close_flows", "scan_pcap", "scan_pcapng"]

MAX_PACKET_BYTES: Final = 1 << 20
"""1 MiB captured of one packet: offloaded segments reach 512 KiB; more is a broken length."""

RECORDS_PER_PACKET: Final = PART_COUNT + 2
"""A packet that sets a queue pair up anew finishes all its messages and may be one; any other at most two records."""

SECTION_HEADER: Final = 0x0A0D0D0A
INTERFACE: Final = 1
OLD_PACKET: Final = 2
SIMPLE_PACKET: Final = 3
ENHANCED_PACKET: Final = 6

LINK: Final = 0
TICKS_POWER: Final = 1
"""Decimal digits of a tick (9: ns); a power of two is 128 + its exponent, as in the file."""
OFFSET_NS: Final = 2
SNAP: Final = 3
INTERFACE_WIDTH: Final = 4


@inlined
def _word(data: Bytes, at: Number, swapped: Number) -> Number:
    """A 32-bit number of the container: little endian, or big if the file was written on the other kind of machine."""
    return big32(data, at) if swapped else little32(data, at)


@inlined
def _room(work: PacketWork) -> Number:
    state = work.state
    if state[OUT_COUNT] + RECORDS_PER_PACKET > work.out.shape[0]:
        return OUT_FULL
    if 2 * (state[FLOW_COUNT] + 1) > work.flows.shape[0]:
        return GROW_FLOWS
    if state[ADDRESS_COUNT] + 2 > work.addresses.shape[0]:
        return GROW_ADDRESSES
    if state[PARTS_ROWS] >= work.parts.shape[0]:
        return GROW_PARTS
    return NEED_BYTES


@kernel
def scan_pcap(
    work: PacketWork, begin: Number, end: Number, big_endian: Number, nanoseconds: Number, link: Number
) -> tuple[Number, Number]:
    """(where it stopped, why)."""
    at = begin
    while at + 16 <= end:
        captured = _word(work.data, at + 8, big_endian)
        if captured > MAX_PACKET_BYTES:
            return at, BROKEN
        if at + 16 + captured > end:
            return at, NEED_BYTES
        why = _room(work)
        if why != NEED_BYTES:
            return at, why
        fraction = _word(work.data, at + 4, big_endian)
        time_ns = _word(work.data, at, big_endian) * 1_000_000_000 + (fraction if nanoseconds else fraction * 1_000)
        wire = _word(work.data, at + 12, big_endian)
        _count(work, at + 16, captured, wire, link, time_ns)
        at += 16 + captured
    return at, NEED_BYTES


@kernel
def scan_pcapng(
    work: PacketWork, begin: Number, end: Number, big_endian: Number, interfaces: Int64
) -> tuple[Number, Number]:
    """(where it stopped, why). Section and interface blocks stop the scan: they change how to read on."""
    at = begin
    while at + 12 <= end:
        kind = _word(work.data, at, big_endian)
        if kind in (SECTION_HEADER, INTERFACE):
            return at, SPECIAL_BLOCK
        length = _word(work.data, at + 4, big_endian)
        if length < 12 or length % 4 or length > MAX_PACKET_BYTES:
            return at, BROKEN
        if at + length > end:
            return at, NEED_BYTES
        if kind in (ENHANCED_PACKET, OLD_PACKET, SIMPLE_PACKET):
            why = _room(work)
            if why != NEED_BYTES:
                return at, why
            number, time_ns, start, captured, wire = _packet_block(work.data, at, kind, big_endian, interfaces)
            if number < 0 or number >= interfaces.shape[0] or start + captured > at + length - 4 or captured < 0:
                return at, BROKEN
            _count(work, start, captured, wire, interfaces[number, LINK], time_ns)
        at += length
    return at, NEED_BYTES


@inlined
def _packet_block(
    data: Bytes, at: Number, kind: Number, big_endian: Number, interfaces: Int64
) -> tuple[Number, Number, Number, Number, Number]:
    """(interface, time, offset of the packet, bytes captured, bytes on the wire); interface -1: a broken block."""
    length = _word(data, at + 4, big_endian)
    if kind == SIMPLE_PACKET:
        if length < 16 or interfaces.shape[0] == 0:
            return -1, 0, 0, 0, 0
        wire = _word(data, at + 8, big_endian)
        captured = min(wire, length - 16)
        if interfaces[0, SNAP] > 0:
            captured = min(captured, interfaces[0, SNAP])
        return 0, 0, at + 12, captured, wire
    if length < 32:
        return -1, 0, 0, 0, 0
    number = _word(data, at + 8, big_endian)
    if kind == OLD_PACKET:
        number = number >> 16 if big_endian else number & 0xFFFF
    if number >= interfaces.shape[0]:
        return -1, 0, 0, 0, 0
    ticks = _word(data, at + 12, big_endian) << 32 | _word(data, at + 16, big_endian)
    time_ns = _nanoseconds(ticks, interfaces[number, TICKS_POWER]) + interfaces[number, OFFSET_NS]
    return number, time_ns, at + 28, _word(data, at + 20, big_endian), _word(data, at + 24, big_endian)


@inlined
def _nanoseconds(ticks: Number, power: Number) -> Number:
    if power < 128:
        if power <= 9:
            return ticks * 10 ** (9 - power)
        return ticks // 10 ** min(power - 9, 18)
    bits = min(power - 128, 62)
    whole, part = ticks >> bits, ticks & ((np.int64(1) << bits) - 1)
    if bits > 33:
        part, bits = part >> (bits - 33), np.int64(33)
    return whole * 1_000_000_000 + (part * 1_000_000_000 >> bits)


@inlined
def _count(work: PacketWork, at: Number, captured: Number, wire: Number, link: Number, time_ns: Number) -> None:
    """One packet: decode it, find its flow, add its bytes."""
    data, packet, counters = work.data, work.packet, work.counters
    counters[C_PACKETS] += 1
    if counters[C_PACKETS] == 1:
        counters[C_FIRST_NS] = counters[C_LAST_NS] = time_ns
    counters[C_FIRST_NS] = min(counters[C_FIRST_NS], time_ns)
    counters[C_LAST_NS] = max(counters[C_LAST_NS], time_ns)
    status = decode(data, at, captured, wire, link, packet)
    if status != OK:
        counters[_reason(status)] += 1
        return
    protocol = packet[P_PROTOCOL]
    transport = packet[P_PAYLOAD]
    if protocol not in (TCP, UDP):
        counters[C_OTHER] += 1
        return
    if transport + 8 > packet[P_END]:
        counters[C_TRUNCATED] += 1
        return
    counters[C_DECODED] += 1
    if protocol == UDP and big16(data, transport + 2) == ROCE_PORT:
        roce(work, time_ns)
        return
    length = max(packet[P_LENGTH] - 8, 0) if protocol == UDP else tcp_length(data, packet, counters)
    if length == 0 and not (protocol == TCP and _opens(data, packet)):
        return
    word = packet[P_FAMILY] << 56 | protocol << 48 | ports_word(data, packet)
    flow = work.flows[find_flow(work, word)]
    fresh = length if protocol == UDP else count_tcp(data, packet, flow, length, counters)
    if fresh > 0:
        extend_burst(flow, time_ns, fresh, work)


@inlined
def _opens(data: Bytes, packet: Int64) -> Number:
    at = packet[P_PAYLOAD] + 13
    return at < packet[P_END] and byte(data, at) & SYN != 0


@inlined
def _reason(status: Number) -> Number:
    if status == NOT_IP:
        return C_NOT_IP
    if status == TRUNCATED:
        return C_TRUNCATED
    return C_FRAGMENTS if status == FRAGMENT else C_MALFORMED


@kernel
def close_flows(work: PacketWork, first: Number) -> Number:
    """Finishes the open records of the flows from row `first` on; returns the row to go on with once `out` is full."""
    flows = work.flows
    for row in range(first, flows.shape[0]):
        if work.state[OUT_COUNT] + PART_COUNT > work.out.shape[0]:
            return row
        if flows[row, OPEN] > 0:
            close_messages(flows[row], work)
        if flows[row, PACKETS] > 0:
            close_burst(flows[row], work)
    return flows.shape[0]
