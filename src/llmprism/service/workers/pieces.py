"""Reports of shares on their way to the leader, as JSON text, and the one report made of them.

A piece holds all that the tracker and the documents of the page use: of a job's transfers only the last training one,
which tells since when the job is silent; no per-GPU events. Addresses travel by name. Merging puts everything into the
order in which one diagnosis of the whole window gives it.

Findings that belong to no job (storage, a switch that slows several jobs) may come from several shares: those of one
kind and place become one. The rate of a switch that several shares use is the one of the share that moves most.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from llmprism.errors import StoreError
from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import Events, Steps, Timeline
from llmprism.model.topology import Topology
from llmprism.service.codec import decode_finding, encode_finding
from llmprism.service.runs import TRAINING_BYTES

__all__ = ["decode_piece", "encode_piece", "merge_reports"]


def encode_piece(report: Report) -> str:
    return json.dumps(
        {
            "window": [report.window.start_ns, report.window.end_ns],
            "input": [report.input.records, report.input.used, report.input.dropped],
            "jobs": [_job(job, report.addresses) for job in report.jobs],
            "findings": [encode_finding(finding) for finding in report.findings],
            "switches": [asdict(load) for load in report.switches],
            "notes": report.notes,
            "addresses": report.addresses,
            "placed": report.topology is not None,
        },
        separators=(",", ":"),
    )


def _job(report: JobReport, names: tuple[str, ...]) -> dict[str, Any]:
    job, layout, steps = report.job, report.layout, report.timeline.steps
    pairs = layout.pairs
    return {
        "id": job.id,
        "members": [names[member] for member in job.members],
        "servers": job.servers,
        "confidence": float(job.confidence),
        "places": job.places,
        "last": _last_transfer(job, names),
        "state": report.state.value,
        "layout": asdict(layout.layout),
        "layout_confidence": float(layout.confidence),
        "layout_notes": layout.notes,
        "groups": [[int(one.kind), [names[member] for member in one.members], one.ring] for one in layout.groups],
        "pipelines": [[names[member] for member in pipeline] for pipeline in layout.pipelines],
        "pairs": [
            [names[i] for i in pairs.src],
            [names[i] for i in pairs.dst],
            pairs.kind.tolist(),
            pairs.confidence.tolist(),
        ],
        "steps": [steps.start_ns.tolist(), steps.end_ns.tolist(), steps.setup.tolist()],
        "timeline_confidence": float(report.timeline.confidence),
        "timeline_notes": report.timeline.notes,
    }


def _last_transfer(job: Job, names: tuple[str, ...]) -> list[Any] | None:
    """(src, dst, start_ns, end_ns, bytes) of the training transfer that ends last."""
    transfers = job.transfers
    rows = transfers.bytes >= TRAINING_BYTES
    if job.bulk is not None and transfers.pair_count:
        rows = rows & job.bulk[transfers.pair_of_row]
    found = np.flatnonzero(rows)
    if not found.size:
        return None
    row = int(found[np.argmax(transfers.end_ns[found])])
    pair = int(transfers.pair_of_row[row])
    ends = [names[int(transfers.pair_src[pair])], names[int(transfers.pair_dst[pair])]]
    return [*ends, int(transfers.start_ns[row]), int(transfers.end_ns[row]), int(transfers.bytes[row])]


def decode_piece(text: str, topology: Topology | None) -> Report:
    try:
        item = json.loads(text)
        names = tuple(item["addresses"])
        number = {name: index for index, name in enumerate(names)}
        records, used, dropped = item["input"]
        return Report(
            window=Window(*item["window"]),
            input=InputCounts(records, used, tuple((reason, count) for reason, count in dropped)),
            addresses=names,
            jobs=tuple(_decoded_job(job, names, number) for job in item["jobs"]),
            findings=tuple(decode_finding(finding) for finding in item["findings"]),
            topology=topology if item["placed"] else None,
            switches=tuple(SwitchLoad(**{**load, "jobs": tuple(load["jobs"])}) for load in item["switches"]),
            notes=tuple(item["notes"]),
        )
    except (KeyError, TypeError, ValueError) as error:
        raise StoreError(f"a piece of a report cannot be read ({type(error).__name__}: {error})") from error


def _decoded_job(item: dict[str, Any], names: tuple[str, ...], number: dict[str, int]) -> JobReport:
    def ids(given: Sequence[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in given)

    src, dst, kind, confidence = item["pairs"]
    start, end, setup = item["steps"]
    degrees = item["layout"]
    kinds = {"sharding": Sharding(degrees["sharding"]), "schedule": Schedule(degrees["schedule"])}
    layout = JobLayout(
        layout=Layout(**{**degrees, **kinds}),
        groups=tuple(Group(PairKind(what), ids(members), ring) for what, members, ring in item["groups"]),
        pipelines=tuple(ids(pipeline) for pipeline in item["pipelines"]),
        pairs=PairRoles(
            np.array(ids(src), np.int32),
            np.array(ids(dst), np.int32),
            np.array(kind, np.int8),
            np.array(confidence, np.float64),
        ),
        transfer_kind=np.zeros(0 if item["last"] is None else 1, np.int8),
        confidence=item["layout_confidence"],
        notes=tuple(item["layout_notes"]),
    )
    job = Job(
        id=item["id"],
        members=ids(item["members"]),
        servers=tuple(item["servers"]),
        confidence=item["confidence"],
        transfers=_one_transfer(item["last"], names, number),
        places=tuple(item["places"]),
    )
    steps = Steps(np.array(start, np.int64), np.array(end, np.int64), np.array(setup, np.bool_))
    ends = np.full((len(job.members), steps.count), -1, dtype=np.int64)
    timeline = Timeline(steps, ends, Events.empty(), item["timeline_confidence"], tuple(item["timeline_notes"]))
    return JobReport(job, JobState(item["state"]), layout, timeline)


def _one_transfer(last: list[Any] | None, names: tuple[str, ...], number: dict[str, int]) -> TransferTable:
    rows = [] if last is None else [last]

    def column(values: list[int], kind: type[np.generic]) -> Any:
        return np.array(values, dtype=kind)

    return TransferTable(
        addresses=names,
        paths=(),
        pair_src=column([number[row[0]] for row in rows], np.int32),
        pair_dst=column([number[row[1]] for row in rows], np.int32),
        pair_offsets=np.arange(len(rows) + 1, dtype=np.int64),
        pair_gap_ns=column([0 for _ in rows], np.int64),
        start_ns=column([row[2] for row in rows], np.int64),
        end_ns=column([row[3] for row in rows], np.int64),
        bytes=column([row[4] for row in rows], np.int64),
        active_ns=column([row[3] - row[2] for row in rows], np.int64),
        path=column([-1 for _ in rows], np.int32),
        records=column([1 for _ in rows], np.int32),
    )


def merge_reports(reports: Sequence[Report], window: Window, topology: Topology | None) -> Report:
    """One report of a window's shares."""
    names = tuple(sorted({name for report in reports for name in report.addresses}))
    number = {name: index for index, name in enumerate(names)}
    jobs = [_renumbered(job, report.addresses, names, number) for report in reports for job in report.jobs]
    jobs.sort(key=lambda job: (job.job.members, job.job.id))
    findings = _one_per_place([finding for report in reports for finding in report.findings])
    usable = topology if topology is not None and any(report.topology is not None for report in reports) else None
    job_notes = (f"{job.job.id}: {note}" for job in jobs for note in job.layout.notes)
    return Report(
        window=window,
        input=_added([report.input for report in reports]),
        addresses=names,
        jobs=tuple(jobs),
        findings=tuple(sorted(findings, key=lambda finding: (-finding.lost_gpu_seconds, finding.start_ns))),
        topology=usable,
        switches=_added_loads([load for report in reports for load in report.switches]),
        notes=(*_topology_notes(names, topology, usable), *dict.fromkeys(job_notes)),
    )


