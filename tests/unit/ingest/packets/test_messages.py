"""RoCEv2 messages in ERSPAN: exact counts and sizes, whatever the network and the mirror did to the packets."""

from __future__ import annotations

import io
import random
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import packet_frames as build
from llmprism.ingest import convert_flows, read_flows
from llmprism.ingest.packets import layout
from llmprism.ingest.packets.reader import PacketReader
from llmprism.ingest.packets.stats import PacketStats

T0 = 1_794_706_221_000_000_000
MTU = 1024


def messages(packets: list[bytes], snap: int = 1 << 18) -> tuple[list[int], PacketStats]:
    """Sizes of the messages in the order of their starts; every packet travels in ERSPAN III."""
    frames = [(T0 + 1_000 * index, build.erspan3(build.ethernet(packet))) for index, packet in enumerate(packets)]
    reader = PacketReader(io.BytesIO(build.pcap(frames, snap=snap)), "mirror")
    rows = np.concatenate(list(reader.batches()))
    rows = rows[np.argsort(rows[:, layout.OUT_START], kind="stable")]
    return rows[:, layout.OUT_BYTES].tolist(), reader.stats()


@pytest.mark.parametrize("message", [build.write_message, build.send_message, build.read_response])
@pytest.mark.parametrize("size", [1, MTU, MTU + 1, 10 * MTU, 10 * MTU + 7])
def test_one_message(message: object, size: int) -> None:
    sizes, stats = messages(message(7, 100, size))  # type: ignore[operator]
    assert sizes == [size]
    assert (stats.retransmitted, stats.missing) == (0, 0)


def test_snapped_mirrors_are_enough() -> None:
    """ERSPAN III with 128 bytes of each mirrored packet, as switches truncate."""
    assert messages(build.write_message(7, 100, 50 * MTU) + build.send_message(8, 5, 3 * MTU), snap=140)[0] == [
        50 * MTU,
        3 * MTU,
    ]


def test_interleaved_queue_pairs() -> None:
    streams = [build.write_message(pair, 1000 * pair, (pair + 1) * 4 * MTU + pair) for pair in range(8)]
    rng, packets = random.Random(1), []
    while any(streams):
        stream = rng.choice([stream for stream in streams if stream])
        packets.append(stream.pop(0))
    sizes, stats = messages(packets)
    assert sorted(sizes) == [(pair + 1) * 4 * MTU + pair for pair in range(8)]
    assert stats.missing == stats.retransmitted == 0


def test_packet_numbers_wrap() -> None:
    sizes, stats = messages(build.write_message(7, 2**24 - 3, 8 * MTU) + build.write_message(7, 5, 2 * MTU))
    assert sizes == [8 * MTU, 2 * MTU]
    assert stats.missing == stats.retransmitted == 0


def test_go_back_n_counts_nothing_twice() -> None:
    one, two = build.write_message(7, 0, 6 * MTU), build.write_message(7, 6, 4 * MTU)
    sizes, stats = messages([*one, *two[:2], *one[3:], *two])
    assert sizes == [6 * MTU, 4 * MTU]
    assert stats.retransmitted == 5


@pytest.mark.parametrize("message", [build.write_message, build.send_message])
@pytest.mark.parametrize("lost", [[3], [3, 4], [1, 5, 6]])
def test_packets_that_the_mirror_lost(message: object, lost: list[int]) -> None:
    """Middle packets carry one MTU each, so their number gives their bytes."""
    packets = message(7, 0, 10 * MTU + 5)  # type: ignore[operator]
    sizes, stats = messages([packet for place, packet in enumerate(packets) if place not in lost])
    assert sizes == [10 * MTU + 5]
    assert stats.missing == len(lost)


def test_a_lost_packet_that_comes_again() -> None:
    packets = build.send_message(7, 0, 8 * MTU)
    sizes, stats = messages([*packets[:3], *packets[4:6], *packets[3:]])
    assert sizes == [8 * MTU]
    assert (stats.missing, stats.retransmitted) == (0, 2)


def test_lost_ends_do_not_glue_writes() -> None:
    """The last packet of one WRITE and the first of the next are gone: the size in the RETH says where it ended."""
    one, two = build.write_message(7, 0, 6 * MTU), build.write_message(7, 6, 6 * MTU)
    sizes, stats = messages([*one[:-1], *two[1:]])
    assert sizes[0] == 6 * MTU
    assert len(sizes) == 2
    assert stats.missing == 2


