"""Rows that are copied late are those that are copied at once."""

from __future__ import annotations

from dataclasses import fields, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.model.flows import TransferTable
from llmprism.pipeline.late_rows import LateRows

COUNTS = st.lists(st.integers(1, 4), min_size=1, max_size=8)


def table_of(counts: list[int]) -> TransferTable:
    offsets = np.concatenate([[0], np.cumsum(counts)])
    rows = np.arange(offsets[-1])
    ends = np.arange(len(counts), dtype=np.int32)
    short = rows.astype(np.int32)
    return TransferTable(
        ("a",), (("leaf",),), ends, ends + 1, offsets, 5 * ends.astype(np.int64),
        rows, rows + 1, rows + 2, rows + 3, short + 4, short + 5,
    )  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.data())
def test_they_are_the_same_rows(counts: list[int], data: st.DataObject) -> None:
    table = table_of(counts)
    chosen = data.draw(st.sets(st.integers(0, len(counts) - 1)))
    pairs = np.array(sorted(chosen), dtype=np.int32)
    at_once, without = table.select_pairs(pairs), table.select_pairs(pairs, with_rows=False)
    assert not without.start_ns.size
    late = LateRows.of(without, table, pairs)
    np.testing.assert_array_equal(late.pair_of_row, at_once.pair_of_row)
    np.testing.assert_array_equal(replace(late, bytes=late.bytes + 1).bytes, at_once.bytes + 1)
    for field in fields(TransferTable):
        np.testing.assert_array_equal(getattr(late, field.name), getattr(at_once, field.name))


def test_a_column_is_copied_when_it_is_looked_at_and_once() -> None:
    table, pairs = table_of([2, 3, 1]), np.array([0, 2], dtype=np.int32)
    late = LateRows.of(table.select_pairs(pairs, with_rows=False), table, pairs)
    assert late.start_ns is late.start_ns
    with pytest.raises(AttributeError):
        object.__getattribute__(late, "end_ns")
    with pytest.raises(AttributeError, match="colour"):
        late.colour  # noqa: B018
