"""TCP and UDP: payload bursts per connection and direction.

A record is a run of payload packets without a pause longer than the burst gap. Bytes count once: what TCP sends again
is recognised by its sequence numbers, also when the same packet was captured at two points.
"""

from __future__ import annotations

from typing import Final

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.holes import add_hole, clear_holes, count_holes, distance, fill_holes
from llmprism.ingest.packets.layout import (
    BURST_GAP,
    BYTES,
    C_MISSING,
    C_RETRANSMITTED,
    C_RETRANSMITTED_BYTES,
    C_TRUNCATED,
    END,
    KEY_WORD,
    MISSING,
    NEXT,
    P_END,
    P_LENGTH,
    P_PAYLOAD,
    PACKETS,
    RETRANSMITTED,
    START,
    Number,
)
from llmprism.ingest.packets.loads import big16, big32, byte
from llmprism.ingest.packets.records import write_record
from llmprism.ingest.packets.work import Bytes, Int64, PacketWork

__all__ = ["SYN", "close_burst", "count_tcp", "extend_burst", "ports_word", "tcp_length"]

MAX_JUMP: Final = 1 << 26
"""64 MiB: a larger jump of the sequence number is a new connection on the same ports, not a loss in the capture."""

CLOCK_STEP_NS: Final = 1_000_000_000
"""A packet this much before the open burst: the capturing host's clock was set back."""

LONGEST_BURST_NS: Final = 60_000_000_000
"""A stream without pauses is cut once a minute, like an exporter's active timeout."""

TCP_HEADER_WITH_TIMESTAMPS: Final = 32
"""What Linux sends; assumed where the capture is too short to show the header's length, so that ACKs count nothing."""

SYN: Final = 2


@inlined
def tcp_length(data: Bytes, packet: Int64, counters: Int64) -> Number:
    """Payload bytes on the wire."""
    at = packet[P_PAYLOAD]
    if at + 13 > packet[P_END]:
        counters[C_TRUNCATED] += 1
        return max(packet[P_LENGTH] - TCP_HEADER_WITH_TIMESTAMPS, 0)
    header = (byte(data, at + 12) >> 4) * 4
    return max(packet[P_LENGTH] - max(header, 20), 0)


@inlined
def count_tcp(data: Bytes, packet: Int64, flow: Int64, length: Number, counters: Int64) -> Number:
    """How many of the payload bytes are new; keeps track of the sequence numbers and of gaps that nothing filled."""
    at = packet[P_PAYLOAD]
    sequence = big32(data, at + 4)
    if at + 14 <= packet[P_END] and byte(data, at + 13) & SYN:
        flow[NEXT] = (sequence + 1 + length) & 0xFFFFFFFF
        clear_holes(flow)
        return length
    if length == 0:
        return 0
    after = (sequence + length) & 0xFFFFFFFF
    ahead = distance(sequence, flow[NEXT], 32) if flow[NEXT] >= 0 else 0
    if flow[NEXT] < 0 or abs(ahead) > MAX_JUMP:
        clear_holes(flow)
        flow[NEXT] = after
        return length
    if ahead >= 0:
        if ahead > 0:
            add_hole(flow, flow[NEXT], sequence)
            flow[MISSING] += 1
            counters[C_MISSING] += 1
        flow[NEXT] = after
        return length
    beyond = max(distance(after, flow[NEXT], 32), 0)
    known_end = after if beyond == 0 else flow[NEXT]
    gaps = count_holes(flow)
    fresh = beyond + fill_holes(flow, sequence, known_end, 32)
    closed = gaps - count_holes(flow)
    flow[MISSING] -= closed
    counters[C_MISSING] -= closed
    if beyond > 0:
        flow[NEXT] = after
    if fresh < length:
        flow[RETRANSMITTED] += 1
        counters[C_RETRANSMITTED] += 1
        counters[C_RETRANSMITTED_BYTES] += length - fresh
    return fresh


@inlined
def extend_burst(flow: Int64, time_ns: Number, fresh: Number, work: PacketWork) -> None:
    """Adds a packet to the open burst of the flow, or closes that one and opens the next."""
    if flow[PACKETS] > 0 and (
        time_ns - flow[END] > work.state[BURST_GAP]
        or time_ns < flow[START] - CLOCK_STEP_NS
        or time_ns - flow[START] > LONGEST_BURST_NS
    ):
        close_burst(flow, work)
    if flow[PACKETS] == 0:
        flow[START] = flow[END] = time_ns
    else:
        flow[START] = min(flow[START], time_ns)
        flow[END] = max(flow[END], time_ns)
    flow[BYTES] += fresh
    flow[PACKETS] += 1


@inlined
def close_burst(flow: Int64, work: PacketWork) -> None:
    """Writes the open burst and closes it. A burst without bytes is not written."""
    if flow[BYTES] > 0:
        word = flow[KEY_WORD]
        ports = (word >> 16 & 0xFFFF, word & 0xFFFF)
        protocol = word >> 48 & 0xFF
        write_record(work, flow, flow[START], flow[END], ports, protocol, flow[BYTES], flow[PACKETS])
    flow[PACKETS] = flow[BYTES] = 0


@inlined
def ports_word(data: Bytes, packet: Int64) -> Number:
    at = packet[P_PAYLOAD]
    return big16(data, at) << 16 | big16(data, at + 2)
