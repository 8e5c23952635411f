"""What is added is one entry in one registry: it is then used without another edit (docs/how-to/extend.md)."""

from __future__ import annotations

from llmprism.diagnose import detectors
from llmprism.ingest.collectors import COLLECTORS, Collector
from llmprism.ingest.relation import READERS
from llmprism.ingest.sources import Format
from llmprism.model.finding import FindingKind
from llmprism.model.flows import Window
from llmprism.sim.cluster import build_cluster
from llmprism.sim.collectives import COLLECTIVES, Collective, ring_lane
from llmprism.sim.ops import OpType, PairTable
from llmprism.sim.rings import Wiring
from llmprism.sim.scenario import parse_scenario
from llmprism.sim.specs import ClusterSpec

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
        def find(view):
            seen[name] = view.known
            return found[name]

        return detectors.Detector(name, (FindingKind.SLOW_STEP,), find)

    monkeypatch.setattr(detectors, "trusted", lambda _evidence, findings, _rules: findings)
    monkeypatch.setattr(detectors, "JOB_DETECTORS", (made_up("one"), made_up("two")))
    assert detectors.detect(None, Window(0, 1), {}, ()) == [first, second]
    assert seen == {"one": (), "two": (first,)}


def test_every_format_has_a_reader():
    assert {*READERS, Format.NFCAPD} == set(Format)


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
