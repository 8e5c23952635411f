"""What the store knows, as the documents that the API answers with. Only reads."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

import sqlalchemy as sql

from llmprism.model.finding import FindingKind
from llmprism.report.kinds import CHECKS, TITLES
from llmprism.service import schema
from llmprism.service.messages import shown_target
from llmprism.service.source_clocks import clock_documents
from llmprism.service.store import Store

__all__ = ["MAX_NS", "MAX_PAGE", "History", "Page"]

MAX_PAGE: Final = 1_000
"""Rows of one answer; more come by the cursor."""

MAX_STEPS: Final = 20_000
"""Steps of one answer: five hours of one-second steps; a longer range is thinned by the page."""

MAX_NS: Final = 2**63 - 1

Page = dict[str, Any]


class History:
    def __init__(self, store: Store) -> None:
        self._store = store

    def revision(self) -> str:
        return self._store.state("revision") or "0"

    def picture(self) -> dict[str, Any]:
        text = self._store.state("picture")
        return json.loads(text) if text else {}

    def runs(
        self, states: tuple[str, ...] = (), after: str | None = None, limit: int = 100, since_ns: int | None = None
    ) -> Page:
        table = schema.runs
        query = sql.select(table).order_by(table.c.first_ns.desc(), table.c.id).limit(limit + 1)
        if states:
            query = query.where(table.c.state.in_(states))
        if since_ns is not None:
            query = query.where(table.c.seen_ns >= since_ns)
        query = _after(query, table.c.first_ns, table.c.id, after)
        return self._page(query, limit, lambda row: (row.first_ns, row.id), _run)

    def late_window(self) -> dict[str, Any] | None:
        """The last window of the sources that bring files late (start_ns, end_ns, records)."""
        text = self._store.state("late_window")
        return json.loads(text) if text else None

    def runs_by_state(self) -> dict[str, int]:
        table = schema.runs
        query = sql.select(table.c.state, sql.func.count()).group_by(table.c.state)
        with self._store.reading() as connection:
            return {state: int(count) for state, count in connection.execute(query).all()}

    def findings_by_kind(self) -> dict[str, int]:
        """Open findings, by kind."""
        table = schema.findings
        query = sql.select(table.c.kind, sql.func.count()).where(table.c.phase == "open").group_by(table.c.kind)
        with self._store.reading() as connection:
            return {kind: int(count) for kind, count in connection.execute(query).all()}

    def recent_steps(self, runs: Sequence[str], from_ns: int, limit: int) -> dict[str, list[list[int]]]:
        """Run → [start_ns, end_ns] of its latest steps since this time, in order, all in one query."""
        table = schema.steps
        found: dict[str, list[list[int]]] = {name: [] for name in runs}
        back = sql.func.row_number().over(partition_by=table.c.run, order_by=table.c.number.desc()).label("back")
        late = (
            sql.select(table.c.run, table.c.start_ns, table.c.end_ns, back).where(table.c.end_ns >= from_ns).subquery()
        )
        query = (
            sql.select(late.c.run, late.c.start_ns, late.c.end_ns).where(late.c.back <= limit).order_by(late.c.end_ns)
        )
        with self._store.reading() as connection:
            for run, start, end in connection.execute(query).all():
                if run in found:
                    found[run].append([start, end])
        return found

    def run(self, name: str) -> dict[str, Any] | None:
        table = schema.runs
        with self._store.reading() as connection:
            row = connection.execute(sql.select(table).where(table.c.id == name)).first()
        return None if row is None else _run(row)

    def steps(self, run: str, from_ns: int | None, to_ns: int | None, limit: int = MAX_STEPS) -> list[list[int]]:
        """[number, start_ns, end_ns, setup] of the latest steps in the range, in order."""
        table = schema.steps
        query = sql.select(table).where(table.c.run == run).order_by(table.c.number.desc()).limit(limit)
        if from_ns is not None:
            query = query.where(table.c.end_ns >= from_ns)
        if to_ns is not None:
            query = query.where(table.c.start_ns <= to_ns)
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        return [[row.number, row.start_ns, row.end_ns, row.setup] for row in reversed(rows)]

    def transitions(self, run: str | None, from_ns: int | None, to_ns: int | None, limit: int = 200) -> list[Page]:
        table = schema.transitions
        query = sql.select(table).order_by(table.c.told_ns.desc(), table.c.id.desc()).limit(limit)
        if run is not None:
            query = query.where(table.c.run == run)
        if from_ns is not None:
            query = query.where(table.c.told_ns >= from_ns)
        if to_ns is not None:
            query = query.where(table.c.at_ns <= to_ns)
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        return [
            {"job": row.run, "at_ns": row.at_ns, "told_ns": row.told_ns, "from": row.old, "to": row.new, "why": row.why}
            for row in rows
        ]

    def findings(
        self,
        phase: str | None = None,
        run: str | None = None,
        kind: str | None = None,
        from_ns: int | None = None,
        to_ns: int | None = None,
        after: str | None = None,
        limit: int = 100,
    ) -> Page:
        table = schema.findings
        query = sql.select(table).order_by(table.c.start_ns.desc(), table.c.id).limit(limit + 1)
        for column, wanted in ((table.c.phase, phase), (table.c.run, run), (table.c.kind, kind)):
            if wanted is not None:
                query = query.where(column == wanted)
        if from_ns is not None:
            query = query.where((table.c.end_ns.is_(None)) | (table.c.end_ns >= from_ns))
        if to_ns is not None:
            query = query.where(table.c.start_ns <= to_ns)
        query = _after(query, table.c.start_ns, table.c.id, after)
        return self._page(query, limit, lambda row: (row.start_ns, row.id), _finding)

    def finding(self, name: str) -> dict[str, Any] | None:
        table = schema.findings
        with self._store.reading() as connection:
            row = connection.execute(sql.select(table).where(table.c.id == name)).first()
            if row is None:
                return None
            sent = connection.execute(
                sql.select(schema.outbox).where(schema.outbox.c.finding == name).order_by(schema.outbox.c.id)
            ).all()
        messages = [
            {
                "target": shown_target(one.target),
                "event": one.event,
                "status": one.status,
                "attempts": one.attempts,
                "error": one.error,
            }
            for one in sent
        ]
        return {**_finding(row), "messages": messages}

    def run_logs(self, run: str) -> str | None:
        """How the logs of a run were last read, as a JSON document."""
        table = schema.run_logs
        with self._store.reading() as connection:
            return connection.execute(sql.select(table.c.document).where(table.c.run == run)).scalar()

    def windows(self, from_ns: int | None, to_ns: int | None, after: str | None, limit: int = 100) -> Page:
        table = schema.windows
        query = sql.select(table).order_by(table.c.end_ns.desc()).limit(limit + 1)
        if from_ns is not None:
            query = query.where(table.c.end_ns >= from_ns)
        if to_ns is not None:
            query = query.where(table.c.start_ns <= to_ns)
        if after is not None:
            query = query.where(table.c.end_ns < min(int(after.partition(":")[0]), MAX_NS))
        return self._page(query, limit, lambda row: (row.end_ns, ""), _window)

    def dead_letters(self, limit: int = 100) -> list[Page]:
        table = schema.outbox
        query = sql.select(table).where(table.c.status == "dead").order_by(table.c.id.desc()).limit(limit)
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        return [
            {
                "id": row.id,
                "target": shown_target(row.target),
                "finding": row.finding,
                "event": row.event,
                "attempts": row.attempts,
                "error": row.error,
                "message": json.loads(row.document),
            }
            for row in rows
        ]

    def outbox_counts(self) -> dict[str, int]:
        table = schema.outbox
        query = sql.select(table.c.status, sql.func.count()).group_by(table.c.status)
        with self._store.reading() as connection:
            return {status: int(count) for status, count in connection.execute(query).all()}

    def last_window(self) -> dict[str, Any] | None:
        rows = self.windows(None, None, None, 1)["items"]
        return rows[0] if rows else None

    def sources(self) -> list[Page]:
        """Counters by source: received, stored, late, dropped by reason; the end of its latest record; its clock."""
        found: dict[str, Page] = {}
        for source, name, reason, value in self._store.counters():
            entry = found.setdefault(source, {"name": source, "dropped": {}, "refused": {}})
            if name == "dropped":
                entry["dropped"][reason] = value
            elif name == "refused_payloads":
                entry["refused"][reason] = value
            else:
                entry[name] = value
        for source, clocks in clock_documents(self._store.clocks().values()).items():
            if source in found:
                found[source] |= clocks
        return list(found.values())

    def _page(self, query: Any, limit: int, key: Any, shape: Any) -> Page:
        with self._store.reading() as connection:
            rows = connection.execute(query).all()
        more = len(rows) > limit
        last = rows[limit - 1] if more else None
        cursor = None if last is None else ":".join(str(part) for part in key(last))
        return {"items": [shape(row) for row in rows[:limit]], "next": cursor}


def _after(query: Any, column: Any, name: Any, cursor: str | None) -> Any:
    """Rows after the cursor `time:id`, in the order time descending, id ascending."""
    if cursor is None:
        return query
    time_text, _, last = cursor.partition(":")
    time_ns = min(int(time_text), MAX_NS)
    return query.where((column < time_ns) | ((column == time_ns) & (name > last)))


def _run(row: Any) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(row.document)
    return {**document, "id": row.id, "state": row.state, "gpus": len(document["members"])}


def _finding(row: Any) -> dict[str, Any]:
    document: Mapping[str, Any] = json.loads(row.document)
    kind = FindingKind(row.kind)
    return {
        **document,
        "id": row.id,
        "phase": row.phase,
        "opened_ns": row.opened_ns or None,
        "closed_ns": row.closed_ns or None,
        "updated_ns": row.updated_ns,
        "title": TITLES[kind],
        "advice": CHECKS[kind],
    }


def _window(row: Any) -> dict[str, Any]:
    return {
        "start_ns": row.start_ns,
        "end_ns": row.end_ns,
        "records": row.records,
        "wall_ns": row.wall_ns,
        "took_ms": row.took_ms,
        **json.loads(row.document),
    }
