"""Records read in buckets of pairs give what a whole file gives."""

from __future__ import annotations

import duckdb
import numpy as np
import pytest

from llmprism.errors import ColumnError
from llmprism.ingest import ColumnMapping, assemble_transfers, read_flows
from llmprism.ingest.spark_bucket import exporters_of, read_bucket, reading_of

pa = pytest.importorskip("pyarrow", reason="buckets come as Arrow tables")


def records(exporters=("e1", "e2")):
    """Records of twelve pairs, some of them bad, some reported twice."""
    random = np.random.default_rng(3)
    count = 2_000
    start = random.integers(10**9, 5 * 10**9, count)
    rows = {
        "start_ns": start,
        "end_ns": start + random.integers(-5, 10**6, count),
        "src": [f"10.0.0.{n}" for n in random.integers(1, 4, count)],
        "dst": [f"10.0.0.{n}" for n in random.integers(2, 6, count)],
        "bytes": random.integers(-1, 10**6, count),
        "sport": random.integers(1, 4, count),
        "dport": random.integers(1, 3, count),
        "switches": [[f"leaf{n}", "spine"] if n else None for n in random.integers(0, 3, count)],
        "exporter": [exporters[0]] * count,
    }
    table = pa.table(rows)
    again = table.slice(0, 300).set_column(8, "exporter", pa.array([exporters[1]] * 300))
    return pa.concat_tables([table, again])


def written(table, path):
    connection = duckdb.connect()
    connection.register("t", table)
    connection.execute(f"COPY t TO '{path}' (FORMAT parquet)")
    return str(path)


@pytest.mark.parametrize("exporters", [("e1", "e2"), ("e1", "e1"), (None, None)])
@pytest.mark.parametrize("buckets", [1, 5])
def test_buckets_together_are_the_whole(tmp_path, exporters, buckets):
    table = records(exporters)
    flows = read_flows([written(table, tmp_path / "flows.parquet")])
    whole = assemble_transfers(flows)
    reading = reading_of("flows", table.slice(0, 0), None, None)
    several = len(exporters_of(table, reading.scans)) > 1
    assert several == (len(set(exporters)) > 1)
    keys = [hash((a, b)) % buckets for a, b in zip(table["src"].to_pylist(), table["dst"].to_pylist(), strict=True)]
    found, dropped = {}, 0
    for bucket in range(buckets):
        part = table.filter(pa.array([key == bucket for key in keys]))
        read = read_bucket(part, reading.scans, several_exporters=several)
        dropped = dropped + read.dropped
        one = read.transfers
        for pair in range(one.pair_count):
            rows = slice(one.pair_offsets[pair], one.pair_offsets[pair + 1])
            ends = one.addresses[one.pair_src[pair]], one.addresses[one.pair_dst[pair]]
            paths = [one.paths[p] if p >= 0 else None for p in one.path[rows]]
            found[ends] = (one.start_ns[rows].tolist(), one.bytes[rows].tolist(), paths)
    assert sum(dropped) == flows.counts.records - flows.counts.used
    assert len(found) == whole.pair_count
    for pair in range(whole.pair_count):
        rows = slice(whole.pair_offsets[pair], whole.pair_offsets[pair + 1])
        ends = whole.addresses[whole.pair_src[pair]], whole.addresses[whole.pair_dst[pair]]
        paths = [whole.paths[p] if p >= 0 else None for p in whole.path[rows]]
        assert found[ends] == (whole.start_ns[rows].tolist(), whole.bytes[rows].tolist(), paths)


def test_a_reading_names_the_columns_it_uses():
    table = pa.table({"ts": [1], "te": [2], "a": ["x"], "b": ["y"], "octets": [5], "unused": [0]})
    mapping = ColumnMapping.parse("start_ns=ts:ms,end_ns=te:ms,src=a,dst=b,bytes=octets")
    reading = reading_of("s3a://bucket/flows", table, mapping, None)
    assert set(reading.columns) == {"ts", "te", "a", "b", "octets"}
    assert reading.ends == ((("a",), ("b",)),)


def test_a_missing_column_is_named_with_its_source():
    with pytest.raises(ColumnError, match=r"s3a://bucket/flows: no column 'dst'"):
        reading_of("s3a://bucket/flows", pa.table({"start_ns": [1], "end_ns": [1], "src": ["a"]}), None, None)


def test_a_bucket_without_usable_records_only_counts():
    table = pa.table({"start_ns": [5], "end_ns": [1], "src": ["a"], "dst": ["b"], "bytes": [1]})
    read = read_bucket(table, reading_of("x", table, None, None).scans, several_exporters=False)
    assert (read.transfers.pair_count, int(read.dropped.sum())) == (0, 1)
