"""Per-GPU events as a native trace (protobuf TracePackets) that the Perfetto UI opens.

A track per job holds a track of its steps, one of its findings, and a track per GPU with a slice per event. Slices of
one track must nest, and a GPU sends, receives and computes at once, so events that overlap go to further lanes: tracks
of the same name below the same parent, which the UI draws as one. Names are interned, times are absolute
nanoseconds and a clock snapshot ties them to wall-clock time. Native and not the older JSON form because it is a
third of the size and keeps nanoseconds (JSON times are floating-point microseconds).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.model.finding import Finding
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import EventKind, Events
from llmprism.report.kinds import TITLES
from llmprism.report.perfetto_kernels import SEQUENCE, assign_lanes, encode_slices
from llmprism.report.places import Places
from llmprism.report.protobuf import bytes_field, number_field, text_field
from llmprism.report.text import clean

__all__ = ["render"]

_ANNOTATIONS: Final = ("step", "peer", "bytes")
"""Interned in this order from 1; the kernels know the numbers."""

_EVENT_NAMES: Final = {
    EventKind.COMPUTE: "compute",
    EventKind.PP_SEND: "pipeline send",
    EventKind.PP_RECV: "pipeline receive",
    EventKind.DP: "gradients",
    EventKind.EP: "experts",
    EventKind.CP: "context",
    EventKind.IDLE: "idle",
}

_EXPLICIT_ORDER: Final = 3
_BOOTTIME, _REALTIME = 6, 1
_STATE_CLEARED: Final = 1

_CHUNK_EVENTS: Final = 100_000
"""Events encoded at once: 25 MB of working space whatever the size of the timeline."""


def render(report: Report) -> bytes:
    """The whole trace."""
    writer = _TraceWriter(report)
    return b"".join((writer.preamble(), *(part for job in report.jobs for part in writer.job(job)), *writer.unplaced()))


class _TraceWriter:
    """Gives out track ids and interned ids. Interned event names: kinds first, then one per step, finding and so on."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._places = Places(report.topology)
        self._last_track = 0
        steps = max((job.timeline.steps.count for job in report.jobs), default=0)
        self._names = [_EVENT_NAMES[kind] for kind in EventKind]
        self._first_step_name = len(self._names) + 1
        self._names += [f"step {index}" for index in range(steps)]
        self._setup_name = len(self._names) + 1
        self._names.append("set-up step")
        self._first_finding_name = len(self._names) + 1
        self._names += [f"{TITLES[f.kind]}: {self._places.finding(f)}" for f in report.findings]

    def preamble(self) -> bytes:
        """Clocks and interned names; everything else depends on this packet."""
        start = max(0, self._report.window.start_ns)
        clocks = b"".join(
            bytes_field(1, number_field(1, clock) + number_field(2, start)) for clock in (_BOOTTIME, _REALTIME)
        )
        interned = b"".join(_interned(2, self._names)) + b"".join(_interned(3, _ANNOTATIONS))
        interned += b"".join(_interned(29, [clean(address) for address in self._report.addresses]))
        return _packet(bytes_field(6, clocks) + number_field(8, start)) + _packet(
            bytes_field(12, interned), flags=_STATE_CLEARED
        )

    def job(self, job: JobReport) -> Iterable[bytes]:
        title = f"Job {clean(job.job.id)} ({job.state.value})"
        parent, descriptor = self._track(title, child_order=True)
        yield descriptor
        yield from self._steps(job, parent)
        yield from self._findings([f for f in self._report.findings if f.job == job.job.id], parent)
        yield from self._gpus(job.timeline.events, parent)

    def unplaced(self) -> Iterable[bytes]:
        """Findings that belong to no job of the report."""
        known = {job.job.id for job in self._report.jobs}
        yield from self._findings([f for f in self._report.findings if f.job not in known], None)

    def _track(
        self, name: str, parent: int | None = None, rank: int = 0, child_order: bool = False
    ) -> tuple[int, bytes]:
        self._last_track += 1
        body = number_field(1, self._last_track) + text_field(2, name)
        if parent is not None:
            body += number_field(5, parent) + number_field(12, rank)
        if child_order:
            body += number_field(11, _EXPLICIT_ORDER)
        return self._last_track, _packet(bytes_field(60, body))

    def _steps(self, job: JobReport, parent: int) -> Iterable[bytes]:
        steps = job.timeline.steps
        track, descriptor = self._track("steps", parent)
        yield descriptor
        index = np.arange(steps.count, dtype=np.int32)
        names = np.where(steps.setup, self._setup_name, self._first_step_name + index).astype(np.int32)
        yield _slices(steps.start_ns, steps.end_ns, np.full(steps.count, track), names)

    def _findings(self, findings: Sequence[Finding], parent: int | None) -> Iterable[bytes]:
        findings = sorted(findings, key=lambda finding: finding.start_ns)
        if not findings:
            return
        numbers = {id(finding): number for number, finding in enumerate(self._report.findings)}
        start = np.array([finding.start_ns for finding in findings], dtype=np.int64)
        end = np.array([finding.end_ns or self._report.window.end_ns for finding in findings], dtype=np.int64)
        names = np.array([self._first_finding_name + numbers[id(f)] for f in findings], dtype=np.int32)
        lanes = assign_lanes(np.zeros(len(findings), dtype=np.int32), start, end)
        tracks = []
        for _ in range(int(lanes.max()) + 1):
            track, descriptor = self._track("findings", parent, 1)
            tracks.append(track)
            yield descriptor
        yield _slices(start, end, np.array(tracks)[lanes], names)

    def _gpus(self, events: Events, parent: int) -> Iterable[bytes]:
        if not events.count:
            return
        lanes = assign_lanes(events.address, events.start_ns, events.end_ns)
        width = int(lanes.max()) + 1
        keys, which = np.unique(events.address.astype(np.int64) * width + lanes, return_inverse=True)
        tracks = np.zeros(keys.size, dtype=np.int64)
        for position, key in enumerate(keys.tolist()):
            name = self._places.address(self._report.addresses[key // width])
            tracks[position], descriptor = self._track(name, parent, 2 + key // width)
            yield descriptor
        names = events.kind.astype(np.int32) + 1
        yield _slices(events.start_ns, events.end_ns, tracks[which], names, events.step, events.peer + 1, events.bytes)


def _slices(
    start_ns: Int64,
    end_ns: Int64,
    track: Int64,
    name: Int32,
    step: Int32 | None = None,
    peer: Int32 | None = None,
    size: Int64 | None = None,
) -> bytes:
    none = np.zeros(start_ns.size, dtype=np.int32)
    steps = none - 1 if step is None else step
    peers = none if peer is None else peer.astype(np.int32)
    sizes = none.astype(np.int64) if size is None else size
    tracks = track.astype(np.int64)
    starts = np.maximum(start_ns, 0)
    parts = []
    for first in range(0, start_ns.size, _CHUNK_EVENTS):
        cut = slice(first, first + _CHUNK_EVENTS)
        parts.append(
            encode_slices(
                starts[cut], end_ns[cut], tracks[cut], name[cut], steps[cut], peers[cut], sizes[cut]
            ).tobytes()
        )
    return b"".join(parts)


def _packet(body: bytes, flags: int | None = None) -> bytes:
    body += number_field(10, SEQUENCE)
    if flags is not None:
        body += number_field(13, flags)
    return bytes_field(1, body)


def _interned(field: int, names: Sequence[str]) -> Iterable[bytes]:
    for iid, name in enumerate(names, start=1):
        yield bytes_field(field, number_field(1, iid) + text_field(2, name))