def test_a_late_first_packet_brings_the_size() -> None:
    packets = build.write_message(7, 0, 6 * MTU + 1)
    sizes, _ = messages([*build.write_message(7, -1, 9), packets[1], packets[0], *packets[2:]])
    assert sizes == [9, 6 * MTU + 1]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 12 * MTU), min_size=1, max_size=8), st.randoms(use_true_random=False))
def test_reordering_inside_messages_changes_nothing(lengths: list[int], rng: random.Random) -> None:
    """Adaptive routing: packets between First and Last swap places with a neighbour."""
    packets, number = [], 0
    for size in lengths:
        message = build.write_message(9, number, size)
        number += len(message)
        for place in range(1, len(message) - 2):
            if rng.random() < 0.3:
                message[place], message[place + 1] = message[place + 1], message[place]
        packets += message
    sizes, stats = messages(packets)
    assert sizes == lengths
    assert (stats.retransmitted, stats.missing) == (0, 0)


def test_acknowledgements_and_notifications_are_not_traffic() -> None:
    packets = [
        *build.write_message(7, 0, 3 * MTU),
        build.roce(build.ACKNOWLEDGE, 3, 2, source="10.0.0.2", target="10.0.0.1"),
        build.roce(build.ACKNOWLEDGE, 3, 2, syndrome=0x60, source="10.0.0.2", target="10.0.0.1"),
        build.roce(build.CNP, 3, 0, source="10.0.0.2", target="10.0.0.1"),
        build.roce(build.READ_REQUEST, 7, 3, promised=1 << 20),
    ]
    sizes, stats = messages(packets)
    assert sizes == [3 * MTU]
    assert (stats.acknowledgements, stats.negative_acknowledgements, stats.congestion_notifications) == (2, 1, 1)


def test_signs_of_congestion_are_kept_per_pair(tmp_path: Path) -> None:
    back = {"source": "10.0.0.2", "target": "10.0.0.1"}
    packets = build.write_message(7, 0, 6 * MTU)
    packets = [*packets[:2], *packets[3:], *packets[4:], *(build.roce(build.CNP, pair, 0, **back) for pair in (1, 2))]
    frames = [(T0 + 1_000 * index, build.ethernet(packet)) for index, packet in enumerate(packets)]
    (tmp_path / "mirror.pcap").write_bytes(build.pcap(frames))
    signs = convert_flows([tmp_path / "mirror.pcap"], tmp_path / "flows.parquet").congestion
    assert signs is not None
    columns = (signs.retransmitted, signs.missing, signs.notifications, signs.negative)
    rows = list(zip(signs.src, signs.dst, *(column.tolist() for column in columns), strict=True))
    assert rows == [("10.0.0.1", "10.0.0.2", 2, 1, 0, 0), ("10.0.0.2", "10.0.0.1", 0, 0, 2, 0)]
    table = read_flows([tmp_path / "mirror.pcap"])
    assert table.congestion is not None
    assert table.congestion.src == signs.src


def test_read_responses_may_skip_numbers_between_messages() -> None:
    sizes, stats = messages(build.read_response(7, 10, 4 * MTU) + build.read_response(7, 500, 2 * MTU))
    assert sizes == [4 * MTU, 2 * MTU]
    assert stats.missing == 0


def test_a_queue_pair_set_up_anew() -> None:
    one, two = build.write_message(7, 9_000_000, 2 * MTU), build.write_message(7, 100, 3 * MTU)
    assert messages(one + two)[0] == [2 * MTU, 3 * MTU]


def test_a_message_at_the_end_of_the_capture() -> None:
    assert messages(build.write_message(7, 0, 10 * MTU)[:4])[0] == [4 * MTU]


WRITE, SEND, READ = build.write_message, build.send_message, build.read_response
Lengths = list[int]


def stream(message: object, lengths: Lengths, queue_pair: int = 9, first: int = 0) -> list[bytes]:
    """All packets of these messages, one after the other on one queue pair."""
    packets: list[bytes] = []
    for size in lengths:
        packets += message(queue_pair, first + len(packets), size)  # type: ignore[operator]
    return packets


