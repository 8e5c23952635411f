"""Reports of shares on their way to the leader, as JSON text, and the one report made of them.

Such a report holds all that the tracker and the documents of the page use: jobs with their transfers, layouts and
steps; no per-GPU events, no paths. It is the report itself in the values that travel between machines of a Spark
cluster too (`engine.value_codec`), with arrays as packed text. Merging puts everything into the order in which one
diagnosis of the whole window gives it.

Findings that belong to no job (storage, a switch that slows several jobs) may come from several shares: those of one
kind and place become one. The rate of a switch that several shares use is the one of the share that moves most.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.engine.value_codec import from_values, to_values
from llmprism.errors import StoreError
from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts, Window
from llmprism.model.report import JobReport, Report, SwitchLoad
from llmprism.model.timeline import Events
from llmprism.model.topology import Topology

__all__ = ["decode_share_report", "encode_share_report", "merge_reports"]

MAX_COLUMN_BYTES: Final = 1 << 30
"""One column of a job's transfers: beyond a hundred million transfers no window goes."""


@dataclass(frozen=True, slots=True)
class ShareReport:
    """A share's report without its topology, which the leader has too; `placed` says whether the report had one."""

    report: Report
    placed: bool


def encode_share_report(report: Report, *, member_ends: bool = False) -> str:
    """`member_ends`: with the ends of every member's steps, by which ranks of logs find their addresses."""
    slim = replace(report, jobs=tuple(_slim(job, member_ends) for job in report.jobs), topology=None)
    values = to_values(ShareReport(slim, report.topology is not None), ShareReport, _packed)
    return json.dumps(values, separators=(",", ":"))


def decode_share_report(text: str, topology: Topology | None) -> Report:
    try:
        read: ShareReport = from_values(json.loads(text), ShareReport, _unpacked)
        report = read.report
        jobs = tuple(_whole(job, report.addresses) for job in report.jobs)
        return replace(report, jobs=jobs, topology=topology if read.placed else None)
    except (KeyError, TypeError, ValueError, AttributeError, zlib.error) as error:
        raise StoreError(f"the report of a share cannot be read ({type(error).__name__}: {error})") from error


def _slim(report: JobReport, member_ends: bool) -> JobReport:
    """Without what nobody reads of a window: constant columns cost nothing on the way."""
    transfers, ends = report.job.transfers, report.timeline.member_end_ns
    rows = transfers.start_ns.size
    transfers = replace(
        transfers,
        addresses=(),
        paths=(),
        path=np.full(rows, -1, dtype=np.int32),
        records=np.ones(rows, dtype=np.int32),
        pair_gap_ns=np.zeros(transfers.pair_src.size, dtype=np.int64),
        active_ns=transfers.end_ns - transfers.start_ns,
    )
    return replace(
        report,
        job=replace(report.job, transfers=transfers, clock=None, clock_candidates=()),
        layout=replace(report.layout, transfer_kind=np.zeros(rows, np.int8), clock=None),
        timeline=replace(
            report.timeline,
            member_end_ns=ends if member_ends else np.full_like(ends, -1),
            events=Events.empty(),
        ),
    )


def _whole(report: JobReport, names: tuple[str, ...]) -> JobReport:
    """With the names of the addresses, where every number is that of a name and every column as long as it must be."""
    table, pairs = report.job.transfers, report.layout.pairs
    numbers = [*report.job.members, *(one for group in report.layout.groups for one in group.members)]
    numbers += [one for pipeline in report.layout.pipelines for one in pipeline]
    ends = np.concatenate([numbers, table.pair_src, table.pair_dst, pairs.src, pairs.dst])
    if ends.size and not (ends.min() >= 0 and ends.max() < len(names)):
        raise ValueError("an address without a name")
    counts = np.diff(table.pair_offsets)
    columns = {table.start_ns.size, table.end_ns.size, table.bytes.size, table.active_ns.size, int(counts.sum())}
    if not table.pair_src.size == table.pair_dst.size == counts.size or len(columns) != 1 or (counts < 0).any():
        raise ValueError("columns of different lengths")
    return replace(report, job=replace(report.job, transfers=replace(table, addresses=names)))


def _packed(values: NDArray[Any]) -> str:
    """Differences of whole numbers, everything deflated: neighbours are alike."""
    if np.issubdtype(values.dtype, np.signedinteger):
        values = np.diff(values.astype("<i8"), prepend=np.int64(0))
    return base64.b64encode(zlib.compress(values.tobytes(), 1)).decode("ascii")


def _unpacked(text: str, dtype: np.dtype[Any], count: int) -> NDArray[Any]:
    whole = np.issubdtype(dtype, np.signedinteger)
    stored = np.dtype("<i8") if whole else dtype
    size = count * stored.itemsize
    if not 0 <= size <= MAX_COLUMN_BYTES:
        raise ValueError("a column beyond all measure")
    raw = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), size or 1)
    if len(raw) != size:
        raise ValueError("a column of another length than it says")
    numbers = np.frombuffer(raw, dtype=stored)
    return np.cumsum(numbers, dtype=np.int64).astype(dtype) if whole else numbers.copy()


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
