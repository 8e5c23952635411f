"""Terminal incidents → the events of the report, with role and score, and the rank x time heat-map."""

from __future__ import annotations

from collections import defaultdict
from typing import Final

import numpy as np

from llmprism.logs.incidents import Incident
from llmprism.logs.joblog import JobLog
from llmprism.logs.library import FaultRole
from llmprism.logs.members import LogMembers
from llmprism.logs.rules import RULES, LogRules
from llmprism.logs.shapes import LogLevel, ShapeFlag, WrittenLine
from llmprism.logs.suspects import Blame
from llmprism.logs.templates import group_shapes
from llmprism.model.log import EventHeat, EventRole, LogEvent, LogLine

__all__ = ["build_events", "build_heat"]

MAX_EVENTS: Final = 60
_HEAT_BUCKETS: Final = 60
_MAX_HEAT_ROWS: Final = 512


def build_events(
    log: JobLog, members: LogMembers, incidents: list[Incident], blame: Blame, rules: LogRules = RULES
) -> tuple[LogEvent, ...]:
    """One event per template, signature and role; the root first, then by time."""
    groups: dict[tuple[str, str, EventRole], list[Incident]] = defaultdict(list)
    templates = group_shapes(log.shapes[incident.shape].template for incident in incidents)
    for incident in incidents:
        template = templates[log.shapes[incident.shape].template].text
        signature = incident.fault.id if incident.fault else ""
        groups[template, signature, _role(incident, blame)].append(incident)
    events = [
        _event(log, members, group, template, role, blame, rules) for (template, _, role), group in groups.items()
    ]
    order = {EventRole.ROOT: 0, EventRole.CASCADE: 1, EventRole.SYMPTOM: 2}
    events.sort(
        key=lambda e: (
            order[e.role],
            -e.score,
            e.first_ns is None,
            e.first_ns or 0,
            e.first_line.file,
            e.first_line.line,
        )
    )
    return tuple(events[:MAX_EVENTS])


def _role(incident: Incident, blame: Blame) -> EventRole:
    root = blame.root
    if incident.late:
        return EventRole.SYMPTOM
    if root is not None and _same_cause(incident, root):
        return EventRole.ROOT
    if incident.proves_failure or incident.role is FaultRole.CASCADE:
        return EventRole.CASCADE
    return EventRole.SYMPTOM


def _same_cause(incident: Incident, root: Incident) -> bool:
    if incident.shape == root.shape:
        return True
    if incident.fault is not None and root.fault is not None:
        return incident.fault.id == root.fault.id and incident.actor == root.actor
    return False


def _event(
    log: JobLog,
    members: LogMembers,
    group: list[Incident],
    template: str,
    role: EventRole,
    blame: Blame,
    rules: LogRules,
) -> LogEvent:
    first = min(group, key=lambda i: (i.time_ns == 0, i.time_ns, i.file, i.line))
    if blame.root is not None and role is EventRole.ROOT and any(i.shape == blame.root.shape for i in group):
        first = blame.root
    shape = log.shapes[first.shape]
    ranks = sorted({rank for i in group if i.actor >= 0 and (rank := members.actors[i.actor].rank) is not None})
    sure = rules.confidence
    score = {EventRole.ROOT: 1.0, EventRole.CASCADE: sure.cascade_event, EventRole.SYMPTOM: sure.symptom_event}[role]
    if first.late:
        score = sure.late_event
    elif first.fault is not None:
        score = min(1.0, score * min(first.fault.weight, sure.heavy_entry))
    place = log.places.get((first.shape, first.writer)) or shape.place
    if place is None or (place.file, place.line) != (first.file, first.line):
        place = WrittenLine(first.file, first.line, shape.text)
    name = log.files[first.file].name
    return LogEvent(
        template[:400],
        sum(i.count for i in group),
        tuple(ranks),
        first.time_ns or None,
        LogLine(name, first.line, place.text[:1000]),
        round(score, 3),
        role,
        first.fault.id if first.fault else None,
        tuple(LogLine(name, line, text[:400]) for line, text in place.before),
        tuple(LogLine(name, line, text[:400]) for line, text in place.after),
    )


def build_heat(log: JobLog, members: LogMembers) -> EventHeat | None:
    """Failure lines per actor and time bucket over the span of the logs."""
    troubled = np.array(
        [
            (s.fault is not None and s.fault.role is not FaultRole.BENIGN)
            or bool(s.flags & ShapeFlag.EXCEPTION)
            or s.level >= LogLevel.ERROR
            for s in log.shapes
        ],
        dtype=np.bool_,
    )
    rows = np.flatnonzero(troubled[log.rows.shape]) if log.rows.shape.size else np.zeros(0, dtype=np.int64)
    if not rows.size or not members.actors:
        return None
    actor = members.actor_of_writer[log.rows.writer[rows]]
    times = log.rows.time_ns[rows]
    known = (actor >= 0) & (times > 0)
    if not known.any():
        return None
    starts = log.writer_last_ns[log.writer_last_ns > 0]
    low = int(min(times[known].min(), _first_time(log)))
    high = int(max(times[known].max(), starts.max() if starts.size else 0)) + 1
    bucket = max((high - low) // _HEAT_BUCKETS, 1)
    counts = np.zeros((len(members.actors), _HEAT_BUCKETS + 1), dtype=np.int64)
    np.add.at(counts, (actor[known], (times[known] - low) // bucket), 1)
    shown = np.argsort(-counts.sum(axis=1), kind="stable")[:_MAX_HEAT_ROWS]
    shown.sort()
    rows_out = tuple(members.actors[int(a)].label for a in shown)
    return EventHeat(rows_out, low, bucket, tuple(tuple(int(v) for v in counts[int(a)]) for a in shown))


def _first_time(log: JobLog) -> int:
    seen = [times[times > 0] for times in (log.rows.time_ns, log.iterations.time_ns)]
    firsts = [int(times.min()) for times in seen if times.size]
    return min(firsts) if firsts else 0
