"""What is added is one entry in one registry: it is then used without another edit (docs/how-to/extend.md)."""

from __future__ import annotations

import pytest

from llmprism.diagnose import detectors
from llmprism.diagnose.detector import Detector
from llmprism.errors import FormatError, UsageError
from llmprism.ingest import formats, read_flows
from llmprism.ingest.collectors import COLLECTORS, Collector
from llmprism.ingest.columns import Scan, SourceColumn
from llmprism.ingest.file_format import Format
from llmprism.ingest.formats import FORMATS
from llmprism.model.finding import FindingKind
from llmprism.model.flows import Window
from llmprism.sim.collectives import COLLECTIVES
from llmprism.sim.collectives.collective import Collective
from llmprism.sim.collectives.ring import ring_lane
from llmprism.sim.ops import OpType, PairTable
from llmprism.sim.rings import Wiring
from llmprism.sim.scenario import parse_scenario
from llmprism.sim.simulated_cluster import build_cluster
from llmprism.sim.specs import ClusterSpec

TOY_COLUMNS = {"start_ns": "BIGINT", "end_ns": "BIGINT", "src": "VARCHAR", "dst": "VARCHAR", "bytes": "BIGINT"}
SCENARIO = """
title = "a"
level = "easy"
[cluster]
servers = 4
[[job]]
name = "a"
dp = 4
collective = "backwards"
"""


def test_a_detector_in_the_list_runs_after_the_others(monkeypatch):
    first, second = object(), object()
    found = {"one": [first], "two": [second]}
    seen = {}

    def made_up(name):
        def look(given):
            seen[name] = given.known
            return found[name]

        return Detector(name, (FindingKind.SLOW_STEP,), look, needs_steps=False)

    monkeypatch.setattr(detectors, "trusted", lambda _evidence, findings, _rules: findings)
    monkeypatch.setattr(detectors, "JOB_DETECTORS", (made_up("one"), made_up("two")))
    assert detectors.detect(None, Window(0, 1), {}, ()) == [first, second]
    assert seen == {"one": (), "two": (first,)}


def test_a_format_in_the_list_is_recognised_forced_and_read(tmp_path, monkeypatch):
    def scans(connection, sources, _options):
        connection.execute(f"CREATE TEMP TABLE toy({', '.join(map(' '.join, TOY_COLUMNS.items()))})")
        for source in sources:
            for line in source.path.read_text().splitlines()[1:]:
                connection.execute("INSERT INTO toy VALUES (?, ?, ?, ?, ?)", line.split())
        columns = {name: SourceColumn(name, kind) for name, kind in TOY_COLUMNS.items()}
        return [Scan("toy", "toy", columns)], []

    toy = Format("toy", "a toy file", lambda head: head.startswith(b"TOY1"), scans)
    monkeypatch.setattr(formats, "FORMATS", (toy, *formats.FORMATS))
    file, other = tmp_path / "records", tmp_path / "other.csv"
    file.write_text("TOY1\n1000 2000 a b 70000\n3000 4000 b a 80000\n")
    other.write_text("start_ns,end_ns,src,dst,bytes\n5000,6000,a,c,90000\n")
    table = read_flows([file, other])
    assert sorted(table.bytes.tolist()) == [70_000, 80_000, 90_000]
    assert read_flows([file], format="toy").bytes.size == 2
    with pytest.raises(FormatError, match="is a toy file, but --format says csv"):
        read_flows([file], format="csv")
    with pytest.raises(UsageError, match="use one of toy, pcap"):
        read_flows([file], format="unheard-of")


def test_formats_have_names_of_their_own_and_text_comes_last():
    assert len({one.name for one in FORMATS}) == len(FORMATS)
    certain = [one.certain for one in FORMATS]
    assert certain == sorted(certain, reverse=True)


def test_collectors_have_names_and_signatures_of_their_own():
    assert all(isinstance(one, Collector) and one.mappings for one in COLLECTORS)
    assert len({one.name for one in COLLECTORS}) == len({one.signature for one in COLLECTORS}) == len(COLLECTORS)


def test_a_collective_in_the_registry_is_accepted_and_wired(monkeypatch):
    def backwards(pair, nics):
        return ring_lane(pair, nics[::-1])

    monkeypatch.setitem(COLLECTIVES, "backwards", Collective("backwards", OpType.RING, backwards))
    (job,) = parse_scenario("x", SCENARIO).jobs
    assert job.collective == "backwards"
    wiring = Wiring(
        build_cluster(ClusterSpec(servers=4, nvlink=False)), PairTable(), {n: [n] for n in range(4)}, 0, 1, 1 << 20
    )
    (lane,) = wiring.reduction([0, 1, 2, 3], "backwards").lanes
    assert [(wiring.pairs.src[pair], wiring.pairs.dst[pair]) for pair in lane] == [(3, 2), (2, 1), (1, 0), (0, 3)]
