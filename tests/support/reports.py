"""Reports for tests of the renderers: from the truth of a real capture, and small ones with hostile names.

Nothing here runs a stage: the truth of a capture stands in for what the stages would have found, so that the
renderers are tested with real sizes, names and times before and without the pipeline.
"""

from __future__ import annotations

import gzip
import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from llmprism.model import (
    EventKind,
    Events,
    Evidence,
    Finding,
    FindingKind,
    Group,
    InputCounts,
    Job,
    JobLayout,
    JobReport,
    JobState,
    Layout,
    Nic,
    PairKind,
    PairRoles,
    Report,
    Schedule,
    Server,
    Sharding,
    Steps,
    Switch,
    SwitchLoad,
    Timeline,
    Topology,
    TransferTable,
    Where,
    WhereType,
    Window,
)

EXAMPLES = Path(__file__).parents[2] / "examples"
HOSTILE = "</script><img src=x onerror=window.pwned=1>[bold red]\x1b[2J\u202egnp.<!--"


def no_transfers(addresses: tuple[str, ...]) -> TransferTable:
    i32, i64 = np.zeros(0, np.int32), np.zeros(0, np.int64)
    return TransferTable(addresses, (), i32, i32, np.zeros(1, np.int64), i64, i64, i64, i64, i64, i32, i32)


def report_from_capture(folder: Path) -> Report:
    """What a perfect diagnosis of the capture would say, with plausible per-GPU events."""
    with gzip.open(folder / "truth.json.gz", "rt") as file:
        truth = json.load(file)
    topology = _topology(json.loads((folder / "topology.json").read_text()))
    addresses = tuple(sorted({address for job in truth["jobs"] for address in job["members"]}))
    ids = {address: index for index, address in enumerate(addresses)}
    jobs = tuple(_job(truth, job, ids, topology) for job in truth["jobs"])
    window = Window(truth["capture_start_ns"], truth["capture_end_ns"])
    findings = tuple(_finding(fault, jobs[fault["job"]], window) for fault in truth["faults"])
    counts = InputCounts(60_012, 60_000, (("end_before_start", 2), ("same_source_and_destination", 10)))
    return Report(window, counts, addresses, jobs, findings, topology, _switches(topology, jobs))


def _topology(document: dict[str, Any]) -> Topology:
    servers = tuple(
        Server(server["name"], tuple(Nic(nic["address"], nic["gpu"], nic["switch"]) for nic in server["nics"]))
        for server in document["servers"]
    )
    return Topology(servers, tuple(Switch(switch["name"], switch["tier"]) for switch in document["switches"]))


def _job(truth: dict[str, Any], job: dict[str, Any], ids: dict[str, int], topology: Topology) -> JobReport:
    members = tuple(sorted(ids[address] for address in job["members"]))
    server_of = topology.server_of()
    steps = Steps(
        np.array([step["start_ns"] for step in job["steps"]], np.int64),
        np.array([step["end_ns"] for step in job["steps"]], np.int64),
        np.arange(len(job["steps"])) == 0,
    )
    pipelines = tuple(tuple(ids[address] for address in pipeline) for pipeline in job["pipelines"])
    groups = tuple(Group(PairKind.DP, tuple(ids[a] for a in group), ring=True) for group in job["dp_groups"])
    crashed = any(fault["kind"] == "crash" and fault["job"] == job["job"] for fault in truth["faults"])
    layout = JobLayout(
        Layout(
            job["tp"], job["pp"], job["dp"], None, None,
            Sharding.FSDP if job["mode"] == "fsdp" else Sharding.NONE,
            job["micro_batches"],
            Schedule(job["schedule"]) if job["schedule"] else Schedule.UNKNOWN,
        ),
        groups, pipelines, _pairs(groups, pipelines), np.zeros(0, np.int8), 0.98,
    )  # fmt: skip
    ends = np.array([[row[2] for row in job["rank_steps"][address]] for address in job["members"]], np.int64)
    timeline = Timeline(steps, ends, _events(job, ids, pipelines, groups), 0.97)
    names = tuple(sorted({server_of[address] for address in job["members"]}))
    identity = f"{truth['capture']}-{job['job']}"
    model = Job(identity, members, names, 0.99, no_transfers(tuple(ids)))
    return JobReport(model, JobState.CRASHED if crashed else JobState.RUNNING, layout, timeline)


