"""Reports of shares on their way to the leader, as JSON text, and the one report made of them.

A piece holds all that the tracker and the documents of the page use: jobs with their transfers, layouts and steps; no
per-GPU events, no paths. Addresses travel by name, long columns as packed integers. Merging puts everything into the
order in which one diagnosis of the whole window gives it.

Findings that belong to no job (storage, a switch that slows several jobs) may come from several shares: those of one
kind and place become one. The rate of a switch that several shares use is the one of the share that moves most.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Any, Final

import numpy as np

from llmprism.errors import StoreError
from llmprism.model.facts import JobFacts, ModelSize, Synchronisation
from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, Int64, TransferTable, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import Events, Steps, Timeline
from llmprism.model.topology import Topology
from llmprism.service.codec import decode_finding, encode_finding

__all__ = ["decode_piece", "encode_piece", "merge_reports"]

MAX_COLUMN_BYTES: Final = 1 << 30
"""One column of a job's transfers: beyond a hundred million transfers no window goes."""


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
        "transfers": _transfers(job.transfers, names),
        "bulk": None if job.bulk is None else job.bulk.tolist(),
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
        "facts": None if report.timeline.facts is None else asdict(report.timeline.facts),
        "lost_gpu_seconds": report.lost_gpu_seconds,
    }


def _transfers(transfers: TransferTable, names: tuple[str, ...]) -> list[Any]:
    return [
        [names[i] for i in transfers.pair_src],
        [names[i] for i in transfers.pair_dst],
        _packed(np.diff(transfers.pair_offsets)),
        _packed(transfers.start_ns),
        _packed(transfers.end_ns - transfers.start_ns),
        _packed(transfers.bytes),
    ]


def _packed(values: Int64) -> str:
    """Differences, deflated: neighbours are alike."""
    steps = np.diff(values.astype("<i8"), prepend=np.int64(0))
    return base64.b64encode(zlib.compress(steps.tobytes(), 1)).decode("ascii")


def _unpacked(text: str) -> Int64:
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), MAX_COLUMN_BYTES)
    return np.cumsum(np.frombuffer(raw, dtype="<i8"), dtype=np.int64)


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
    except (KeyError, TypeError, ValueError, zlib.error) as error:
        raise StoreError(f"a piece of a report cannot be read ({type(error).__name__}: {error})") from error


def _decoded_job(item: dict[str, Any], names: tuple[str, ...], number: dict[str, int]) -> JobReport:
    def ids(given: Sequence[str]) -> tuple[int, ...]:
        return tuple(number[name] for name in given)

    transfers = _decoded_transfers(item["transfers"], names, number)
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
        transfer_kind=np.zeros(transfers.start_ns.size, np.int8),
        confidence=item["layout_confidence"],
        notes=tuple(item["layout_notes"]),
    )
    job = Job(
        id=item["id"],
        members=ids(item["members"]),
        servers=tuple(item["servers"]),
        confidence=item["confidence"],
        transfers=transfers,
        bulk=None if item["bulk"] is None else np.array(item["bulk"], np.bool_),
        places=tuple(item["places"]),
    )
    steps = Steps(np.array(start, np.int64), np.array(end, np.int64), np.array(setup, np.bool_))
    ends = np.full((len(job.members), steps.count), -1, dtype=np.int64)
    timeline = Timeline(
        steps, ends, Events.empty(), item["timeline_confidence"], tuple(item["timeline_notes"]),
        _decoded_facts(item.get("facts")),
    )  # fmt: skip
    return JobReport(job, JobState(item["state"]), layout, timeline, item["lost_gpu_seconds"])


def _decoded_facts(item: dict[str, Any] | None) -> JobFacts | None:
    if item is None:
        return None
    sizes = tuple(
        ModelSize(
            **{
                **size,
                "synchronisation": Synchronisation(size["synchronisation"]),
                "parameters_per_gpu": tuple(size["parameters_per_gpu"]),
                "gradient_bytes_per_gpu": tuple(size["gradient_bytes_per_gpu"]),
            }
        )
        for size in item["sizes"]
    )
    sent = item["sent_bytes_per_gpu"]
    return JobFacts(**{**item, "sizes": sizes, "sent_bytes_per_gpu": None if sent is None else tuple(sent)})


def _decoded_transfers(item: list[Any], names: tuple[str, ...], number: dict[str, int]) -> TransferTable:
    src, dst, rows, start, duration, size = item
    counts, start_ns, active_ns = _unpacked(rows), _unpacked(start), _unpacked(duration)
    if not len(src) == len(dst) == counts.size or int(counts.sum()) != start_ns.size:
        raise ValueError("columns of different lengths")
    return TransferTable(
        addresses=names,
        paths=(),
        pair_src=np.array([number[name] for name in src], dtype=np.int32),
        pair_dst=np.array([number[name] for name in dst], dtype=np.int32),
        pair_offsets=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        pair_gap_ns=np.zeros(counts.size, dtype=np.int64),
        start_ns=start_ns,
        end_ns=start_ns + active_ns,
        bytes=_unpacked(size),
        active_ns=active_ns,
        path=np.full(start_ns.size, -1, dtype=np.int32),
        records=np.ones(start_ns.size, dtype=np.int32),
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
