"""Containers, headers and TCP bursts: packets in, records out."""

from __future__ import annotations

import io
import struct

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import packet_frames as build
from llmprism.errors import FormatError, InputError, LimitError, LLMPrismError
from llmprism.ingest.packets import layout
from llmprism.ingest.packets.reader import PacketReader
from llmprism.ingest.packets.stats import PacketStats

T0 = 1_794_706_221_000_000_000
US = 1_000
Record = tuple[str, str, int, int, int, int]


def read(data: bytes, gap_ns: int = 500_000) -> tuple[list[Record], PacketStats]:
    """Records as (source, destination, start - T0, end - T0, bytes, packets) in the order of their starts."""
    reader = PacketReader(io.BytesIO(data), "capture", gap_ns)
    rows = np.concatenate(list(reader.batches()))
    names = reader.addresses()
    records = [
        (
            names[row[layout.OUT_SOURCE]],
            names[row[layout.OUT_TARGET]],
            row[layout.OUT_START] - T0,
            row[layout.OUT_END] - T0,
            row[layout.OUT_BYTES],
            row[layout.OUT_PACKETS],
        )
        for row in rows.tolist()
    ]
    return sorted(records, key=lambda record: (record[2], record)), reader.stats()


def timed(frames: list[bytes], step_ns: int = 10 * US) -> list[build.Timed]:
    return [(T0 + step_ns * index, frame) for index, frame in enumerate(frames)]


FRAMES = timed([build.tcp_frame(1000, 100), build.tcp_frame(1100, 200), build.tcp_frame(1300, 0)])
EXPECTED = [("10.0.0.1", "10.0.0.2", 0, 10 * US, 300, 2)]


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("nano", [False, True])
def test_pcap_variants(big: bool, nano: bool) -> None:
    assert read(build.pcap(FRAMES, big=big, nano=nano))[0] == EXPECTED


@pytest.mark.parametrize("big", [False, True])
@pytest.mark.parametrize("resolution", [None, 6, 9, 12 - 3, 128 + 30])
def test_pcapng_variants(big: bool, resolution: int | None) -> None:
    ((source, target, start, end, size, packets),) = read(build.pcapng(FRAMES, big=big, resolution=resolution))[0]
    assert (source, target, size, packets) == ("10.0.0.1", "10.0.0.2", 300, 2)
    assert abs(start) <= 1
    assert abs(end - 10 * US) <= 1


def test_pcapng_sections_may_change_the_byte_order() -> None:
    records, _ = read(build.pcapng(FRAMES) + build.pcapng([(T0 + 10**9, build.tcp_frame(1300, 7))], big=True))
    assert [record[4] for record in records] == [300, 7]


INNER = build.tcp_frame(1000, 100)
IP = INNER[14:]


@pytest.mark.parametrize(
    ("frame", "link"),
    [
        (INNER, 1),
        (build.ethernet(IP, vlans=[0x8100]), 1),
        (build.ethernet(IP, vlans=[0x88A8, 0x8100]), 1),
        (build.erspan2(INNER), 1),
        (build.erspan3(INNER), 1),
        (build.erspan3(INNER, platform=True), 1),
        (build.ethernet(build.ipv4("192.0.2.1", "192.0.2.2", 47, build.gre(0x88BE, INNER))), 1),
        (build.ethernet(build.ipv4("192.0.2.1", "192.0.2.2", 47, build.gre(0x6558, INNER))), 1),
        (build.ethernet(build.ipv4("192.0.2.1", "192.0.2.2", 47, build.gre(0x0800, IP))), 1),
        (build.ethernet(build.ipv4("192.0.2.1", "192.0.2.2", 4, IP)), 1),
        (build.vxlan(INNER), 1),
        (build.erspan2(build.vxlan(INNER)), 1),
        (IP, 101),
        (IP, 12),
        (IP, 228),
        (b"\x02\0\0\0" + IP, 0),
        (b"\0" * 14 + b"\x08\x00" + IP, 113),
        (b"\0" * 14 + b"\x81\x00\x00\x07\x08\x00" + IP, 113),
        (b"\x08\x00" + b"\0" * 18 + IP, 276),
    ],
)
def test_link_layers_and_tunnels(frame: bytes, link: int) -> None:
    records, stats = read(build.pcap([(T0, frame)], link=link))
    assert records == [("10.0.0.1", "10.0.0.2", 0, 0, 100, 1)]
    assert stats.packets == stats.decoded == 1


