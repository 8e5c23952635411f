"""The fast order equals a plain lexsort."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.ingest import order as module
from llmprism.ingest.order import keep_rows, pair_order

SMALL = st.integers(0, 3)


@pytest.fixture(autouse=True, scope="module")
def _every_table_is_large() -> Iterator[None]:
    """The general sort that small tables get is what the fast order is compared with."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "SMALL_TABLE", -1)
        yield


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL, SMALL, st.integers(-1, 2)), max_size=60))
def test_equals_lexsort(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, dtype=np.int64).reshape(-1, 6)
    src, dst, path = (table[:, column].astype(np.int32) for column in (0, 1, 5))
    start, end, size = (np.ascontiguousarray(table[:, column]) for column in (2, 3, 4))
    order, pair_src, pair_dst, offsets = pair_order(src, dst, start, end, size, path, 4)
    expected = table[np.lexsort((path, size, end, start, dst, src))]
    np.testing.assert_array_equal(table[order], expected)
    assert sorted(order.tolist()) == list(range(len(rows)))
    np.testing.assert_array_equal(np.repeat(pair_src, np.diff(offsets)), expected[:, 0])
    np.testing.assert_array_equal(np.repeat(pair_dst, np.diff(offsets)), expected[:, 1])
    assert len(set(zip(pair_src.tolist(), pair_dst.tolist(), strict=True))) == pair_src.size


def test_badly_ordered_pairs_are_sorted_too() -> None:
    count = 4_000
    rng = np.random.default_rng(0)
    start = np.arange(count, dtype=np.int64)[::-1].copy()
    start[: count // 2] = rng.integers(0, 50, count // 2)
    src, dst = (rng.integers(0, 2, count).astype(np.int32) for _ in range(2))
    end, size = start + rng.integers(0, 9, count), rng.integers(1, 9, count)
    path = np.zeros(count, dtype=np.int32)
    order, *_ = pair_order(src, dst, start, end, size, path, 2)
    table = np.column_stack((src, dst, start, end, size))
    np.testing.assert_array_equal(table[order], table[np.lexsort((size, end, start, dst, src))])


def test_small_tables_get_the_same_order(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(1)
    src, dst, path = (rng.integers(0, 5, 3_000).astype(np.int32) for _ in range(3))
    start, end, size = (rng.integers(0, 40, 3_000) for _ in range(3))
    fast = pair_order(src, dst, start, end, size, path, 5)
    monkeypatch.setattr(module, "SMALL_TABLE", 3_000)
    for one, two in zip(fast, pair_order(src, dst, start, end, size, path, 5), strict=True):
        np.testing.assert_array_equal(one, two)


def test_keep_rows() -> None:
    keep = np.array([True, False, True, True])
    assert keep_rows(np.array([0, 2, 4]), keep).tolist() == [0, 1, 3]