def _renumbered(report: JobReport, old: tuple[str, ...], names: tuple[str, ...], number: dict[str, int]) -> JobReport:
    """The same job with the ids of the common list of addresses."""
    moved = np.array([number[name] for name in old], dtype=np.int32)

    def ids(given: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(int(moved[one]) for one in given)

    transfers = report.job.transfers
    transfers = replace(
        transfers, addresses=names, pair_src=moved[transfers.pair_src], pair_dst=moved[transfers.pair_dst]
    )
    layout = report.layout
    layout = replace(
        layout,
        groups=tuple(replace(group, members=ids(group.members)) for group in layout.groups),
        pipelines=tuple(ids(pipeline) for pipeline in layout.pipelines),
        pairs=replace(layout.pairs, src=moved[layout.pairs.src], dst=moved[layout.pairs.dst]),
    )
    job = replace(report.job, members=ids(report.job.members), transfers=transfers)
    return replace(report, job=job, layout=layout)


def _one_per_place(findings: Sequence[Finding]) -> list[Finding]:
    """Findings of jobs as they are; of those that belong to none, one per kind and place, with the costs added up."""
    kept: list[Finding] = []
    common: dict[tuple[Any, ...], Finding] = {}
    for finding in findings:
        if finding.job is not None:
            kept.append(finding)
            continue
        key = (finding.kind, finding.where)
        common[key] = _both(common[key], finding) if key in common else finding
    return kept + list(common.values())


def _both(one: Finding, other: Finding) -> Finding:
    """Two views of one fault: the graver one's words, the longer time, both costs."""
    graver = max(one, other, key=lambda finding: (finding.severity, finding.confidence, -finding.start_ns))
    ends = [finding.end_ns for finding in (one, other)]
    end = None if None in ends else max(end for end in ends if end is not None)
    cost = round(one.lost_gpu_seconds + other.lost_gpu_seconds, 3)
    return replace(graver, start_ns=min(one.start_ns, other.start_ns), end_ns=end, lost_gpu_seconds=cost)


def _added(counts: Sequence[InputCounts]) -> InputCounts:
    dropped: dict[str, int] = {}
    for one in counts:
        for reason, count in one.dropped:
            dropped[reason] = dropped.get(reason, 0) + count
    return InputCounts(
        sum(one.records for one in counts), sum(one.used for one in counts), tuple(sorted(dropped.items()))
    )


def _added_loads(loads: Sequence[SwitchLoad]) -> tuple[SwitchLoad, ...]:
    by_switch: dict[str, list[SwitchLoad]] = {}
    for load in loads:
        by_switch.setdefault(load.switch, []).append(load)
    return tuple(
        SwitchLoad(
            switch=name,
            tier=found[0].tier,
            bytes=sum(load.bytes for load in found),
            pairs=sum(load.pairs for load in found),
            median_rate_gbps=max(found, key=lambda load: load.bytes).median_rate_gbps,
            jobs=tuple(sorted({job for load in found for job in load.jobs})),
        )
        for name, found in sorted(by_switch.items())
    )


def _topology_notes(names: tuple[str, ...], topology: Topology | None, usable: Topology | None) -> tuple[str, ...]:
    if topology is None:
        return ("no topology was given: servers, switches and rails are not known",)
    if usable is None:
        return ("the topology names none of the addresses in the flows and was left aside",) if names else ()
    known = usable.server_of()
    strangers = sum(name not in known for name in names)
    return (f"the topology does not name {strangers} of {len(names)} addresses",) if strangers else ()
