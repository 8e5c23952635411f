"""Records put together into transfers: nothing is lost, nothing overlaps, the gap fits the pair."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest import transfers as module
from llmprism.ingest.rules import RULES
from llmprism.ingest.transfers import assemble_transfers
from llmprism.kernel import always_interpreted
from unit.builders import MS, US, Flow, cut_in_pieces, flow_table, transfer_table

flows = st.lists(
    st.builds(
        lambda pair, start, length, size: Flow(*pair, start * 10 * US, (start + length) * 10 * US, size),
        st.sampled_from([("a", "b"), ("b", "a"), ("a", "c")]),
        st.integers(0, 3_000),
        st.integers(0, 200),
        st.integers(0, 1 << 50),
    ),
    min_size=1,
    max_size=60,
)


@settings(max_examples=100, deadline=None)
@given(flows)
def test_transfers_keep_every_byte_and_record_and_do_not_touch(records: list[Flow]) -> None:
    table = flow_table(records)
    transfers = assemble_transfers(table)
    assert transfers.pair_src.tolist() == table.pair_src.tolist()
    assert transfers.pair_dst.tolist() == table.pair_dst.tolist()
    assert transfers.pair_offsets[0] == 0
    assert transfers.pair_offsets[-1] == transfers.start_ns.size
    for pair in range(transfers.pair_count):
        rows = slice(*transfers.pair_offsets[pair : pair + 2].tolist())
        source = slice(*table.pair_offsets[pair : pair + 2].tolist())
        start, end = transfers.start_ns[rows], transfers.end_ns[rows]
        gap = int(transfers.pair_gap_ns[pair])
        assert RULES.shortest_gap_ns <= gap <= RULES.longest_gap_ns
        assert transfers.bytes[rows].sum() == table.bytes[source].sum()
        assert transfers.records[rows].sum() == table.start_ns[source].size
        assert (start[1:] - end[:-1] > gap).all(), "transfers are separated by more than the gap"
        assert start[0] == table.start_ns[source].min()
        assert end.max() == table.end_ns[source].max()
        for first, last, size, count, active in zip(
            start, end, transfers.bytes[rows], transfers.records[rows], transfers.active_ns[rows], strict=True
        ):
            inside = (table.start_ns[source] >= first) & (table.end_ns[source] <= last)
            assert inside.sum() == count
            assert table.bytes[source][inside].sum() == size
            assert active == busy_time(table.start_ns[source][inside], table.end_ns[source][inside])
            assert gaps_inside(table.start_ns[source][inside], table.end_ns[source][inside]) <= gap


@settings(max_examples=200, deadline=None)
@given(flows, st.lists(st.integers(-1, 2), min_size=60, max_size=60))
def test_arrays_and_the_loop_make_the_same_transfers(records: list[Flow], paths: list[int]) -> None:
    """Also where a pause is exactly as long as a bin of the histogram begins, which `_pause_edges` must hit."""
    table = flow_table(records)
    table = replace(table, path=np.array(paths[: table.start_ns.size], dtype=np.int32))
    with always_interpreted():
        by_arrays = assemble_transfers(table)
    with pytest.MonkeyPatch.context() as patch, always_interpreted():
        patch.setattr(module, "_gaps_and_counts", module._gaps_and_counts.python)
        patch.setattr(module, "_merge", module._merge.python)
        by_loop = assemble_transfers(table)
    for name in ("pair_gap_ns", "pair_offsets", "start_ns", "end_ns", "bytes", "active_ns", "path", "records"):
        found, expected = getattr(by_arrays, name), getattr(by_loop, name)
        assert found.dtype == expected.dtype
        assert found.tolist() == expected.tolist(), name


def test_a_pause_is_in_the_bin_that_the_function_says():
    edges = module._pause_edges()
    for pause in (*edges.tolist(), *(edges - 1).tolist(), 1 << 40):
        assert np.searchsorted(edges, pause, side="right") == module._pause_bin.python(pause)


def busy_time(start: np.ndarray, end: np.ndarray) -> int:
    """Length of the union, by brute force over the 10 µs slots that the times are made of."""
    slots = {t for a, b in zip(start.tolist(), end.tolist(), strict=True) for t in range(a, b, 10 * US)}
    return len(slots) * 10 * US


def gaps_inside(start: np.ndarray, end: np.ndarray) -> int:
    horizon = np.maximum.accumulate(end)
    return int((start[1:] - horizon[:-1]).max(initial=0))


def test_pieces_over_several_ports_are_one_transfer() -> None:
    messages = [Flow("a", "b", k * 100 * MS, k * 100 * MS + 5 * MS, 4_000_000 + k) for k in range(40)]
    pieces = cut_in_pieces(messages, seed=1, ports=5)
    assert len(pieces) > 3 * len(messages)
    transfers = transfer_table(pieces)
    assert transfers.bytes.tolist() == [message.bytes for message in messages]
    assert transfers.start_ns.tolist() == pytest.approx([message.start_ns for message in messages], abs=50 * US)
    assert transfers.end_ns.tolist() == [message.end_ns for message in messages]


@pytest.mark.parametrize("inner_us", [60, 150, 450])
def test_the_gap_fits_the_pair(inner_us: int) -> None:
    """Short pauses inside messages and long ones between them, whatever 'short' is on this pair."""
    records, now = [], 0
    for _ in range(30):
        for _ in range(4):
            records.append(Flow("a", "b", now, now + 200 * US, 1_000_000))
            now += (200 + inner_us) * US
        now += 8 * MS
    transfers = transfer_table(records)
    assert transfers.bytes.tolist() == [4_000_000] * 30
    assert transfers.active_ns.tolist() == [800 * US] * 30
    assert inner_us * US < transfers.pair_gap_ns[0] <= RULES.longest_gap_ns


def test_buckets_two_milliseconds_apart_stay_apart() -> None:
    records = [Flow("a", "b", k * 3 * MS, k * 3 * MS + MS, 1_000_000) for k in range(50)]
    assert transfer_table(records).bytes.size == 50


def test_a_long_record_spans_short_ones() -> None:
    records = [Flow("a", "b", 0, 10 * MS, 10), *(Flow("a", "b", k * MS, k * MS + 10 * US, 1) for k in range(1, 10))]
    transfers = transfer_table(records)
    assert transfers.bytes.tolist() == [19]
    assert transfers.active_ns.tolist() == [10 * MS]
    assert transfers.records.tolist() == [10]


def test_connections_that_end_together_show_all_paths_of_a_pair() -> None:
    ways = [("leaf0", "spine0", "leaf1"), ("leaf0", "spine1", "leaf1")]
    starts = [k * 30 * MS + k * k * 7 * US for k in range(40)]
    records = [Flow("a", "b", at, at + MS, 1_000, ways[lane // 2]) for at in starts for lane in range(4)]
    transfers = transfer_table(records)
    taken = [transfers.paths[path] for path in transfers.path.tolist()]
    assert len(taken) == 40
    assert min(taken.count(way) for way in ways) >= 10


def test_one_record_and_none() -> None:
    one = transfer_table([Flow("a", "b", 5, 9, 100, ("leaf",))])
    assert (one.start_ns.tolist(), one.end_ns.tolist(), one.bytes.tolist()) == ([5], [9], [100])
    assert (one.active_ns.tolist(), one.records.tolist()) == ([4], [1])
    assert one.paths[one.path[0]] == ("leaf",)
    none = transfer_table([])
    assert none.pair_count == 0
    assert none.start_ns.size == 0
    assert none.pair_offsets.tolist() == [0]


def test_pairs_do_not_mix() -> None:
    records = [Flow("a", "b", 0, MS, 1), Flow("a", "c", 0, MS, 2), Flow("b", "a", 0, MS, 4), Flow("a", "b", MS, MS, 8)]
    assert transfer_table(records).bytes.tolist() == [9, 2, 4]
