"""A window's results as rows: runs, steps, changes of state, findings, messages to be sent, the tracker's state."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from llmprism.model.live import TrackedFinding
from llmprism.service import schema
from llmprism.service.codec import encode_finding, encode_state
from llmprism.service.joblogs.documents import why_document
from llmprism.service.picture import LAYOUT_KEYS
from llmprism.service.rows import get_state, put_state, upsert
from llmprism.service.runs import Transition
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.windows import WindowPlan

__all__ = ["WindowResult", "write_findings", "write_runs", "write_window"]


@dataclass(frozen=True, slots=True)
class WindowResult:
    """All that one window leaves behind. `picture` is the latest state of everything, for the page; None where only
    some jobs were looked at, and the last one stays. `logs`: run → how its logs were read, where that has changed."""

    start_ns: int
    end_ns: int
    records: int
    through_seq: int
    wall_ns: int
    took_ms: int
    summary: Mapping[str, Any]
    picture: Mapping[str, Any] | None
    layouts: Mapping[str, Any]
    changes: Changes
    tracker: TrackerState
    plan: WindowPlan
    messages: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = ()
    logs: Mapping[str, Any] = field(default_factory=dict)


def write_window(connection: Connection, result: WindowResult) -> None:
    if result.picture is not None:
        put_state(connection, "picture", _json(result.picture))
    window = {
        "end_ns": result.end_ns,
        "start_ns": result.start_ns,
        "records": result.records,
        "through_seq": result.through_seq,
        "wall_ns": result.wall_ns,
        "took_ms": result.took_ms,
        "document": _json(result.summary),
    }
    upsert(connection, schema.windows, window, ["end_ns"])
    write_runs(connection, result)
    write_findings(connection, result)


def write_findings(connection: Connection, result: WindowResult, tracker: str = "tracker") -> None:
    """What changes where no window was made: findings, messages, how logs were read, and the tracker's state, under
    this name."""
    put_state(connection, tracker, encode_state(result.tracker, result.plan))
    put_state(connection, "revision", str(int(get_state(connection, "revision") or 0) + 1))
    for run, document in result.logs.items():
        row = {"run": run, "seen_ns": result.end_ns, "document": _json(document)}
        upsert(connection, schema.run_logs, row, ["run"])
    for tracked in result.changes.findings:
        upsert(connection, schema.findings, _finding_row(tracked), ["id"])
    for target, finding, event, document in result.messages:
        message = {
            "target": target,
            "finding": finding,
            "event": event,
            "status": "waiting",
            "attempts": 0,
            "due_wall_ns": result.wall_ns,
            "wall_ns": result.wall_ns,
            "error": "",
            "document": _json(document),
        }
        connection.execute(schema.outbox.insert().values(**message))


def write_runs(connection: Connection, result: WindowResult) -> None:
    changes = result.changes
    for run in changes.runs:
        document = {**asdict(run), **result.layouts.get(run.id, _saved_layout(connection, run.id))}
        row = {"id": run.id, "state": run.state.value, "first_ns": run.first_ns, "seen_ns": run.seen_ns}
        upsert(connection, schema.runs, {**row, "document": _json(document)}, ["id"])
    for moved in changes.transitions:
        connection.execute(schema.transitions.insert().values(**_transition_row(moved, result.end_ns)))
    steps = [
        {"run": run, "number": mark.index, "start_ns": mark.start_ns, "end_ns": mark.end_ns, "setup": int(mark.setup)}
        for run, mark in changes.steps
    ]
    if steps:
        connection.execute(schema.steps.insert(), steps)


def _saved_layout(connection: Connection, run: str) -> dict[str, Any]:
    """The layout saved before: a window that does not show the run does not forget it."""
    text = connection.execute(sql.select(schema.runs.c.document).where(schema.runs.c.id == run)).scalar()
    document = json.loads(text) if text else {}
    return {key: document[key] for key in LAYOUT_KEYS if key in document}


def _transition_row(moved: Transition, told_ns: int) -> dict[str, Any]:
    return {
        "run": moved.run,
        "at_ns": moved.at_ns,
        "told_ns": told_ns,
        "old": None if moved.old is None else moved.old.value,
        "new": moved.new.value,
        "why": moved.why,
    }


def _finding_row(tracked: TrackedFinding) -> dict[str, Any]:
    finding = tracked.finding
    return {
        "id": tracked.id,
        "run": finding.job,
        "kind": finding.kind.value,
        "phase": tracked.phase.value,
        "start_ns": finding.start_ns,
        "end_ns": finding.end_ns,
        "opened_ns": tracked.opened_ns,
        "closed_ns": tracked.closed_ns,
        "updated_ns": tracked.updated_ns,
        "lost_gpu_seconds": finding.lost_gpu_seconds,
        "document": _json({**encode_finding(finding), "reason": tracked.reason, "why": why_document(tracked.why)}),
    }


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))