def test_ipv6_with_extension_headers() -> None:
    segment = build.tcp(1, 2, 3, b"x" * 50)
    extension = bytes([6, 0]) + b"\0" * 6
    ordinary = build.ethernet(build.ipv6("fe80::1", "2001:db8::2", 6, segment), 0x86DD)
    extended = build.ethernet(build.ipv6("fe80::1", "2001:db8::2", 60, extension + segment), 0x86DD)
    for frame in (ordinary, extended, build.erspan2(ordinary)):
        assert read(build.pcap([(T0, frame)]))[0] == [("fe80::1", "2001:db8::2", 0, 0, 50, 1)]


def test_short_snaps_lose_no_bytes() -> None:
    assert (
        read(build.pcap(timed([build.tcp_frame(0, 9_000), build.tcp_frame(9_000, 1_000)]), snap=54))[0][0][4] == 10_000
    )


def test_offloaded_segments_beyond_64_kb() -> None:
    big = build.ethernet(build.ipv4("10.0.0.1", "10.0.0.2", 6, build.tcp(1, 2, 0, b""), length=0))
    records, _ = read(build.pcap([(T0, big)], wire=54 + 180_000))
    assert records[0][4] == 180_000


def test_what_is_not_traffic_is_counted() -> None:
    arp = build.ethernet(b"\0" * 28, 0x0806)
    icmp = build.ethernet(build.ipv4("10.0.0.1", "10.0.0.2", 1, b"\0" * 8))
    fragment = bytearray(INNER)
    fragment[20:22] = b"\x00\x10"
    frames = [arp, icmp, bytes(fragment), INNER[:30], b"", INNER[:14] + b"\x55" + INNER[15:]]
    _, stats = read(build.pcap(timed([*frames, INNER])))
    assert (stats.not_ip, stats.other, stats.fragments, stats.truncated, stats.malformed) == (1, 1, 1, 2, 1)
    assert stats.decoded == 1


def sizes(frames: list[bytes]) -> tuple[int, PacketStats]:
    records, stats = read(build.pcap(timed(frames)))
    return sum(record[4] for record in records), stats


def test_retransmissions_count_once() -> None:
    frames = [build.tcp_frame(0, 100), build.tcp_frame(100, 100), build.tcp_frame(0, 100), build.tcp_frame(150, 100)]
    total, stats = sizes(frames)
    assert total == 250
    assert (stats.retransmitted, stats.retransmitted_bytes) == (2, 150)


def test_reordered_segments_count() -> None:
    order = [0, 2, 1, 4, 5, 3, 6]
    total, stats = sizes([build.tcp_frame(100 * place, 100) for place in order])
    assert total == 700
    assert stats.retransmitted == 0


def test_sequence_numbers_wrap() -> None:
    first = 2**32 - 150
    frames = [build.tcp_frame(first + 100 * place, 100) for place in (0, 1, 3, 2, 1)]
    total, stats = sizes(frames)
    assert total == 400
    assert stats.retransmitted == 1


def test_a_new_connection_on_old_ports() -> None:
    frames = [build.tcp_frame(5_000_000, 100), build.tcp_frame(7, 0, flags=2), build.tcp_frame(8, 100)]
    assert sizes(frames)[0] == 200
    assert sizes([build.tcp_frame(4_000_000_000, 100), build.tcp_frame(1_000_000_000, 100)])[0] == 200


def test_the_same_packets_from_two_capture_points_count_once() -> None:
    frames = [build.tcp_frame(100 * place, 100) for place in range(20)]
    assert sizes([frame for frame in frames for _ in range(2)])[0] == 2_000


@settings(max_examples=60, deadline=None)
@given(st.permutations(range(12)), st.lists(st.integers(0, 11), max_size=6))
def test_bytes_are_exact_under_local_reordering_and_repetition(order: list[int], repeats: list[int]) -> None:
    """Segments move by at most three places and may come again at the end."""
    places = sorted(range(12), key=lambda place: place + min(order[place], 3))
    frames = [build.tcp_frame(1000 + 50 * place, 50) for place in [*places, *repeats]]
    total, _ = sizes([build.tcp_frame(0, 1000), *frames])
    assert total == 1000 + 12 * 50


def test_a_pause_ends_a_record() -> None:
    frames = [
        (T0, build.tcp_frame(0, 10)),
        (T0 + 500 * US, build.tcp_frame(10, 10)),
        (T0 + 1001 * US, build.tcp_frame(20, 10)),
    ]
    assert [record[2:5] for record in read(build.pcap(frames))[0]] == [(0, 500 * US, 20), (1001 * US, 1001 * US, 10)]
    assert len(read(build.pcap(frames), gap_ns=501 * US)[0]) == 1


