"""The fast order equals a plain lexsort."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.arrays import Int64
from llmprism.ingest.interning import NUMBERED
from llmprism.ingest.record_order import keep_rows, rows_in_order
from llmprism.kernel import always_compiled, always_interpreted

SMALL = st.integers(0, 3)


def _records(table: Int64) -> tuple[Any, ...]:
    """Pair, start, end, bytes, path and connection as they are handed in; connections tell equal rows apart."""
    records = np.zeros(len(table), dtype=NUMBERED)
    for column, name in enumerate(("pair", "start_ns", "end_ns", "bytes", "path")):
        records[name] = table[:, column]
    records["connection"] = np.arange(len(table), dtype=np.uint64) + np.uint64(1 << 63)
    return tuple(records[name] for name in ("pair", "start_ns", "end_ns", "bytes", "path", "connection"))


def _check(table: Int64, pairs: int, *, by_kernel: bool = True) -> None:
    columns = _records(table)
    pair, start, end, size, path, _ = columns
    found, order, offsets = rows_in_order(*columns, pairs, by_kernel=by_kernel)
    np.testing.assert_array_equal(order, np.lexsort((path, size, end, start, pair)))  # equal rows as they came
    np.testing.assert_array_equal(np.repeat(np.arange(pairs), np.diff(offsets)), pair[order])
    for column, ordered in zip(columns[1:], found, strict=True):
        np.testing.assert_array_equal(ordered, column[order])
        assert ordered.dtype == column.dtype
        assert ordered.flags.c_contiguous


@settings(max_examples=150, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL, SMALL, SMALL, st.integers(-1, 2)), max_size=60))
def test_equals_lexsort(rows: list[tuple[int, ...]]) -> None:
    _check(np.array(rows, dtype=np.int64).reshape(-1, 5), 4)


@pytest.mark.parametrize("form", [always_compiled, always_interpreted])
def test_badly_ordered_pairs_are_sorted_too(form: Callable[[], AbstractContextManager[None]]) -> None:
    count = 1_000
    rng = np.random.default_rng(0)
    start = np.arange(count)[::-1].copy()
    start[: count // 2] = rng.integers(0, 50, count // 2)
    end, size, path = start + rng.integers(0, 9, count), rng.integers(1, 9, count), np.zeros(count, dtype=np.int64)
    with form():
        _check(np.column_stack((rng.integers(0, 4, count), start, end, size, path)), 4)


def test_small_tables_get_the_same_order() -> None:
    table = np.random.default_rng(1).integers(0, 25, (3_000, 5))
    _check(table, 25)
    _check(table, 25, by_kernel=False)


def test_keep_rows() -> None:
    keep = np.array([True, False, True, True])
    assert keep_rows(np.array([0, 2, 4]), keep).tolist() == [0, 1, 3]