def _pairs(groups: tuple[Group, ...], pipelines: tuple[tuple[int, ...], ...]) -> PairRoles:
    rows = [
        (member, group.members[(index + 1) % len(group.members)], PairKind.DP)
        for group in groups
        for index, member in enumerate(group.members)
    ]
    for pipeline in pipelines:
        for left, right in pairwise(pipeline):
            rows += [(left, right, PairKind.PP), (right, left, PairKind.PP)]
    columns = list(zip(*rows, strict=True))
    return PairRoles(
        np.array(columns[0], np.int32), np.array(columns[1], np.int32), np.array(columns[2], np.int8),
        np.full(len(rows), 0.987654321),
    )  # fmt: skip


@dataclass
class _Rows:
    rows: list[tuple[int, int, int, int, int, int, int]]

    def add(
        self, address: int, step: int, kind: EventKind, start: int, end: int, peer: int = -1, size: int = 0
    ) -> None:
        if end > start:
            self.rows.append((address, start, step, int(kind), end, peer, size))


def _events(
    job: dict[str, Any], ids: dict[str, int], pipelines: tuple[tuple[int, ...], ...], groups: tuple[Group, ...]
) -> Events:
    """Alternating micro-batches inside the true bounds of every rank and step, then the gradients."""
    stage = {member: (index, pipeline) for pipeline in pipelines for index, member in enumerate(pipeline)}
    ring = {m: g.members[(i + 1) % len(g.members)] for g in groups for i, m in enumerate(g.members)}
    made = _Rows([])
    batches = max(1, job["micro_batches"] or 1)
    for name, ranks in job["rank_steps"].items():
        member = ids[name]
        index, pipeline = stage.get(member, (0, (member,)))
        for step, (start, gradients, end) in enumerate(ranks):
            busy = start + (gradients - start) * 3 // 4
            slot = (busy - start) // (2 * batches)
            for batch in range(2 * batches):
                low = start + batch * slot
                forward = batch < batches
                before = index - 1 if forward else index + 1
                after = index + 1 if forward else index - 1
                received = low + slot // 5
                sent = low + slot * 4 // 5
                if 0 <= before < len(pipeline):
                    made.add(member, step, EventKind.PP_RECV, low, received, pipeline[before], 2_097_152)
                made.add(member, step, EventKind.COMPUTE, received, sent)
                if 0 <= after < len(pipeline):
                    made.add(member, step, EventKind.PP_SEND, sent, low + slot, pipeline[after], 2_097_152)
            made.add(member, step, EventKind.DP, busy, gradients, ring.get(member, -1), 2 * job["parameters_per_rank"])
            made.add(member, step, EventKind.IDLE, gradients, end)
    made.rows.sort()
    columns = [np.array(column) for column in zip(*made.rows, strict=True)]
    return Events(
        columns[0].astype(np.int32), columns[2].astype(np.int32), columns[3].astype(np.int8),
        columns[1].astype(np.int64), columns[4].astype(np.int64), columns[5].astype(np.int32),
        columns[6].astype(np.int64),
    )  # fmt: skip


