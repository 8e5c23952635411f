"""The stages, split up as on Spark and done in any order, say what the local engine says: without a JVM."""

from __future__ import annotations

import pytest

pa = pytest.importorskip("pyarrow", reason="the engine's tables are Arrow's")
import pyarrow.parquet as pq  # noqa: E402

from llmprism.engine import LocalEngine, RunOptions  # noqa: E402
from llmprism.ingest import read_topology  # noqa: E402
from llmprism.pipeline import diagnose_cluster  # noqa: E402
from llmprism.report.json_report import render  # noqa: E402
from llmprism.sim import read_scenario, scaled, simulate  # noqa: E402
from support.in_process_cluster import InProcessCluster  # noqa: E402
from support.reports import EXAMPLES  # noqa: E402


def same(folder, buckets):
    flows, topology = folder / "flows.parquet", read_topology(folder / "topology.json")
    records = pq.read_table(flows)
    for places in (topology, None):
        local = render(LocalEngine().diagnose([str(flows)], places, RunOptions()))
        split = diagnose_cluster(InProcessCluster(records, buckets), places, lambda _stage, _share: None)
        assert render(split) == local


@pytest.mark.parametrize(("name", "buckets"), [("slow_nic", 1), ("crash", 3), ("pp4dp2tp2", 16)])
def test_captures_are_split_into_the_same_report(name, buckets):
    same(EXAMPLES / name, buckets)


def test_storage_and_two_jobs_are_split_into_the_same_report(tmp_path):
    simulate(scaled(read_scenario("slow-storage"), 32, 1.2), tmp_path)
    same(tmp_path, 5)
