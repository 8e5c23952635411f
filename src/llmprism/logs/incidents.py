"""Rows → incidents: what each actor said that bears on the failure, once per shape, judged by consequence.

A line after which the run completed more iterations, or reached training, did not stop it, whatever it says. A line
after the run's success is late. What is left is *terminal* and may be root, cascade or symptom. What good runs of the
same kind print too (the reference) is left out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.logs.joblog import JobLog
from llmprism.logs.launcher_reports import REPORT_LINE, Launcher
from llmprism.logs.library import Fault, FaultRole, Meaning, Severity
from llmprism.logs.members import LogMembers
from llmprism.logs.progress import Progress
from llmprism.logs.shapes import LogLevel, Shape, ShapeFlag, exception_name
from llmprism.model.log import Stage

__all__ = ["EndMarks", "Incident", "Normality", "find_end_marks", "find_incidents"]

_STRONG_SUCCESS: Final = frozenset(
    {"success.mllog", "success.hf_summary", "success.megatron", "success.lightning", "success.hf_done"}
)
"""Success lines that a program prints only once its training loop has ended well."""

_CERTAIN_SUCCESS: Final = frozenset({"success.mllog"})
"""Success lines that end the run by definition, whatever the program does afterwards."""


class Normality(Protocol):
    """What good runs print; see reference.py."""

    def is_normal(self, shape: Shape, stage: Stage, count: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class Incident:
    """The terminal (or late, or survived) lines of one shape by one actor. `actor` -1: nobody known."""

    shape: int
    actor: int
    writer: int
    row: int
    file: int
    line: int
    time_ns: int
    count: int
    fault: Fault | None
    exception: str | None
    stage: Stage
    terminal: bool
    late: bool
    timed: bool = False
    """The line has a time of its own."""

    @property
    def role(self) -> FaultRole | None:
        if self.fault:
            return self.fault.role
        return FaultRole.ROOT if self.exception else None

    @property
    def is_root(self) -> bool:
        return self.role is FaultRole.ROOT

    @property
    def proves_failure(self) -> bool:
        """Whether this line alone says that something failed (and not that someone ended the job)."""
        if self.fault:
            serious = self.fault.severity in (Severity.ERROR, Severity.FATAL)
            return serious and self.fault.role in (FaultRole.ROOT, FaultRole.CASCADE)
        return self.exception is not None


@dataclass(frozen=True, slots=True)
class EndMark:
    """`final`: the job did not go on to another stage afterwards. `strong`: the line itself is proof of success."""

    means: Meaning
    strong: bool
    final: bool
    file: int
    line: int
    time_ns: int
    row: int


@dataclass(frozen=True, slots=True)
class EndMarks:
    """The lines that say how the run ended."""

    marks: tuple[EndMark, ...]

    def first(self, *meanings: Meaning) -> EndMark | None:
        """The earliest of these marks, by time where they have one."""
        found = [mark for mark in self.marks if mark.means in meanings]
        return min(found, key=lambda mark: (mark.time_ns == 0, mark.time_ns, mark.file, mark.line)) if found else None

    def any_success(self, *, strong: bool) -> bool:
        return any(mark.means is Meaning.SUCCESS and mark.strong == strong for mark in self.marks)


_END_MEANINGS: Final = frozenset(
    {Meaning.SUCCESS, Meaning.GAVE_UP, Meaning.CANCELLED, Meaning.TIME_LIMIT, Meaning.STOPPED}
)


def find_end_marks(log: JobLog, progress: Progress) -> EndMarks:
    """Marks of the run's end; a `success` after which iterations go on was not the end."""
    marks: list[EndMark] = []
    ends = np.array([any(m.means in _END_MEANINGS for m in shape.markers) for shape in log.shapes], dtype=np.bool_)
    rows = np.flatnonzero(ends[log.rows.shape]) if log.rows.shape.size else np.zeros(0, dtype=np.int64)
    for row in rows.tolist():
        file, line, when = int(log.rows.file[row]), int(log.rows.line[row]), int(log.rows.time_ns[row])
        for marker in log.shapes[int(log.rows.shape[row])].markers:
            if marker.means not in _END_MEANINGS:
                continue
            certain = marker.id in _CERTAIN_SUCCESS
            if marker.means is Meaning.SUCCESS and not certain and _iterations_follow(progress, file, line):
                continue
            final = certain or not _stages_follow(progress, file, line)
            strong = final and marker.id in _STRONG_SUCCESS
            marks.append(EndMark(marker.means, strong, final, file, line, when, row))
    return EndMarks(tuple(marks))


def _iterations_follow(progress: Progress, file: int, line: int) -> bool:
    track = progress.tracks[file]
    place = int(np.searchsorted(track.line, line, side="right"))
    if place >= track.value.size or not place:
        return place == 0 and track.value.size > 1
    return int(track.value[place:].max()) > int(track.value[:place].max())


def _stages_follow(progress: Progress, file: int, line: int) -> bool:
    """Whether evaluation or training begins (again) after a line."""
    track = progress.tracks[file]
    place = int(np.searchsorted(track.stage_line, line, side="right"))
    return any(stage in (Stage.TRAIN, Stage.EVAL, Stage.CHECKPOINT) for stage in track.stage[place:])


