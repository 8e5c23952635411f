"""The packet slices of two real captures against the flow records made of the same packets by other means."""

from __future__ import annotations

import gzip
import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pytest
import zstandard

from llmprism.ingest import convert_flows, read_flows
from llmprism.model import FlowTable

CAPTURES = Path(__file__).parents[3] / "../shared/data/captures"
pytestmark = pytest.mark.skipif(not CAPTURES.exists(), reason="the real captures are not here")

Totals = dict[tuple[str, str], int]


def totals(table: FlowTable) -> Totals:
    sums = np.add.reduceat(table.bytes, table.pair_offsets[:-1])
    names = table.addresses
    ends = zip(table.pair_src, table.pair_dst, strict=True)
    return {(names[a], names[b]): int(size) for (a, b), size in zip(ends, sums, strict=True)}


def reference(name: str, condition: str) -> Totals:
    file = CAPTURES / name / "flows.parquet"
    query = f"SELECT src, dst, sum(bytes) FROM read_parquet(?) WHERE {condition} GROUP BY src, dst"
    with duckdb.connect() as connection:
        return {(src, dst): int(size) for src, dst, size in connection.execute(query, [str(file)]).fetchall()}


@pytest.mark.parametrize("name", ["ddp4", "pp4dp2tp2"])
def test_slices_have_the_bytes_of_the_flow_records(name: str, tmp_path: Path) -> None:
    """Between the records inside the slice and those that touch it; without what TCP sent twice, 0.3 % at most."""
    result = convert_flows([CAPTURES / name / "part.pcap.gz"], tmp_path / "flows.parquet")
    (stats,) = result.packets
    ours = totals(read_flows([tmp_path / "flows.parquet"]))
    inside = reference(name, f"start_ns >= {stats.first_ns} AND end_ns <= {stats.last_ns}")
    touching = reference(name, f"end_ns >= {stats.first_ns} AND start_ns <= {stats.last_ns}")
    assert ours.keys() == touching.keys()
    for pair, size in ours.items():
        assert 0.997 * inside.get(pair, 0) <= size <= touching[pair], pair
    total = sum(ours.values()) + stats.retransmitted_bytes
    assert sum(inside.values()) <= total <= sum(touching.values())
    assert stats.decoded == stats.packets == 120_000


def test_compression_and_standard_input_change_nothing(tmp_path: Path) -> None:
    packed = CAPTURES / "ddp4" / "part.pcap.gz"
    unpacked = gzip.decompress(packed.read_bytes())
    (tmp_path / "part.pcap").write_bytes(unpacked)
    (tmp_path / "part.pcap.zst").write_bytes(zstandard.compress(unpacked))
    tables = [read_flows([file]) for file in (packed, tmp_path / "part.pcap", tmp_path / "part.pcap.zst")]
    for table in tables[1:]:
        np.testing.assert_array_equal(table.start_ns, tables[0].start_ns)
        np.testing.assert_array_equal(table.bytes, tables[0].bytes)
    script = "import sys; from llmprism.ingest import read_flows; print(read_flows(['-']).bytes.sum())"
    for data in (unpacked, packed.read_bytes(), zstandard.compress(unpacked)):
        result = subprocess.run([sys.executable, "-c", script], input=data, capture_output=True, check=True)
        assert int(result.stdout) == tables[0].bytes.sum()
