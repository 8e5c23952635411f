"""Every detector is quiet on the same healthy runs, built and real; each catches the fault it is for, and only it."""

from __future__ import annotations

import gzip
import json
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from llmprism.diagnose import job_state
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.detectors import JOB_DETECTORS
from llmprism.diagnose.evidence import JobEvidence, gather_evidence
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.ingest import assemble_transfers, read_flows, read_topology
from llmprism.model import Finding, FindingKind, FlowTable, Topology, TransferTable, WhereType, Window
from llmprism.model.kind_facts import KIND_FACTS, Need, Replay
from llmprism.parallelism import identify_layout
from llmprism.pipeline import diagnose
from llmprism.timeline import reconstruct_timeline
from support.stages import find_slow_transfers, recognize
from unit.builders import MS, SECOND, BuiltJob, Flow, build_job, chatter, cut_in_pieces, flow_table

ROOT = Path(__file__).parents[2]
FOLDERS = [
    path.parent
    for root in ("examples", "../shared/data/captures")
    for path in sorted((ROOT / root).glob("*/truth.json.gz"))
]


def is_healthy(folder: Path) -> bool:
    return not json.loads(gzip.decompress((folder / "truth.json.gz").read_bytes()))["faults"]


class Seen(NamedTuple):
    evidence: list[JobEvidence]
    window: Window
    outside: TransferTable | None
    flows: FlowTable
    topology: Topology | None

    @property
    def members(self) -> frozenset[int]:
        return frozenset(member for evidence in self.evidence for member in evidence.job.members)


def look(flows: FlowTable, topology: Topology | None) -> Seen:
    evidence = []
    recognition = recognize(assemble_transfers(flows), topology)
    for job in recognition.jobs:
        layout = identify_layout(job)
        timeline = reconstruct_timeline(job, layout, with_events=False)
        evidence.append(gather_evidence(job, layout, timeline, job_state(job, timeline, flows.window)))
    return Seen(evidence, flows.window, recognition.outside, flows, topology)


@cache
def real(folder: Path) -> Seen:
    return look(read_flows([str(folder / "flows.parquet")]), read_topology(str(folder / "topology.json")))


BUILT = {
    "pipelines": {"pp": 2, "dp": 2},
    "gpipe": {"pp": 3, "dp": 2, "order": "gpipe", "micro_batches": 6},
    "replicas": {"pp": 1, "dp": 4},
    "two replicas": {"pp": 1, "dp": 2},
    "no replicas": {"pp": 2, "dp": 1},
    "rails": {"pp": 2, "dp": 2, "tp": 2},
    "ragged": {"pp": 2, "dp": 3, "jitter": 0.4, "steps": 40},
    "deep pipelines": {"pp": 4, "dp": 2, "micro_batches": 8},
    "data loading": {"pp": 2, "dp": 2, "forward_ms": 60.0},
    "checkpoint": {"pp": 2, "dp": 2, "pause_after": {7: 4_000.0}},
    "unlike stages": {"pp": 3, "dp": 2, "compute_factor": lambda stage, _replica, _step: 1.0 + 0.3 * stage},
}


def reads_of(job: BuiltJob) -> list[Flow]:
    """Every member reads 40 MB from a file server after each step, at rates that vary by a fifth."""
    return [
        Flow("files", member, end + i * MS, end + i * MS + (20 + (step + i) % 5) * MS, 40_000_000)
        for step, end in enumerate(job.step_ends_ns)
        for i, member in enumerate(sorted(job.members))
    ]


@cache
def built(name: str) -> Seen:
    job = build_job(**BUILT[name])
    records = cut_in_pieces(job.records) + chatter(job.members, job.shape.start_ns, job.step_ends_ns[-1])
    if name == "data loading":
        records += reads_of(job)
    return look(flow_table(records), job.topology)


HEALTHY = [
    *(pytest.param(lambda name=name: built(name), id=name) for name in BUILT),
    *(pytest.param(lambda folder=folder: real(folder), id=folder.name) for folder in FOLDERS if is_healthy(folder)),
]


def of_each_job(detector: Detector) -> Callable[[Seen], list[Finding]]:
    return lambda seen: [f for e in seen.evidence for f in detector.find(DetectorInput(e, seen.window))]


DETECTORS = [
    pytest.param(lambda seen: find_slow_transfers(seen.evidence), id="slow_transfer"),
    pytest.param(lambda seen: find_slow_storage(seen.outside, seen.members), id="slow_storage"),
    *(pytest.param(of_each_job(detector), id=detector.name) for detector in JOB_DETECTORS),
]


@pytest.mark.parametrize("run", HEALTHY)
@pytest.mark.parametrize("detector", DETECTORS)
def test_every_detector_is_quiet_on_healthy_runs(
    run: Callable[[], Seen], detector: Callable[[Seen], list[Finding]]
) -> None:
    seen = run()
    assert seen.evidence
    assert all(evidence.steps > 5 for evidence in seen.evidence), "without steps silence would mean nothing"
    assert detector(seen) == []


@pytest.mark.parametrize("run", HEALTHY)
def test_all_detectors_together_are_quiet_too(run: Callable[[], Seen]) -> None:
    seen = run()
    assert diagnose(seen.flows, seen.topology, with_events=False).findings == ()