def find_incidents(
    log: JobLog, members: LogMembers, progress: Progress, ends: EndMarks, normal: Normality | None
) -> list[Incident]:
    """All incidents in order of time where known, else of reading."""
    bears = np.array([_bears_on_failure(shape) for shape in log.shapes], dtype=np.bool_)
    rows = np.flatnonzero(bears[log.rows.shape]) if log.rows.shape.size else np.zeros(0, dtype=np.int64)
    if not rows.size:
        return []
    actor = members.actor_of_writer[log.rows.writer[rows]].astype(np.int64)
    survived = _survived(log, progress, rows)
    late = _late(log, ends, rows)
    state = survived.astype(np.int64) + 2 * late.astype(np.int64)
    key = (log.rows.shape[rows].astype(np.int64) * (len(members.actors) + 1) + actor + 1) * 4 + state
    _, first, count = np.unique(key, return_index=True, return_counts=True)
    found: list[Incident] = []
    actors = max(len(members.actors), 1)
    for place, many in zip(first.tolist(), count.tolist(), strict=True):
        incident = _incident(
            log, members, progress, int(rows[place]), int(many), bool(survived[place]), bool(late[place])
        )
        shape = log.shapes[incident.shape]
        if normal and normal.is_normal(shape, incident.stage, float(log.count[incident.shape]) / actors):
            continue
        found.append(incident)
    found = [_with_exit_actor(incident, log, members) for incident in found]
    return sorted(found, key=lambda i: (i.time_ns == 0, i.time_ns, i.file, i.line))


def _bears_on_failure(shape: Shape) -> bool:
    if shape.flags & ShapeFlag.FRAME:
        return False
    if shape.fault is not None:
        return shape.fault.role is not FaultRole.BENIGN
    return bool(shape.flags & ShapeFlag.EXCEPTION) or shape.level >= LogLevel.ERROR


def _survived(log: JobLog, progress: Progress, rows: Int64) -> Bool:
    """Rows after which the run went on. Monotone in each file, so one threshold per file decides."""
    survived = np.zeros(rows.size, dtype=np.bool_)
    file_of = log.rows.file[rows]
    by_file = np.argsort(file_of, kind="stable")
    files, starts = np.unique(file_of[by_file], return_index=True)
    for file, own in zip(files.tolist(), np.split(by_file, starts[1:]), strict=True):
        lines, times = log.rows.line[rows[own]], log.rows.time_ns[rows[own]]
        # nothing with a time follows in the file: the time of an earlier line does not say when this one was written
        stale = ~log.rows.timed[rows[own]] & (times >= log.file_last_ns[file])
        times = np.where(stale, 0, times)
        order = np.argsort(lines, kind="stable")
        low, high = 0, own.size
        while low < high:
            middle = (low + high) // 2
            at = int(order[middle])
            if progress.goes_on_after(file, int(lines[at]), int(times[at])):
                low = middle + 1
            else:
                high = middle
        survived[own[order[:low]]] = True
    return survived


def _late(log: JobLog, ends: EndMarks, rows: Int64) -> Bool:
    """Rows after the success of the run: later in the success's file, or by time in another."""
    late = np.zeros(rows.size, dtype=np.bool_)
    for mark in ends.marks:
        if mark.means is not Meaning.SUCCESS or not mark.final:
            continue
        same = log.rows.file[rows] == mark.file
        late |= same & (log.rows.line[rows] > mark.line)
        if mark.time_ns:
            late |= ~same & (log.rows.time_ns[rows] > mark.time_ns)
    return late


def _incident(
    log: JobLog, members: LogMembers, progress: Progress, row: int, count: int, survived: bool, late: bool
) -> Incident:
    shape_id, writer = int(log.rows.shape[row]), int(log.rows.writer[row])
    file, line, when = int(log.rows.file[row]), int(log.rows.line[row]), int(log.rows.time_ns[row])
    shape = log.shapes[shape_id]
    return Incident(
        shape_id,
        int(members.actor_of_writer[writer]),
        writer,
        row,
        file,
        line,
        when,
        count,
        shape.fault,
        exception_name(shape.text) if shape.fault is None else None,
        progress.stage_at(file, line, when),
        terminal=not survived and not late,
        late=late,
        timed=bool(log.rows.timed[row]),
    )


_REPORT_REACH: Final = 80
"""Lines between torchrun's `failed (exitcode: ...)` and the report that names the rank."""


def _with_exit_actor(incident: Incident, log: JobLog, members: LogMembers) -> Incident:
    """A launcher's line about a process belongs to that process, a kernel's line to the only rank of its node."""
    if incident.actor < 0 and incident.fault is not None and incident.fault.node_wide:
        node = log.writers[incident.writer].identity.node or log.file_identity[incident.file].node
        on_node = [number for number, actor in enumerate(members.actors) if actor.node == node]
        return replace(incident, actor=on_node[0]) if len(on_node) == 1 else incident
    if not REPORT_LINE.search(log.shapes[incident.shape].text):
        return incident
    for report in members.exits:
        if report.launcher in (Launcher.JAX, Launcher.RAY):
            continue  # said by the surviving ranks themselves
        near = 0 <= report.line - incident.line <= _REPORT_REACH
        if report.file == incident.file and near and report.rank is not None and report.rank in members.by_rank:
            return replace(incident, actor=members.by_rank[report.rank])
    return incident