def _finding(fault: dict[str, Any], job: JobReport, window: Window) -> Finding:
    kind = FindingKind(fault["kind"])
    place = {FindingKind.SLOW_NIC: WhereType.NIC}.get(kind, WhereType.GPU)
    seconds = ((fault["t_end"] or window.end_ns) - fault["t_start"]) / 1e9
    name = fault["where"]
    summaries = {
        FindingKind.SLOW_NIC: f"NIC {name} sends at 0.8 Gb/s where its peers reach 9.1 Gb/s, and they wait for it",
        FindingKind.SLOW_GPU: f"GPU {name} sends 210 ms late in every step while its transfers are fast",
        FindingKind.CRASH: f"{name} fell silent first and the whole job stopped within 40 ms",
    }
    evidence = {
        FindingKind.SLOW_NIC: (
            Evidence("rate of its transfers, Gb/s", 0.7912345678, 9.1),
            Evidence("rate of its peers, Gb/s", 9.05, 9.1),
            Evidence("step time, ms", 612.0, 238.0),
        ),
        FindingKind.SLOW_GPU: (
            Evidence("compute time per micro-batch, ms", 96.5, 31.0),
            Evidence("rate of its transfers, Gb/s", 9.0, 9.1),
        ),
        FindingKind.CRASH: (
            Evidence("silence of this member before the others, ms", 38.2, 0.0),
            Evidence("members silent", 8.0),
        ),
    }
    severity = 1.0 if kind is FindingKind.CRASH else 0.6123
    lost = seconds * len(job.job.members) * 0.6
    return Finding(
        kind, job.job.id, Where(place, name), fault["t_start"], fault["t_end"], severity, 0.97, lost,
        summaries[kind], evidence[kind],
    )  # fmt: skip


def _switches(topology: Topology, jobs: tuple[JobReport, ...]) -> tuple[SwitchLoad, ...]:
    names = tuple(job.job.id for job in jobs)
    return tuple(
        SwitchLoad(switch.name, switch.tier, (index + 3) * 7_345_678_901, 6 + 2 * index, 6.5 + index / 2, names)
        for index, switch in enumerate(topology.switches)
    )


def tiny_report(name: str = "10.0.0.1", *, findings: bool = True) -> Report:
    """Two GPUs, three steps; `name` stands wherever outside text can stand."""
    addresses = (name, "10.0.0.2")
    start = 1_794_706_357_000_000_000
    second = 10**9
    steps = Steps(
        np.array([start, start + 5 * second, start + 6 * second], np.int64),
        np.array([start + 5 * second, start + 6 * second, start + 8 * second], np.int64),
        np.array([True, False, False]),
    )
    events = Events(
        np.array([0, 0, 1], np.int32), np.array([1, 1, -1], np.int32),
        np.array([EventKind.COMPUTE, EventKind.DP, EventKind.IDLE], np.int8),
        np.array([start + 5 * second, start + 5 * second + 7 * 10**8, start], np.int64),
        np.array([start + 5 * second + 7 * 10**8, start + 6 * second, start + second], np.int64),
        np.array([-1, 1, -1], np.int32), np.array([0, 123_456, 0], np.int64),
    )  # fmt: skip
    pairs = PairRoles(
        np.array([1, 0], np.int32),
        np.array([0, 1], np.int32),
        np.full(2, PairKind.DP, np.int8),
        np.array([1 / 3, np.nan]),
    )
    layout = JobLayout(
        Layout(dp=2), (Group(PairKind.DP, (0, 1), ring=True),), (), pairs, np.zeros(0, np.int8), 0.5, (f"tp: {name}",)
    )
    ends = np.array([[start + 5 * second] * 3, [start + 5 * second] * 3], np.int64)
    job = JobReport(
        Job(name, (0, 1), (name,), 0.75, no_transfers(addresses)),
        JobState.RUNNING,
        layout,
        Timeline(steps, ends, events),
    )
    finding = Finding(
        FindingKind.SLOW_GPU, name, Where(WhereType.GPU, name), start + 6 * second, None, 0.5, 0.9, 2.0,
        f"GPU {name} is late", (Evidence(f"lateness of {name}", float("nan"), 1.0), Evidence("x", 1 / 3)),
    )  # fmt: skip
    topology = Topology((Server(name, (Nic(name, 0, name),)),), (Switch(name, name),))
    loads = (SwitchLoad(name, name, 1000, 2, 9.5, (name,)),)
    return Report(
        Window(start, start + 8 * second), InputCounts(10, 8, ((name, 2),)), addresses, (job,),
        (finding,) if findings else (), topology, loads, (f"note on {name}",),
    )  # fmt: skip


def empty_report() -> Report:
    return Report(Window(0, 0), InputCounts(3, 0, (("end_before_start", 3),)), (), (), ())
