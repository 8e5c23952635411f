"""Transfers survive the way into rows of pairs and back, in pieces and in any order."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

pa = pytest.importorskip("pyarrow", reason="the engine's tables are Arrow's")

from llmprism.engine.spark.arrow_tables import DROPPED, digest, pair_rows, segments_from, transfers_from  # noqa: E402
from llmprism.recognize.segments import segments_of  # noqa: E402
from unit.builders import Flow, transfer_table  # noqa: E402

SECOND = 10**9
PATHS = (None, ("leaf0",), ("leaf0", "spine1", "leaf1"))


def some_transfers():
    random = np.random.default_rng(7)
    pairs = [("b", "a"), ("a", "b"), ("c", "a"), ("a", "c")]
    return transfer_table(
        Flow(src, dst, start, start + 1_000, int(random.integers(1, 10**6)), PATHS[random.integers(3)])
        for src, dst in pairs
        for start in np.cumsum(random.integers(2_000, 3 * SECOND, 20)).tolist()
    )


def pieces_of(table, transfers, order):
    """The rows of pairs as pieces of whole pairs, in this order."""
    chosen = table.slice(0, transfers.pair_count).take(order)
    whole = {"piece": order, "src_id": transfers.pair_src[order], "dst_id": transfers.pair_dst[order]}
    whole |= {"row": np.zeros(len(order), dtype=np.int64), "rows": np.full(len(order), -1)}
    for name, values in whole.items():
        chosen = chosen.append_column(name, pa.array(values))
    return chosen


def same(one, two):
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(two, field.name)
        assert (a == b).all() if isinstance(a, np.ndarray) else a == b, field.name


def test_transfers_come_back_whatever_the_order_of_the_rows():
    transfers = some_transfers()
    table = pair_rows(transfers, segments_of(transfers), np.arange(3))
    same(transfers_from(pieces_of(table, transfers, np.array([2, 0, 3, 1])), transfers.addresses), transfers)
    assert table[DROPPED].to_pylist()[-1] == [0, 1, 2]


def test_a_piece_is_a_part_of_its_pair():
    transfers = some_transfers()
    table = pieces_of(
        pair_rows(transfers, segments_of(transfers), np.zeros(1, np.int64)), transfers, np.array([0, 0, 1])
    )
    for name, values in {"piece": [0, 1, 2], "row": [0, 5, 3], "rows": [5, -1, 4]}.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    cut = transfers_from(table, transfers.addresses)
    first, second = transfers.pair_offsets[:2]
    rows = np.concatenate([np.arange(first, second), np.arange(second + 3, second + 7)])
    assert cut.pair_offsets.tolist() == [0, 5, second - first, second - first + 4]
    assert (cut.start_ns == transfers.start_ns[rows]).all()
    assert [cut.paths[p] if p >= 0 else None for p in cut.path] == [
        transfers.paths[p] if p >= 0 else None for p in transfers.path[rows]
    ]


def test_segments_come_back():
    transfers = some_transfers()
    segments = segments_of(transfers)
    same(segments_from(pair_rows(transfers, segments, np.zeros(1, np.int64)).slice(0, transfers.pair_count)), segments)


def test_a_digest_keeps_bytes_by_pair_and_path():
    transfers = some_transfers()
    short = digest(transfers)
    assert short.start_ns.size <= transfers.pair_count * len(PATHS)
    for pair in range(transfers.pair_count):
        carried = []
        for table in (transfers, short):
            rows = slice(table.pair_offsets[pair], table.pair_offsets[pair + 1])
            carried.append(np.bincount(table.path[rows] + 1, table.bytes[rows], minlength=len(PATHS) + 1).tolist())
        assert carried[0] == carried[1]
    assert (short.start_ns.min(), short.end_ns.max()) == (transfers.start_ns.min(), transfers.end_ns.max())
    assert short.records.sum() == transfers.records.sum()
