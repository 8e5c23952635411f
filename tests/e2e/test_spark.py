"""The Spark engine against the local one, on a Spark of this machine: the reports are the same, byte for byte."""

from __future__ import annotations

import os
import shutil

import duckdb
import pytest

from llmprism.cli import main
from llmprism.engine import LocalEngine, RunOptions
from llmprism.errors import ColumnError, FormatError, InputError
from llmprism.ingest import ColumnMapping, read_topology
from llmprism.report.json_report import render
from llmprism.sim import read_scenario, simulate
from support.reports import EXAMPLES

pytest.importorskip("pyspark", reason="the extra [spark] is not installed")
if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
    pytest.skip("Spark needs Java 17: scripts/install-test-deps", allow_module_level=True)

from llmprism.engine.spark import SparkEngine
from llmprism.engine.spark.session import start_session

SCENARIOS = ("slow-nic", "crash", "slow-gpu")


@pytest.fixture(scope="module", autouse=True)
def spark():
    """One Spark for all tests of this file; the engine takes the session that is there."""
    session = start_session("local[2]", spark_sql_shuffle_partitions="4")
    yield session
    session.stop()


def reports(flows, topology, options=RunOptions(), *, buckets=None):  # noqa: B008
    """The report of the local engine and that of Spark."""
    places = read_topology(topology) if topology is not None else None
    engines = (LocalEngine(), SparkEngine(buckets=buckets))
    return [render(engine.diagnose([str(flows)], places, options)) for engine in engines]


@pytest.mark.parametrize("name", SCENARIOS)
def test_simulated_clusters_give_the_same_report(name, tmp_path):
    simulate(read_scenario(name), tmp_path)
    local, spark = reports(tmp_path / "flows.parquet", tmp_path / "topology.json")
    assert b'"findings": [\n' in local  # there is something to agree on
    assert spark == local


def test_a_real_capture_in_one_bucket_gives_the_same_report():
    capture = EXAMPLES / "pp4dp2tp2"
    local, spark = reports(capture / "flows.parquet", capture / "topology.json", buckets=1)
    assert spark == local


def test_partitions_of_other_columns_in_many_buckets_give_the_same_report(tmp_path):
    """A folder of partitions, under other column names, without a topology."""
    flows = EXAMPLES / "slow_nic" / "flows.parquet"
    connection = duckdb.connect()
    connection.execute(
        f"COPY (SELECT * RENAME (start_ns AS began, bytes AS octets), (start_ns // 20000000000) % 3 AS part "
        f"FROM '{flows}') TO '{tmp_path / 'day'}' (FORMAT parquet, PARTITION_BY (part))"
    )
    mapping = ColumnMapping.parse("start_ns=began,bytes=octets")
    spark = SparkEngine(buckets=16).diagnose([str(tmp_path / "day")], None, RunOptions(mapping=mapping))
    assert render(spark) == render(LocalEngine().diagnose([str(flows)], None, RunOptions()))


def test_the_command_writes_the_same_files(tmp_path):
    flows = str(EXAMPLES / "crash" / "flows.parquet")
    for engine, place in (("local", flows), ("spark", f"file://{flows}")):
        outputs = ["--json", str(tmp_path / f"{engine}.json"), "--html", str(tmp_path / f"{engine}.html")]
        assert main(["diagnose", "--engine", engine, place, "-q", *outputs]) == 0
    for form in ("json", "html"):
        assert (tmp_path / f"spark.{form}").read_bytes() == (tmp_path / f"local.{form}").read_bytes()


def test_bad_input_is_one_clear_line(tmp_path):
    def diagnose(*flows, **options):
        SparkEngine().diagnose(list(map(str, flows)), None, RunOptions(**options))

    with pytest.raises(InputError, match="nowhere"):
        diagnose(tmp_path / "nowhere")
    with pytest.raises(FormatError, match="reads Parquet, not csv"):
        diagnose(tmp_path / "flows.csv", format="csv")
    duckdb.sql("SELECT 1 AS start_ns, 'a' AS src").write_parquet(str(tmp_path / "few.parquet"))
    with pytest.raises(ColumnError, match=r"few\.parquet: no column 'end_ns'"):
        diagnose(tmp_path / "few.parquet")
    bad = "SELECT 5 AS start_ns, 1 AS end_ns, 'a' AS src, 'b' AS dst, 1 AS bytes"
    duckdb.sql(bad).write_parquet(str(tmp_path / "bad.parquet"))
    with pytest.raises(InputError, match=r"none of 1 records can be used \(end_before_start 1\)"):
        diagnose(tmp_path / "bad.parquet")
    (tmp_path / "text.parquet").write_text("no Parquet at all")
    with pytest.raises(InputError, match=r"text\.parquet"):
        diagnose(tmp_path / "text.parquet")