def over_a_lossy_path(packets: list[bytes], rng: random.Random, window: int = 6, loss: float = 0.05) -> list[bytes]:
    """What a mirror behind the loss sees of a go-back-N sender: up to `window` packets more, then all again."""
    seen: list[bytes] = []
    place = 0
    while place < len(packets):
        if rng.random() >= loss:
            seen.append(packets[place])
        else:
            ahead = min(place + rng.randint(1, window), len(packets))
            seen += [*packets[place + 1 : ahead], *packets[place:ahead]]
        place += 1
    return seen


def reordered(packets: list[bytes], rng: random.Random, delay: int = 6) -> list[bytes]:
    """Adaptive routing: every packet may be overtaken by up to `delay` others; some come twice."""
    late = [(place + rng.uniform(0, delay), packet) for place, packet in enumerate(packets)]
    late += [(at + rng.uniform(0, delay), packet) for at, packet in late if rng.random() < 0.1]
    return [packet for _, packet in sorted(late, key=lambda pair: pair[0])]


def interleaved(streams: list[list[bytes]], rng: random.Random) -> list[bytes]:
    waiting, packets = [list(reversed(one)) for one in streams if one], []
    while waiting:
        one = rng.choice(waiting)
        packets.append(one.pop())
        waiting = [left for left in waiting if left]
    return packets


LENGTHS = st.lists(st.integers(1, MTU) | st.integers(1, 6 * MTU), min_size=1, max_size=10)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from([WRITE, SEND]), LENGTHS), min_size=1, max_size=4),
    st.sampled_from([over_a_lossy_path, reordered]),
    st.integers(0, 2**32),
)
def test_what_was_seen_at_least_once_is_exact(flows: list[tuple[object, Lengths]], network: object, seed: int) -> None:
    """Loss with go-back-N, reordering and copies, on interleaved queue pairs: every message once, with its size."""
    rng = random.Random(seed)
    streams = [
        network(stream(message, lengths, 100 + pair, 2**24 - 5 * pair), rng)  # type: ignore[operator]
        for pair, (message, lengths) in enumerate(flows)
    ]
    sizes, stats = messages(interleaved(streams, rng))
    assert sorted(sizes) == sorted(size for _, lengths in flows for size in lengths)
    assert (stats.missing, stats.estimated_messages, stats.cut_messages) == (0, 0, 0)
    assert stats.messages == len(sizes)


@settings(max_examples=150, deadline=None)
@given(LENGTHS, st.integers(0, 2**32))
def test_isolated_losses_leave_every_write_exact(lengths: Lengths, seed: int) -> None:
    """No two packets in a row are lost, and no message loses both ends: each WRITE that was seen at all is exact."""
    rng, lost_before = random.Random(seed), False
    kept, truth, number = WRITE(9, -2, MTU + 5), [MTU + 5], 0  # the path MTU has been seen
    for size in lengths:
        packets = WRITE(9, number, size)
        seen = []
        for place in range(len(packets)):
            both_ends = place > 0 and place == len(packets) - 1 and 0 not in seen
            lost_before = not lost_before and not both_ends and rng.random() < 0.3
            seen += [] if lost_before else [place]
        kept += [packets[place] for place in seen]
        truth += [size] if seen else []
        number += len(packets)
    sizes, stats = messages([*kept, WRITE(9, number, 7)[0]])
    assert sorted(sizes) == sorted([*truth, 7])
    assert (stats.estimated_messages, stats.cut_messages) == (0, 0)


@settings(max_examples=200, deadline=None)
@given(st.sampled_from([WRITE, SEND]), LENGTHS, st.floats(0.02, 0.6), st.integers(0, 2**32))
def test_what_is_not_marked_is_exact(message: object, lengths: Lengths, loss: float, seed: int) -> None:
    """Any packets are lost for good. A size that is wrong belongs to a message that is counted as such."""
    rng = random.Random(seed)
    lengths = [size * 16 + place for place, size in enumerate(lengths)]  # all different: no luck
    kept = [packet for packet in stream(message, lengths) if rng.random() >= loss]
    if not kept:
        return
    sizes, stats = messages(kept)
    wrong = [size for size in sizes if size not in lengths]
    assert len(wrong) <= stats.estimated_messages + stats.cut_messages
    assert len(sizes) == len(set(sizes)) or stats.estimated_messages + stats.cut_messages
    assert stats.messages == len(sizes)


