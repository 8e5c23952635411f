"""The fast order equals a plain lexsort."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest import record_order as module
from llmprism.ingest.interning import NUMBERED
from llmprism.ingest.record_order import in_order, keep_rows, pair_order
from llmprism.kernel import always_compiled, always_interpreted

SMALL = st.integers(0, 3)


@pytest.fixture(autouse=True, scope="module")
def _every_table_is_large() -> Iterator[None]:
    """The general sort that small tables get is what the fast order is compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL_TABLE", -1)
        yield


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL, st.integers(-1, 2)), max_size=60))
def test_equals_lexsort(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, dtype=np.int64).reshape(-1, 5)
    pair, path = (table[:, column].astype(np.int32) for column in (0, 4))
    start, end, size = (np.ascontiguousarray(table[:, column]) for column in (1, 2, 3))
    order, offsets = pair_order(pair, start, end, size, path, 4)
    expected = table[np.lexsort((path, size, end, start, pair))]
    np.testing.assert_array_equal(table[order], expected)
    assert sorted(order.tolist()) == list(range(len(rows)))
    np.testing.assert_array_equal(np.repeat(np.arange(4), np.diff(offsets)), expected[:, 0])


def test_badly_ordered_pairs_are_sorted_too() -> None:
    count = 4_000
    rng = np.random.default_rng(0)
    start = np.arange(count, dtype=np.int64)[::-1].copy()
    start[: count // 2] = rng.integers(0, 50, count // 2)
    pair = rng.integers(0, 4, count).astype(np.int32)
    end, size = start + rng.integers(0, 9, count), rng.integers(1, 9, count)
    path = np.zeros(count, dtype=np.int32)
    order, _ = pair_order(pair, start, end, size, path, 4)
    table = np.column_stack((pair, start, end, size))
    np.testing.assert_array_equal(table[order], table[np.lexsort((size, end, start, pair))])


def test_small_tables_get_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    pair, path = (rng.integers(0, 25, 3_000).astype(np.int32) for _ in range(2))
    start, end, size = (rng.integers(0, 40, 3_000) for _ in range(3))
    fast = pair_order(pair, start, end, size, path, 25)
    monkeypatch.setattr(module, "SMALL_TABLE", 3_000)
    for one, two in zip(fast, pair_order(pair, start, end, size, path, 25), strict=True):
        np.testing.assert_array_equal(one, two)


def test_columns_of_records_in_order() -> None:
    rng = np.random.default_rng(2)
    records = np.zeros(50, dtype=NUMBERED)
    for name in NUMBERED.names or ():
        records[name] = rng.integers(0, 1000, 50)
    columns = [records[name] for name in ("start_ns", "end_ns", "bytes", "path", "connection")]
    order = rng.permutation(50)
    for context in (always_compiled, always_interpreted):
        with context():
            for column, ordered in zip(columns, in_order(order, *columns), strict=True):
                np.testing.assert_array_equal(ordered, column[order])
                assert ordered.dtype == column.dtype
                assert ordered.flags.c_contiguous


def test_keep_rows() -> None:
    keep = np.array([True, False, True, True])
    assert keep_rows(np.array([0, 2, 4]), keep).tolist() == [0, 1, 3]