def test_every_kind_is_described_and_every_detector_keeps_to_its_kinds() -> None:
    assert set(KIND_FACTS) == set(FindingKind)
    documented = (ROOT / "docs/explanation/diagnosis.md").read_text(encoding="utf-8")
    for kind, facts in KIND_FACTS.items():
        assert facts.title, kind
        assert facts.checks, kind
        assert facts.needs, kind
        assert f"`{kind.value}`" in documented, f"{kind.value} is not explained"
    by_detectors = {kind for detector in JOB_DETECTORS for kind in detector.kinds}
    by_places = {kind for kind, facts in KIND_FACTS.items() if facts.replay is Replay.TRANSFERS}
    by_logs = {kind for kind, facts in KIND_FACTS.items() if Need.LOGS in facts.needs}
    assert by_detectors | by_places | by_logs | {FindingKind.SLOW_STORAGE} == set(FindingKind)


def test_there_are_healthy_captures_among_the_examples() -> None:
    assert any(is_healthy(folder) for folder in FOLDERS)


LONG = {"forward_ms": 40.0, "steps": 24}
"""Steps of most of a second: faults must last for seconds before anybody is woken."""

FAULTS = {
    FindingKind.SLOW_GPU: (
        {"pp": 2, "dp": 3, "compute_factor": lambda s, r, k: 1.5 if (s, r) == (0, 1) and 8 <= k < 18 else 1.0},
        "a01r0",
    ),
    FindingKind.SLOW_NIC: (
        {
            "pp": 1, "dp": 6, "gradient_bytes": 240_000_000,
            "rate_factor": lambda address, k: 0.15 if address == "a02r0" and 8 <= k < 18 else 1.0,
        },
        "a02r0",
    ),
    FindingKind.STALL: (
        {"pp": 1, "dp": 4, "compute_factor": lambda s, r, k: 20.0 if (s, r, k) == (0, 2, 12) else 1.0},
        "a02r0",
    ),
    FindingKind.SLOW_SWITCH: (
        {
            "pp": 2, "dp": 2, "tp": 4, "gradient_bytes": 240_000_000,
            "rate_factor": lambda address, k: 0.15 if address.endswith("r2") and 8 <= k < 18 else 1.0,
        },
        "leaf2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAULTS, ids=lambda kind: kind.value)
def test_each_fault_is_found_once_at_its_place_and_time(kind: FindingKind) -> None:
    shape, place = FAULTS[kind]
    job = build_job(**{**LONG, **shape})
    report = diagnose(flow_table(cut_in_pieces(job.records)), job.topology)
    assert [(finding.kind, finding.where.id) for finding in report.findings] == [(kind, place)]
    (finding,) = report.findings
    first = 12 if kind is FindingKind.STALL else 8
    last = 12 if kind is FindingKind.STALL else 17
    slack = 2 * SECOND
    assert job.step_ends_ns[first - 1] - slack <= finding.start_ns <= job.step_ends_ns[first] + slack
    assert finding.end_ns is not None
    assert abs(finding.end_ns - job.step_ends_ns[last]) <= slack
    assert finding.job == report.jobs[0].job.id
    assert 0.0 < finding.severity <= 1.0
    assert 0.5 < finding.confidence <= 1.0
    assert finding.lost_gpu_seconds > 0.0
    assert place in finding.summary


def test_a_job_that_stands_still_together_is_a_stall_of_the_job() -> None:
    job = build_job(pp=2, dp=2)
    middle = (job.step_ends_ns[9] + job.step_ends_ns[10]) // 2
    later = [
        r._replace(start_ns=r.start_ns + 6 * SECOND, end_ns=r.end_ns + 6 * SECOND) if r.start_ns > middle else r
        for r in job.records
    ]
    report = diagnose(flow_table(later), job.topology)
    assert [(f.kind, f.where.type) for f in report.findings] == [(FindingKind.STALL, WhereType.JOB)]
    (finding,) = report.findings
    assert abs(finding.start_ns - middle) < SECOND
    assert finding.end_ns is not None
    assert abs(finding.end_ns - middle - 6 * SECOND) < SECOND


@pytest.mark.parametrize(("kind", "talks_on"), [(FindingKind.CRASH, False), (FindingKind.HANG, True)])
def test_a_job_that_stops_is_found(kind: FindingKind, talks_on: bool) -> None:
    job = build_job(pp=2, dp=2, compute_factor=lambda s, r, step: 1e6 if (s, r, step) == (1, 1, 19) else 1.0)
    begin = job.step_ends_ns[-2]
    other = build_job(pp=1, dp=2, name="b", steps=200, start_ns=job.shape.start_ns, seed=5)
    beats = chatter(job.members, job.shape.start_ns, (begin + 20 * SECOND) if talks_on else begin)
    records = [r for r in job.records if r.start_ns < begin + SECOND] + other.records + beats
    report = diagnose(flow_table(records))
    assert [(finding.kind, finding.where.id) for finding in report.findings] == [(kind, "a03r0")]
    assert {result.state.value for result in report.jobs} == {
        "running",
        "crashed" if kind is FindingKind.CRASH else "hung",
    }
