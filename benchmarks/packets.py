"""How fast packets become flow records on one core, against the same work with dpkt in Python.

    python benchmarks/packets.py

Writes a capture of TCP and RoCEv2 traffic (in memory), reads it with both, and prints packets per second, the ratio and
the peak memory. The dpkt loop only parses and sums payload per connection: less than what our reader does.
"""

from __future__ import annotations

import io
import resource
import struct
import time

import dpkt
import numpy as np

from llmprism.ingest.packets.reader import PacketReader

PACKETS = 2_000_000
DPKT_PACKETS = 50_000
SNAP = 96


def tcp_frame(connection: int, sequence: int) -> bytes:
    segment = (
        struct.pack(">HHIIBBHHH", 40_000 + connection % 1000, 5000, sequence, 0, 0x80, 0x10, 63, 0, 0) + b"\0" * 12
    )
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 52 + 9_000, 1, 0x4000, 64, 6, 0, *ends(connection))
    return b"\2" * 12 + b"\x08\x00" + header + segment


def roce_frame(connection: int, number: int) -> bytes:
    base = struct.pack(">BBHII", 7, 0x40, 0xFFFF, connection, number)
    datagram = struct.pack(">HHHH", 50_000, 4791, 8 + 12 + 4096 + 4, 0) + base
    header = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + 8 + 12 + 4096 + 4, 1, 0x4000, 64, 17, 0, *ends(connection))
    return b"\2" * 12 + b"\x08\x00" + header + datagram


def ends(connection: int) -> tuple[bytes, bytes]:
    return struct.pack(">BBH", 10, 0, connection % 997), struct.pack(">BBH", 10, 1, connection % 991)


def capture(packets: int) -> bytes:
    rng = np.random.default_rng(0)
    connections = rng.integers(0, 4000, packets).tolist()
    times = (np.arange(packets) * 500 + rng.integers(0, 400, packets)).tolist()
    sent = [0] * 4000
    out = [struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 1)]
    for connection, offset in zip(connections, times, strict=True):
        count = sent[connection]
        frame = roce_frame(connection, count) if connection % 2 else tcp_frame(connection, count * 9_000 & 0xFFFFFFFF)
        sent[connection] += 1
        frame = frame[:SNAP]
        out.append(struct.pack("<IIII", 1_794_706_221 + offset // 10**9, offset % 10**9, len(frame), 9_066) + frame)
    return b"".join(out)


def with_dpkt(data: bytes) -> float:
    totals: dict[tuple[bytes, bytes, int, int], int] = {}
    begin = time.process_time()
    for _, frame in dpkt.pcap.Reader(io.BytesIO(data)):
        packet = dpkt.ethernet.Ethernet(frame).data
        segment = packet.data
        key = (packet.src, packet.dst, segment.sport, segment.dport)
        totals[key] = totals.get(key, 0) + packet.len
    return time.process_time() - begin


def with_llmprism(data: bytes) -> tuple[float, int]:
    reader = PacketReader(io.BytesIO(data), "capture")
    begin = time.process_time()
    records = sum(batch.shape[0] for batch in reader.batches())
    return time.process_time() - begin, records


def main() -> None:
    small = capture(DPKT_PACKETS)
    with_llmprism(small)
    data = capture(PACKETS)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    runs = [with_llmprism(data) for _ in range(3)]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    ours = PACKETS / min(seconds for seconds, _ in runs)
    theirs = DPKT_PACKETS / with_dpkt(small)
    print(f"llmprism {ours / 1e6:.1f} million packets/s into {runs[0][1]:,} records, dpkt {theirs / 1e6:.3f} million/s")
    print(f"ratio {ours / theirs:.0f} (higher is better); memory grew by {grown / 1e3:.0f} MB over the capture itself")


if __name__ == "__main__":
    main()
