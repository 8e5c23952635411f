"""Columns of numbers come out of DuckDB as they went in."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from llmprism.ingest.number_stream import in_blocks, number_batches

QUERY = """SELECT (i % 256)::UTINYINT AS tiny, (-i)::INTEGER AS small, i * -1000000007 AS large,
           18446744073709551615::UBIGINT - i::UBIGINT AS huge FROM range(0, {rows}) AS t(i)"""


@pytest.mark.parametrize("rows", [0, 1, 5_000, 300_000])
@pytest.mark.parametrize("size", [1_000, 1_000_000])
def test_every_row_comes_once(rows: int, size: int) -> None:
    with duckdb.connect() as connection:
        blocks = [
            {name: column.copy() for name, column in block.items()}
            for block in in_blocks(number_batches(connection, QUERY.format(rows=rows)), size)
        ]
    assert [block["tiny"].size for block in blocks[:-1]] == [size] * (len(blocks) - 1)
    if not rows:
        assert not blocks
        return
    found = {name: np.concatenate([block[name] for block in blocks]) for name in blocks[0]}
    order, expected = np.argsort(-found["small"]), np.arange(rows)
    np.testing.assert_array_equal(found["tiny"][order], expected % 256)
    np.testing.assert_array_equal(found["small"][order], -expected)
    np.testing.assert_array_equal(found["large"][order], expected * -1000000007)
    np.testing.assert_array_equal(found["huge"][order], np.uint64(2**64 - 1) - expected.astype(np.uint64))
    assert [column.dtype for column in found.values()] == [np.uint8, np.int32, np.int64, np.uint64]


def test_a_query_that_fails_raises() -> None:
    query = "SELECT CASE WHEN i > 5000 THEN error('boom') ELSE i END AS i FROM range(9000) AS t(i)"
    with duckdb.connect() as connection, pytest.raises(duckdb.Error, match="boom"):
        list(number_batches(connection, query))


def test_null_is_refused() -> None:
    with duckdb.connect() as connection, pytest.raises(ValueError, match="NULL"):
        list(number_batches(connection, "SELECT CASE WHEN i < 5 THEN i END AS i FROM range(9) AS t(i)"))


def test_a_stream_that_is_left_early_blocks_nothing() -> None:
    with duckdb.connect() as connection:
        batches = number_batches(connection, "SELECT i FROM range(1000000) AS t(i)")
        next(batches)
        batches.close()  # type: ignore[attr-defined]
        assert connection.execute("SELECT 7").fetchall() == [(7,)]
