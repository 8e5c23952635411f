"""Packet captures → flow records: containers, headers, TCP bursts and RDMA messages, all in one compiled pass."""

from llmprism.ingest.packets.containers import is_packets
from llmprism.ingest.packets.reader import BURST_GAP_NS, PacketReader, PacketStats

__all__ = ["BURST_GAP_NS", "PacketReader", "PacketStats", "is_packets"]
