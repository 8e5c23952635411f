"""Totals that decide the graph, against the transfers themselves."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.recognize.bulk import bulk_pairs, pair_traffic
from llmprism.recognize.cluster_clock import cluster_clocks, witness_pairs
from llmprism.recognize.epochs import _Activity, _presence, reused_segments
from llmprism.recognize.rules import RULES
from llmprism.recognize.segments import PairPieces, segments_of
from unit.builders import Flow, transfer_table

SECOND = 10**9

flows = st.lists(
    st.builds(
        lambda ends, start, length, size: Flow(ends[0], ends[1], start, start + length, size),
        st.sampled_from([("a", "b"), ("b", "a"), ("a", "c"), ("c", "b"), ("b", "d")]),
        st.integers(0, 40).map(lambda n: n * SECOND // 2),
        st.integers(1, SECOND // 4),
        st.sampled_from([100, 5_000, 100_000, 3_000_000]),
    ),
    min_size=1,
    max_size=60,
)


def messages(transfers, pair):
    rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    return rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]


@settings(deadline=None)
@given(flows)
def test_segments_are_the_pair_in_parts(records):
    transfers = transfer_table(records)
    segments = segments_of(transfers)
    for whole, summed in zip(
        (getattr(pair_traffic(transfers), name) for name in ("bytes", "largest", "first_ns", "last_ns")),
        (getattr(segments.traffic, name) for name in ("bytes", "largest", "first_ns", "last_ns")),
        strict=True,
    ):
        assert (whole == summed).all()
    assert segments.records.sum() == transfers.records.sum()
    for segment in np.flatnonzero(segments.row > 0):
        assert segments.message_first_ns[segment] - segments.message_last_ns[segment - 1] > RULES.job_gap_ns


@settings(deadline=None)
@given(flows)
def test_small_tables_are_cut_and_summed_as_large_ones_are(records):
    transfers = transfer_table(records)
    with always_interpreted():
        small = segments_of(transfers)
    with always_compiled():
        large = segments_of(transfers)
    for field in fields(small):
        np.testing.assert_array_equal(getattr(small, field.name), getattr(large, field.name))


@settings(deadline=None)
@given(flows, st.integers(0, 20 * SECOND), st.integers(1, 5 * SECOND))
def test_silence_by_segments_is_silence_by_transfers(records, first, beyond):
    transfers = transfer_table(records)
    bulk = bulk_pairs(transfers, pair_traffic(transfers))
    segments = segments_of(transfers)
    activity = _Activity(transfers.pair_src, transfers.pair_dst, segments, bulk, _presence(segments, RULES), RULES)
    last = first + RULES.job_gap_ns + beyond
    spare = beyond // 2
    for end in np.union1d(transfers.pair_src[bulk], transfers.pair_dst[bulk]):
        rows = np.concatenate([messages(transfers, pair) for pair in activity.pairs_of(end)])
        sends = (transfers.end_ns[rows] >= first + spare) & (transfers.start_ns[rows] < last - spare)
        assert activity._silent(end, first, last) == (not sends.any())


def two_jobs_in_turn():
    """a and b talk, first beside c, later beside d."""
    early = [Flow(x, y, t * SECOND, t * SECOND + 1000, 10**6) for t in range(4) for x, y in ("ab", "ba", "bc", "cb")]
    late = [
        Flow(x, y, t * SECOND, t * SECOND + 1000, 10**6) for t in range(20, 24) for x, y in ("ab", "ba", "bd", "db")
    ]
    return transfer_table(early + late)


def test_a_reused_pair_is_cut_and_its_pieces_have_totals_of_their_own():
    transfers = two_jobs_in_turn()
    segments = segments_of(transfers)
    bulk = np.ones(transfers.pair_count, dtype=np.bool_)
    cut = reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, bulk)
    pieces = PairPieces.of(transfers.addresses, transfers.pair_src, transfers.pair_dst, segments, cut)
    table = pieces.cut(transfers)
    names = [table.addresses[s] + table.addresses[d] for s, d in zip(table.pair_src, table.pair_dst, strict=True)]
    assert names == ["ab", "ab", "ba", "ba", "bc", "bd", "cb", "db"]
    assert (pieces.traffic.bytes == pair_traffic(table).bytes).all()
    assert (pieces.traffic.last_ns == pair_traffic(table).last_ns).all()


def test_a_pause_cuts_nothing():
    flows = [Flow(x, y, t * SECOND, t * SECOND + 1000, 10**6) for t in (0, 1, 10, 11) for x, y in ("ab", "ba")]
    transfers = transfer_table(flows)
    segments = segments_of(transfers)
    bulk = np.ones(2, dtype=np.bool_)
    assert not reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, bulk).any()
    assert segments.row.size == 4


def test_links_that_were_used_once_at_the_beginning_are_no_peers_that_changed():
    """Parameters are handed out by a to c; the ring of a and b then pauses in mid-training."""
    flows = [Flow("a", "c", 0, 1000, 10**6)]
    flows += [Flow(x, y, t * SECOND, t * SECOND + 1000, 10**6) for t in (1, 2, 3, 4, 12, 13) for x, y in ("ab", "ba")]
    transfers = transfer_table(flows)
    bulk = np.ones(transfers.pair_count, dtype=np.bool_)
    assert not reused_segments(transfers.pair_src, transfers.pair_dst, segments_of(transfers), bulk, bulk).any()


def test_a_server_of_files_is_no_peer_that_changed():
    """In the middle of its training a writes a checkpoint to s, and the ring of a and b pauses before and after it."""
    flows = [Flow(x, y, t * SECOND, t * SECOND + 1000, 10**6) for t in range(0, 60, 5) for x, y in ("ab", "ba")]
    transfers = transfer_table([*flows, Flow("a", "s", 31 * SECOND, 32 * SECOND, 10**6)])
    segments, bulk = segments_of(transfers), np.ones(transfers.pair_count, dtype=np.bool_)
    among_members = np.array([transfers.addresses[end] != "s" for end in transfers.pair_dst])
    assert reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, bulk).any()
    assert not reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, among_members).any()
    assert not reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, ~bulk).any()


def test_who_has_not_sent_again_when_the_window_ends_is_not_gone():
    """Every 10 s the pair a, b sends, a moment later b and c; the window ends in between."""
    flows = [
        Flow(x, y, t * SECOND + later, t * SECOND + later + 1000, 10**6)
        for t in (0, 10, 20)
        for x, y, later in (("a", "b", 0), ("b", "c", SECOND))
    ]
    transfers = transfer_table([flow for flow in flows if flow.start_ns <= 20 * SECOND])
    segments = segments_of(transfers)
    bulk = np.ones(2, dtype=np.bool_)
    assert not reused_segments(transfers.pair_src, transfers.pair_dst, segments, bulk, bulk).any()


def test_a_clock_needs_the_transfers_of_its_witnesses_only():
    ring = [f"n{i:02}" for i in range(40)]
    transfers = transfer_table(
        Flow(ring[i], ring[i - 1], step * SECOND + i * 1_000, step * SECOND + 10**8, 10**7 + 10**5 * i)
        for step in range(20)
        for i in range(len(ring))
    )
    traffic, pairs = pair_traffic(transfers), np.arange(transfers.pair_count, dtype=np.int32)
    requested = witness_pairs(transfers, traffic, pairs)
    other = np.setdiff1d(pairs, requested)
    keep = ~np.isin(transfers.pair_of_row, other)
    counts = np.where(np.isin(pairs, requested), np.diff(transfers.pair_offsets), 0)
    ends = transfers.pair_src, transfers.pair_dst, transfers.pair_gap_ns
    bare = transfers._with_rows(lambda column: column[keep], *ends, counts)
    bare = replace(bare, addresses=())  # as other machines see it
    full, partial = cluster_clocks(transfers, traffic, pairs), cluster_clocks(bare, traffic, pairs)
    assert full
    assert len(full) == len(partial)
    for one, other in zip(full, partial, strict=True):
        assert (one.clock.boundary_ns == other.clock.boundary_ns).all()
