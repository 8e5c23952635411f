"""A finished record → one row of the output."""

from __future__ import annotations

from llmprism.ingest.packets.compiled import inlined
from llmprism.ingest.packets.layout import (
    OUT_BYTES,
    OUT_COUNT,
    OUT_DPORT,
    OUT_END,
    OUT_PACKETS,
    OUT_PROTOCOL,
    OUT_SOURCE,
    OUT_SPORT,
    OUT_START,
    OUT_TARGET,
    SOURCE_ID,
    TARGET_ID,
    Number,
)
from llmprism.ingest.packets.work import Int64, PacketWork

__all__ = ["write_record"]


@inlined
def write_record(
    work: PacketWork,
    flow: Int64,
    start_ns: Number,
    end_ns: Number,
    ports: tuple[Number, Number],
    protocol: Number,
    size: Number,
    packets: Number,
) -> None:
    """There is always room: the caller looked before it took the packet."""
    row = work.out[work.state[OUT_COUNT]]
    row[OUT_START], row[OUT_END] = start_ns, end_ns
    row[OUT_SOURCE], row[OUT_TARGET] = flow[SOURCE_ID], flow[TARGET_ID]
    row[OUT_SPORT], row[OUT_DPORT], row[OUT_PROTOCOL] = ports[0], ports[1], protocol
    row[OUT_BYTES], row[OUT_PACKETS] = size, packets
    work.state[OUT_COUNT] += 1