def marked(packets: list[bytes]) -> tuple[list[int], int, int]:
    sizes, stats = messages(packets)
    return sizes, stats.estimated_messages, stats.cut_messages


def test_a_short_write_whose_first_packet_never_comes() -> None:
    """Only one packet is gone between the end of the message before and the rest: it was the First, one MTU long."""
    one, two, three = WRITE(7, 0, 2 * MTU), WRITE(7, 2, MTU + 9), WRITE(7, 4, 3 * MTU)
    assert marked([*one, *two[1:], *three]) == ([2 * MTU, MTU + 9, 3 * MTU], 0, 0)


def test_a_first_packet_that_comes_after_other_messages() -> None:
    one, two, three = WRITE(7, 0, 2 * MTU), WRITE(7, 2, 2 * MTU + 9), WRITE(7, 5, 3 * MTU)
    sizes, estimated, cut = marked([*one, *two[1:], *three, two[0]])
    assert (sorted(sizes), estimated, cut) == ([2 * MTU, 2 * MTU + 9, 3 * MTU], 0, 0)


def test_a_send_that_loses_its_last_packet_is_marked() -> None:
    """Its last packet holds 1 to MTU bytes, and nothing says how many."""
    one, two = SEND(7, 0, 3 * MTU + 5), SEND(7, 4, 2 * MTU)
    assert marked([*one[:-1], *two]) == ([4 * MTU, 2 * MTU], 1, 0)


def test_a_send_with_a_wide_hole_is_marked() -> None:
    """Two packets in a row may have been an end and a beginning."""
    one, two = SEND(7, 0, 3 * MTU), SEND(7, 3, 3 * MTU)
    assert marked([*one[:-1], *two[1:]]) == ([6 * MTU], 1, 0)


def test_messages_that_the_capture_cuts_are_marked() -> None:
    assert marked([*WRITE(7, 0, 6 * MTU)[2:], *WRITE(7, 6, 2 * MTU)]) == ([4 * MTU, 2 * MTU], 0, 1)
    assert marked([*WRITE(7, 0, 2 * MTU), *WRITE(7, 2, 6 * MTU)[:-1]]) == ([2 * MTU, 5 * MTU], 0, 1)


def test_a_read_that_asks_again_for_the_rest() -> None:
    """The answer to the second request is a First (or Only) in the middle of the message."""
    whole, again = READ(7, 10, 6 * MTU + 1), READ(7, 13, 3 * MTU + 1)
    assert marked([*whole[:3], *whole[4:], *again]) == ([6 * MTU + 1], 0, 0)
    assert marked([*whole[:-1], *READ(7, 40, 5), READ(7, 16, 1)[0]]) == ([6 * MTU + 1, 5], 0, 0)


@pytest.mark.parametrize("wrap", [build.erspan2, build.erspan3, build.vxlan])
def test_every_mirror_gives_the_same_messages(wrap: object) -> None:
    rng = random.Random(4)
    streams = [over_a_lossy_path(stream(WRITE, [5 * MTU, 70, 3 * MTU + 1], pair), rng) for pair in range(5)]
    frames = [
        (T0 + 1_000 * place, wrap(build.ethernet(packet)))  # type: ignore[operator]
        for place, packet in enumerate(interleaved(streams, rng))
    ]
    rows = np.concatenate(list(PacketReader(io.BytesIO(build.pcapng(frames)), "mirror").batches()))
    assert sorted(rows[:, layout.OUT_BYTES].tolist()) == sorted([5 * MTU, 70, 3 * MTU + 1] * 5)


def test_many_queue_pairs_at_once() -> None:
    """The tables grow while messages are under way."""
    streams = [stream(WRITE, [2 * MTU + pair % 7], pair) for pair in range(1_500)]
    packets = [one[place] for place in range(3) for one in streams if place < len(one)]
    sizes, stats = messages(packets)
    assert sorted(sizes) == sorted(2 * MTU + pair % 7 for pair in range(1_500))
    assert (stats.estimated_messages, stats.cut_messages) == (0, 0)
