"""Packets to flow records."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np
import pytest
from lab.capture import SNAP
from lab.extract import extract, flow_records, read_packets

HEADER = struct.pack("<IHHiIII", 0xA1B23C4D, 2, 4, 0, 0, SNAP, 1)


def packet(time_ns: int, src: int, dst: int, sport: int, payload: int, length: int | None = None) -> bytes:
    """One recorded frame: Ethernet, IPv4 and TCP headers without options, cut after 66 bytes."""
    total = 40 + payload if length is None else length
    ip = struct.pack("!BBHHHBBHII", 0x45, 0, total, 0, 0, 64, 6, 0, src, dst)
    tcp = struct.pack("!HHIIBBHHH", sport, 29500, 0, 0, 0x50, 0, 0, 0, 0)
    frame = (bytes(12) + b"\x08\x00" + ip + tcp).ljust(SNAP, b"\0")
    return struct.pack("<IIII", time_ns // 10**9, time_ns % 10**9, SNAP, 54 + payload) + frame


def capture(path: Path, *packets: bytes) -> Path:
    path.write_bytes(HEADER + b"".join(packets))
    return path


def test_packets_are_read(tmp_path: Path) -> None:
    found = read_packets(capture(tmp_path / "leaf00.pcap", packet(5_000_000_007, 10, 20, 1234, 1000)))
    assert {name: int(values[0]) for name, values in found.items()} == {
        "time": 5_000_000_007, "src": 10, "dst": 20, "sport": 1234, "dport": 29500, "bytes": 1000,
    }  # fmt: skip


def test_a_frame_over_64_kb_has_the_length_of_the_frame(tmp_path: Path) -> None:
    found = read_packets(capture(tmp_path / "leaf00.pcap", packet(1, 10, 20, 1, 100_000, length=0)))
    assert found["bytes"].tolist() == [100_000]


def test_an_incomplete_last_packet_is_left_out(tmp_path: Path) -> None:
    path = capture(tmp_path / "leaf00.pcap", packet(1, 10, 20, 1, 100), packet(2, 10, 20, 1, 100)[:-5])
    assert read_packets(path)["time"].tolist() == [1]


def test_another_snap_length_is_refused(tmp_path: Path) -> None:
    raw = bytearray(packet(1, 10, 20, 1, 100))
    raw[8] = 60
    with pytest.raises(ValueError, match="66 bytes"):
        read_packets(capture(tmp_path / "leaf00.pcap", bytes(raw)))


def test_a_pause_ends_a_record_and_connections_stay_apart(tmp_path: Path) -> None:
    packets = [
        packet(0, 10, 20, 1, 100),
        packet(400, 10, 20, 1, 50),
        packet(2000, 10, 20, 1, 7),
        packet(10, 10, 20, 2, 9),
    ]
    found = flow_records(read_packets(capture(tmp_path / "leaf00.pcap", *packets)), gap_ns=1000)
    rows = list(
        zip(*(found[name].tolist() for name in ("sport", "start_ns", "end_ns", "bytes", "packets")), strict=True)
    )
    assert rows == [(1, 0, 400, 150, 2), (1, 2000, 2000, 7, 1), (2, 10, 10, 9, 1)]


def test_no_packets_give_no_records() -> None:
    empty = {name: np.zeros(0, np.int64) for name in ("time", "src", "dst", "sport", "dport", "bytes")}
    assert not len(flow_records(empty, 1000)["bytes"])


def test_extract_joins_the_leaves_and_keeps_a_slice(tmp_path: Path) -> None:
    capture(tmp_path / "leaf00.pcap", packet(0, 10, 20, 1, 100), packet(2_000_000, 10, 20, 1, 100))
    capture(tmp_path / "leaf01.pcap", packet(1_000_000, 20, 10, 9, 300))
    records = extract(tmp_path, gap_us=500, slice_ms=1)
    assert sorted(records["bytes"].tolist()) == [100, 100, 300]
    assert not list(tmp_path.glob("*.pcap"))
    cut = gzip.decompress((tmp_path / "slice.pcap.gz").read_bytes())
    assert len(cut) == len(HEADER) + 16 + SNAP