def test_many_flows_and_small_reads() -> None:
    """Tables grow, the output is taken in parts, and reading byte by byte changes nothing."""

    class Slow(io.BytesIO):
        def readinto(self, target: object) -> int:  # type: ignore[override]
            return super().readinto(memoryview(target)[:97])  # type: ignore[arg-type]

    frames = [
        (T0 + index, build.tcp_frame(0, 10, f"10.{index % 90}.{index // 90}.1", "10.200.0.1")) for index in range(6_000)
    ]
    data = build.pcap(frames)
    assert len(read(data)[0]) == 6_000
    reader = PacketReader(Slow(data[: len(data) // 20]), "slow")
    assert sum(batch.shape[0] for batch in reader.batches()) == reader.stats().packets == 299


def test_flows_survive_growing_tables() -> None:
    """More flows than the first tables hold, each with several packets in one burst: one record per flow."""
    sources = [f"10.{index % 90}.{index // 90}.1" for index in range(5_000)]
    frames = [
        (T0 + 5_000 * turn + index, build.tcp_frame(10 * turn, 10, source))
        for turn in range(3)
        for index, source in enumerate(sources)
    ]
    records, stats = read(build.pcap(frames))
    assert len(records) == 5_000
    assert {record[4:] for record in records} == {(30, 3)}
    assert stats.retransmitted == 0


def test_full_tables_start_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llmprism.limits.MAX_PACKET_FLOWS", 4096)
    frames = [(T0 + index, build.tcp_frame(0, 10, f"10.{index % 90}.{index // 90}.1")) for index in range(5_000)]
    assert len(read(build.pcap(frames))[0]) == 5_000
    monkeypatch.setattr("llmprism.limits.MAX_PACKET_ADDRESSES", 1024)
    with pytest.raises(LimitError, match="addresses"):
        read(build.pcap(frames))


def test_a_cut_off_file_is_read_to_its_end() -> None:
    records, stats = read(build.pcap(FRAMES)[:-60])
    assert stats.cut_off
    assert records[0][4] == 300
    assert not read(build.pcap(FRAMES))[1].cut_off


def test_broken_files_name_the_offset() -> None:
    good = build.pcap(FRAMES)
    first = struct.unpack("<I", good[32:36])[0]
    second = 24 + 16 + first
    with pytest.raises(FormatError, match=rf"capture: broken packet record at byte {second}"):
        read(good[: second + 8] + b"\xff" * 8 + good[second + 16 :])
    with pytest.raises(FormatError, match="link type 147 at byte 20"):
        read(build.pcap(FRAMES, link=147))
    with pytest.raises(FormatError, match="byte 10 of 24"):
        read(good[:10])
    with pytest.raises(FormatError, match="byte 0"):
        read(b"nonsense" * 10)
    with pytest.raises(InputError, match="empty"):
        read(b"")
    ng = build.pcapng(FRAMES)
    with pytest.raises(FormatError, match="byte 0: no byte-order mark"):
        read(ng[:8] + b"\0" * 4 + ng[12:])
    with pytest.raises(FormatError, match="byte 28: its length is 5"):
        read(ng[:32] + b"\5\0\0\0" + ng[36:])


PCAP, PCAPNG = build.pcap(FRAMES), build.pcapng(FRAMES)


@settings(max_examples=300, deadline=None)
@given(st.sampled_from([PCAP, PCAPNG]), st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=12))
def test_mutated_captures(good: bytes, flips: list[tuple[int, int]]) -> None:
    data = bytearray(good)
    for place, value in flips:
        data[place % len(data)] = value
    read_or_refuse(bytes(data))


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([b"", PCAP[:24], PCAPNG[:76]]), st.binary(max_size=300))
def test_random_bytes(head: bytes, data: bytes) -> None:
    read_or_refuse(head + data)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([0, 1, 12, 101, 108, 113, 228, 229, 276]), st.lists(st.binary(max_size=120), max_size=6))
def test_random_packets(link: int, frames: list[bytes]) -> None:
    read_or_refuse(build.pcap(timed(frames), link=link))


def read_or_refuse(data: bytes) -> None:
    try:
        _, stats = read(data)
    except LLMPrismError as error:
        assert str(error).startswith("capture: ")  # noqa: PT017
    else:
        assert stats.packets * 16 <= len(data)
