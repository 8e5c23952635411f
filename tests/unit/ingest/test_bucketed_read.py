"""Transfers read in buckets of pairs equal those of records read at once."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import duckdb
import numpy as np
import pytest

from llmprism.errors import InputError, UsageError
from llmprism.ingest import assemble_transfers, read_flows, read_transfers
from llmprism.ingest.database import memory_bytes
from llmprism.model.flows import AssembledFlows, TransferTable


def _records(path: Path, seed: int, exporters: int, *, paths: bool = True) -> Path:
    """A few hundred records of a few addresses: some twice, some by two exporters, some that cannot be used."""
    connection = duckdb.connect()
    connection.execute(f"SELECT setseed({seed / 10})")
    connection.execute(
        f"""CREATE TABLE flows AS SELECT start_ns, start_ns + (random() * 3000000)::BIGINT AS end_ns,
            'h' || (random() * 6)::INT AS src, 'h' || (random() * 9)::INT AS dst,
            CASE WHEN random() < 0.02 THEN -1 ELSE (random() * 9000)::BIGINT + 1 END AS bytes,
            7::USMALLINT AS sport, (random() * 2)::USMALLINT AS dport
            {", ['leaf' || (random() * 2)::INT, 'spine'] AS switches" if paths else ""}
            {", 'x' || (random() * " + str(exporters - 1) + ")::INT AS exporter" if exporters else ""}
        FROM (SELECT 1000000 * (random() * 500)::BIGINT AS start_ns FROM range(600))"""
    )
    connection.execute("INSERT INTO flows SELECT * FROM flows USING SAMPLE 60 ROWS (reservoir, 3)")
    if exporters > 1:
        connection.execute("INSERT INTO flows SELECT * REPLACE ('x0' AS exporter) FROM flows LIMIT 80")
    connection.execute(f"COPY flows TO '{path}' (FORMAT parquet)")
    return path


def _assert_same(read: AssembledFlows, expected: TransferTable) -> None:
    for field in fields(TransferTable):
        one, two = getattr(read.transfers, field.name), getattr(expected, field.name)
        if isinstance(two, np.ndarray):
            np.testing.assert_array_equal(one, two, err_msg=field.name)
            assert one.dtype == two.dtype, field.name
        else:
            assert one == two, field.name


@pytest.mark.parametrize("bucket_records", [1, 7, 100, 10_000])
@pytest.mark.parametrize(("exporters", "paths"), [(0, True), (1, True), (3, True), (2, False)])
def test_buckets_change_nothing(tmp_path: Path, bucket_records: int, exporters: int, paths: bool) -> None:
    file = _records(tmp_path / "flows.parquet", bucket_records % 7 + exporters, exporters, paths=paths)
    flows = read_flows([file])
    read = read_transfers([file], bucket_records=bucket_records)
    _assert_same(read, assemble_transfers(flows))
    assert (read.counts, read.window, read.addresses) == (flows.counts, flows.window, flows.addresses)


def test_a_memory_limit_changes_nothing(tmp_path: Path) -> None:
    file = _records(tmp_path / "flows.parquet", 3, 2)
    read = read_transfers([file], bucket_records=50, memory_limit="200MB")
    _assert_same(read, assemble_transfers(read_flows([file])))
    assert isinstance(read.transfers.start_ns.base, np.memmap)


def test_buckets_of_text_files(tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text("start_ns,end_ns,src,dst,bytes\n1,2,a,b,10\n5,6,b,a,10\nx,6,b,a,10\n", encoding="utf-8")
    read = read_transfers([file], bucket_records=1)
    assert read.counts == read_flows([file]).counts
    assert read.transfers.pair_count == 2


def test_no_usable_record_is_said_as_clearly(tmp_path: Path) -> None:
    file = tmp_path / "flows.csv"
    file.write_text("start_ns,end_ns,src,dst,bytes\n1,2,a,a,10\n5,6,b,b,10\n", encoding="utf-8")
    with pytest.raises(InputError, match="none of 2 records can be used"):
        read_transfers([file], bucket_records=1)


@pytest.mark.parametrize(("text", "size"), [("4GB", 4 * 10**9), ("2 GiB", 2 << 30), ("512mb", 512 * 10**6)])
def test_memory_sizes(text: str, size: int) -> None:
    assert memory_bytes(text) == size


@pytest.mark.parametrize("text", ["", "4", "GB", "-1GB", "4XB", "1e3GB"])
def test_what_is_no_memory_size(text: str) -> None:
    with pytest.raises(UsageError, match="memory limit"):
        memory_bytes(text)


@pytest.mark.parametrize("bucket_records", [3, 10_000])
def test_names_that_are_hard_to_look_up(tmp_path: Path, bucket_records: int) -> None:
    """Records without a time that alone name a path, a separator inside a name, names that are missing."""
    file = tmp_path / "flows.parquet"
    duckdb.connect().execute(
        f"""COPY (SELECT * FROM (VALUES
            (1, 2, 'a', 'b', 10, ['x', NULL], 'e'), (1, 2, 'b', 'a', 10, NULL, NULL),
            (3, 4, 'b', 'c', 10, ['x' || chr(0)], NULL), (NULL, 2, 'q', 'r', 10, ['only', 'here'], 'only'),
            (5, 6, 'c', 'a', 10, [''], 'e'), (5, 6, 'c', '', 10, [], 'e')
        ) AS t(start_ns, end_ns, src, dst, bytes, switches, exporter)) TO '{file}' (FORMAT parquet)"""
    )
    read = read_transfers([file], bucket_records=bucket_records)
    assert read.addresses == ("a", "b", "c")
    assert read.transfers.paths == (("only", "here"), ("x", "?"), ("x\0",))
    assert read.transfers.path.tolist() == [1, -1, 2, -1]
    assert read.counts.dropped == (("missing_time", 1), ("missing_address", 1))
    _assert_same(read, assemble_transfers(read_flows([file])))
