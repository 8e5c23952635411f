"""Per-GPU events of a run over any kept range of time, made from the raw flows when somebody looks.

The answer is binary, so that a million events reach the page in some twenty megabytes and need no parsing: four bytes
with the length of a JSON header (little-endian), the header, padding to eight bytes, then the columns one after the
other as the header lists them. Times are ticks from `origin_ns`; rows of one GPU lie together, by start.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.ingest import read_topology
from llmprism.model.flows import FlowTable, InputCounts, Window, ranges
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import EventKind
from llmprism.pipeline import diagnose
from llmprism.service.reading import read_members
from llmprism.service.store import Segment

__all__ = ["MAX_EVENTS", "timeline_bytes"]

MAX_EVENTS: Final = 2_000_000
"""Events of one answer, 42 MB; beyond it the range is cut at its start and the header says so."""

_TICK_LIMIT: Final = 2**32 - 1


def timeline_bytes(
    segments: Sequence[Segment],
    topology_file: str,
    context: tuple[int, int],
    shown: tuple[int, int],
    members: Sequence[str],
    folder: Path,
    most: int,
) -> bytes:
    """Events of the job with these members. `context` is the range looked at, `shown` the part that is returned; where
    the job has more than `most` records in it, nothing is returned and the header says that it was cut."""
    flows, found = read_members(segments, Window(*context), members, folder, most)
    flows = None if flows is None else _among(flows, frozenset(members))
    topology = read_topology(topology_file) if topology_file and Path(topology_file).exists() else None
    report = None if flows is None else diagnose(flows, topology, with_events=True, window=Window(*context))
    job = None if report is None else _job(report, frozenset(members))
    if report is None or job is None:
        return _packed({"rows": [], "names": [], "offsets": [0], "steps": [], "cut": found > most}, shown, {})
    return _events(report, job, shown)


def _among(flows: FlowTable, members: frozenset[str]) -> FlowTable | None:
    """The records that members sent to each other; the other jobs of the cluster need not be looked at."""
    known = np.array([name in members for name in flows.addresses], dtype=np.bool_)
    pairs = np.flatnonzero(known[flows.pair_src] & known[flows.pair_dst])
    starts, ends = flows.pair_offsets[pairs], flows.pair_offsets[pairs + 1]
    rows = ranges(starts, ends)
    if not rows.size:
        return None
    return replace(
        flows,
        pair_src=flows.pair_src[pairs],
        pair_dst=flows.pair_dst[pairs],
        pair_offsets=np.concatenate(([0], np.cumsum(ends - starts))).astype(np.int64),
        start_ns=flows.start_ns[rows],
        end_ns=flows.end_ns[rows],
        bytes=flows.bytes[rows],
        path=flows.path[rows],
        counts=InputCounts(int(rows.size), int(rows.size)),
    )


def _job(report: Report, members: frozenset[str]) -> JobReport | None:
    def common(job: JobReport) -> int:
        return sum(report.addresses[member] in members for member in job.job.members)

    best = max(report.jobs, key=common, default=None)
    return best if best is not None and common(best) else None


def _events(report: Report, job: JobReport, shown: tuple[int, int]) -> bytes:
    events = job.timeline.events
    keep = np.flatnonzero((events.end_ns >= shown[0]) & (events.start_ns <= shown[1]))
    cut = keep.size > MAX_EVENTS
    if cut:
        first = np.partition(events.start_ns[keep], keep.size - MAX_EVENTS)[keep.size - MAX_EVENTS]
        keep = keep[events.start_ns[keep] >= first]
    order = _rows(job)
    rank = {address: row for row, address in enumerate(order)}
    row = np.array([rank.get(address, len(order)) for address in range(len(report.addresses))])[events.address[keep]]
    keep = keep[np.lexsort((events.start_ns[keep], row))]
    counts = np.bincount(np.sort(row), minlength=len(order))[: len(order)]
    tick = max(1_000, -(-(shown[1] - shown[0]) // _TICK_LIMIT))
    start = np.clip((events.start_ns[keep] - shown[0]) // tick, 0, _TICK_LIMIT)
    end = np.clip((events.end_ns[keep] - shown[0]) // tick, start, _TICK_LIMIT)
    steps = job.timeline.steps
    inside = (steps.end_ns >= shown[0]) & (steps.start_ns <= shown[1])
    header = {
        "rows": order,
        "names": list(report.addresses),
        "offsets": [0, *np.cumsum(counts).tolist()],
        "steps": [
            [index, start_ns - shown[0], end_ns - shown[0]]
            for index, (start_ns, end_ns) in enumerate(
                zip(steps.start_ns[inside].tolist(), steps.end_ns[inside].tolist(), strict=True)
            )
        ],
        "tick_ns": tick,
        "cut": bool(cut),
    }
    columns = {
        "start": start.astype("<u4"),
        "length": (end - start).astype("<u4"),
        "peer": events.peer[keep].astype("<i4"),
        "bytes": events.bytes[keep].astype("<f4"),
        "kind": events.kind[keep].astype("u1"),
    }
    return _packed(header, shown, columns)


def _rows(job: JobReport) -> list[int]:
    """Address ids in the order of the pipelines, then the others."""
    piped = [member for pipeline in job.layout.pipelines for member in pipeline]
    return list(dict.fromkeys((*piped, *job.job.members)))


def _packed(header: dict[str, Any], shown: tuple[int, int], columns: dict[str, NDArray[Any]]) -> bytes:
    header = {
        "tick_ns": 1_000,
        **header,
        "origin_ns": shown[0],
        "end_ns": shown[1],
        "kinds": [kind.label for kind in EventKind],
        "columns": [[name, column.dtype.str, int(column.size)] for name, column in columns.items()],
    }
    text = json.dumps(header, separators=(",", ":")).encode("ascii")
    text += b" " * (-(4 + len(text)) % 8)
    return b"".join([struct.pack("<I", len(text)), text, *(column.tobytes() for column in columns.values())])
