"""The store: SQLite (WAL) or PostgreSQL through SQLAlchemy Core, and a folder of Parquet segments beside it.

A batch is committed in one transaction: its segment, its source's position and its counts. A window is committed in one
transaction: runs, steps, findings, messages to be sent, and the tracker's state. So after a crash the store is as it
was after some batch and some window, and whatever comes again is recognised by its position or its batch id. A segment
file is complete and on disk before the transaction that names it; files that no row names are swept at the start.

Errors of the database are raised as StoreError; the callers try again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from llmprism.errors import StoreError
from llmprism.ingest.accept import Accepted
from llmprism.service import schema
from llmprism.service.codec import decode_state, encode_finding, encode_state
from llmprism.service.config import StoreSettings
from llmprism.service.database import open_engine, translated
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.windows import WindowPlan

__all__ = ["LAYOUT_KEYS", "Batch", "Segment", "Store", "WindowResult"]

SQLITE_FILE: Final = "llmprism.db"
LAYOUT_KEYS: Final = ("layout", "groups", "pipelines", "confidence", "notes")
"""What a run's document takes over from the window's report."""

REMEMBERED_BATCHES_NS: Final = 3_600 * 10**9
"""A batch is retried within seconds; an hour is plenty to recognise it."""


@dataclass(frozen=True, slots=True)
class Segment:
    seq: int
    path: Path
    records: int
    start_ns: int
    end_ns: int
    watermark_ns: int
    wall_ns: int


@dataclass(frozen=True, slots=True)
class Batch:
    """`file` is the finished segment, None where nothing was stored; `positions` are (name, value) of the source."""

    id: str
    source: str
    accepted: Accepted
    file: Path | None
    positions: tuple[tuple[str, str], ...]
    wall_ns: int


@dataclass(frozen=True, slots=True)
class WindowResult:
    """All that one window leaves behind. `picture` is the latest state of everything, for the page."""

    start_ns: int
    end_ns: int
    records: int
    through_seq: int
    wall_ns: int
    took_ms: int
    summary: Mapping[str, Any]
    picture: Mapping[str, Any]
    layouts: Mapping[str, Any]
    changes: Changes
    tracker: TrackerState
    plan: WindowPlan
    messages: tuple[tuple[str, str, str, Mapping[str, Any]], ...] = ()


class Store:
    """One per process; safe to use from several threads."""

    def __init__(self, settings: StoreSettings) -> None:
        self.folder = Path(settings.folder)
        self.flows = self.folder / "flows"
        try:
            self.flows.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.flows}: cannot be made ({error.strerror})") from None
        self._engine = open_engine(settings.url or f"sqlite:///{self.folder / SQLITE_FILE}")
        self._insert: Any = sqlite.insert if self._engine.dialect.name == "sqlite" else postgresql.insert
        self._lock = threading.Lock()

    def create(self) -> None:
        """Makes the tables where they are absent, and sweeps files that no row names."""
        with self.writing() as connection:
            self._create_tables(connection)
            named = set(connection.execute(sql.select(schema.segments.c.path)).scalars())
        for file in self.flows.rglob("*"):
            if file.is_file() and str(file.relative_to(self.flows)) not in named:
                file.unlink(missing_ok=True)

    def _create_tables(self, connection: Connection) -> None:
        schema.metadata.create_all(connection)
        found = _state(connection, "schema")
        if found is not None and int(found) != schema.SCHEMA_VERSION:
            raise StoreError(f"the store has schema {found}, this llmprism writes {schema.SCHEMA_VERSION}")
        self._put_state(connection, "schema", str(schema.SCHEMA_VERSION))

    def close(self) -> None:
        self._engine.dispose()

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._lock, translated(), self._engine.connect() as connection:
            writer = connection.execution_options(write=True)
            with writer.begin():
                yield writer

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        with translated(), self._engine.connect() as connection:
            yield connection

    # -- batches ------------------------------------------------------------------------------------------------

    def segment_file(self, batch: str, end_ns: int) -> Path:
        """Where a batch's segment goes: one folder per hour of event time."""
        return self.flows / f"hour-{max(end_ns, 0) // (3_600 * 10**9)}" / f"{batch}.parquet"

    def committed(self, batch: str) -> bool:
        with self.reading() as connection:
            query = sql.select(schema.batches.c.id).where(schema.batches.c.id == batch)
            return connection.execute(query).first() is not None

    def commit_batch(self, batch: Batch) -> None:
        with self.writing() as connection:
            self._write_batch(connection, batch)

    def _write_batch(self, connection: Connection, batch: Batch) -> None:
        connection.execute(schema.batches.insert().values(id=batch.id, wall_ns=batch.wall_ns))
        old = schema.batches.c.wall_ns < batch.wall_ns - REMEMBERED_BATCHES_NS
        connection.execute(schema.batches.delete().where(old))
        if batch.file is not None:
            self._add_segment(connection, batch, batch.file)
        for name, value in batch.positions:
            self._put_position(connection, batch.source, name, value, batch.wall_ns)
        accepted = batch.accepted
        counts = [("received", "", accepted.records), ("stored", "", accepted.stored), ("late", "", accepted.late)]
        counts += [("dropped", reason, count) for reason, count in accepted.dropped]
        self._count(connection, batch.source, counts)

    def _add_segment(self, connection: Connection, batch: Batch, file: Path) -> None:
        accepted = batch.accepted
        before = connection.execute(sql.select(sql.func.max(schema.segments.c.watermark_ns))).scalar() or 0
        before = max(int(before), int(_state(connection, "watermark") or 0))
        connection.execute(
            schema.segments.insert().values(
                path=str(file.relative_to(self.flows)),
                records=accepted.stored,
                start_ns=accepted.start_ns,
                end_ns=accepted.end_ns,
                watermark_ns=max(before, accepted.end_ns),
                wall_ns=batch.wall_ns,
            )
        )
        self._put_state(connection, "watermark", str(max(before, accepted.end_ns)))

    def add_counts(
        self,
        source: str,
        counts: Sequence[tuple[str, str, int]],
        positions: Sequence[tuple[str, str]] = (),
        wall_ns: int = 0,
    ) -> None:
        """Adds (name, reason, how many more), and moves the source's positions with them."""
        with self.writing() as connection:
            self._count(connection, source, counts)
            for name, value in positions:
                self._put_position(connection, source, name, value, wall_ns)

    def _count(self, connection: Connection, source: str, counts: Sequence[tuple[str, str, int]]) -> None:
        table = schema.counters
        for name, reason, value in counts:
            if not value:
                continue
            insert = self._insert(table).values(source=source, name=name, reason=reason, value=value)
            connection.execute(
                insert.on_conflict_do_update(
                    index_elements=[table.c.source, table.c.name, table.c.reason],
                    set_={"value": table.c.value + insert.excluded.value},
                )
            )

    def counters(self) -> list[tuple[str, str, str, int]]:
        """(source, name, reason, value)"""
        table = schema.counters
        with self.reading() as connection:
            query = sql.select(table).order_by(table.c.source, table.c.name, table.c.reason)
            return [(row.source, row.name, row.reason, row.value) for row in connection.execute(query)]

    def position(self, source: str, name: str) -> str | None:
        table = schema.positions
        with self.reading() as connection:
            query = sql.select(table.c.value).where((table.c.source == source) & (table.c.name == name))
            return connection.execute(query).scalar()

    def positions(self, source: str) -> dict[str, str]:
        table = schema.positions
        with self.reading() as connection:
            query = sql.select(table.c.name, table.c.value).where(table.c.source == source)
            return {row.name: row.value for row in connection.execute(query)}

    def drop_positions(self, source: str, names: Sequence[str]) -> None:
        table = schema.positions
        with self.writing() as connection:
            for name in names:
                connection.execute(table.delete().where((table.c.source == source) & (table.c.name == name)))

    def _put_position(self, connection: Connection, source: str, name: str, value: str, wall_ns: int) -> None:
        table = schema.positions
        insert = self._insert(table).values(source=source, name=name, value=value, wall_ns=wall_ns)
        update = {"value": insert.excluded.value, "wall_ns": insert.excluded.wall_ns}
        connection.execute(insert.on_conflict_do_update(index_elements=[table.c.source, table.c.name], set_=update))

    # -- segments -----------------------------------------------------------------------------------------------

    def watermark(self) -> tuple[int, int]:
        """(latest record end, wall time of the last segment); zeros without any."""
        with self.reading() as connection:
            wall = connection.execute(sql.select(sql.func.max(schema.segments.c.wall_ns))).scalar()
            return int(_state(connection, "watermark") or 0), int(wall or 0)

    def passed_at(self, mark_ns: int) -> int:
        """The number of the segment whose commit took the watermark to this time, or the last one there is."""
        table = schema.segments
        with self.reading() as connection:
            query = sql.select(sql.func.min(table.c.seq)).where(table.c.watermark_ns >= mark_ns)
            found = connection.execute(query).scalar()
            return int(found or connection.execute(sql.select(sql.func.max(table.c.seq))).scalar() or 0)

    def segments(self, start_ns: int, end_ns: int, through_seq: int | None = None) -> list[Segment]:
        """Segments with records that end in (start, end], in the order of their commits."""
        table = schema.segments
        where = (table.c.end_ns > start_ns) & (table.c.start_ns <= end_ns)
        if through_seq is not None:
            where = where & (table.c.seq <= through_seq)
        with self.reading() as connection:
            rows = connection.execute(sql.select(table).where(where).order_by(table.c.seq)).all()
        return [self._segment(row) for row in rows]

    def first_end(self) -> int | None:
        """The end of the earliest batch, from which the windows start."""
        table = schema.segments
        with self.reading() as connection:
            query = sql.select(table.c.start_ns).order_by(table.c.seq).limit(1)
            found = connection.execute(query).scalar()
            return None if found is None else int(found)

    def next_after(self, end_ns: int) -> int | None:
        """The earliest start of a segment that reaches beyond this time."""
        table = schema.segments
        with self.reading() as connection:
            query = sql.select(sql.func.min(table.c.start_ns)).where(table.c.end_ns > end_ns)
            found = connection.execute(query).scalar()
            return None if found is None else max(int(found), end_ns)

    def _segment(self, row: Any) -> Segment:
        return Segment(
            row.seq, self.flows / row.path, row.records, row.start_ns, row.end_ns, row.watermark_ns, row.wall_ns
        )

    # -- windows ------------------------------------------------------------------------------------------------

    def tracker(self) -> tuple[TrackerState, WindowPlan]:
        with self.reading() as connection:
            text = _state(connection, "tracker")
        return decode_state(text) if text else (TrackerState(), WindowPlan())

    def commit_window(self, result: WindowResult) -> None:
        with self.writing() as connection:
            self._put_state(connection, "tracker", encode_state(result.tracker, result.plan))
            self._put_state(connection, "picture", json.dumps(result.picture, separators=(",", ":")))
            self._put_state(connection, "revision", str(int(_state(connection, "revision") or 0) + 1))
            self._upsert(
                connection,
                schema.windows,
                {
                    "end_ns": result.end_ns,
                    "start_ns": result.start_ns,
                    "records": result.records,
                    "through_seq": result.through_seq,
                    "wall_ns": result.wall_ns,
                    "took_ms": result.took_ms,
                    "document": json.dumps(result.summary, separators=(",", ":")),
                },
                ["end_ns"],
            )
            self._write_changes(connection, result)
            for target, finding, event, document in result.messages:
                connection.execute(
                    schema.outbox.insert().values(
                        target=target,
                        finding=finding,
                        event=event,
                        status="waiting",
                        attempts=0,
                        due_wall_ns=result.wall_ns,
                        wall_ns=result.wall_ns,
                        error="",
                        document=json.dumps(document, separators=(",", ":")),
                    )
                )

    def _write_changes(self, connection: Connection, result: WindowResult) -> None:
        changes = result.changes
        for run in changes.runs:
            document = {**asdict(run), **result.layouts.get(run.id, self._layout(connection, run.id))}
            values = {"id": run.id, "state": run.state.value, "first_ns": run.first_ns, "seen_ns": run.seen_ns}
            values["document"] = json.dumps(document, separators=(",", ":"))
            self._upsert(connection, schema.runs, values, ["id"])
        for moved in changes.transitions:
            connection.execute(
                schema.transitions.insert().values(
                    run=moved.run,
                    at_ns=moved.at_ns,
                    told_ns=result.end_ns,
                    old=None if moved.old is None else moved.old.value,
                    new=moved.new.value,
                    why=moved.why,
                )
            )
        rows = [
            {
                "run": run,
                "number": mark.index,
                "start_ns": mark.start_ns,
                "end_ns": mark.end_ns,
                "setup": int(mark.setup),
            }
            for run, mark in changes.steps
        ]
        if rows:
            connection.execute(schema.steps.insert(), rows)
        for life in changes.findings:
            finding = life.finding
            row: dict[str, Any] = {
                "id": life.id,
                "run": finding.job,
                "kind": finding.kind.value,
                "phase": life.phase.value,
                "start_ns": finding.start_ns,
                "end_ns": finding.end_ns,
                "opened_ns": life.opened_ns,
                "closed_ns": life.closed_ns,
                "updated_ns": life.updated_ns,
                "lost_gpu_seconds": finding.lost_gpu_seconds,
                "document": json.dumps({**encode_finding(finding), "reason": life.reason}, separators=(",", ":")),
            }
            self._upsert(connection, schema.findings, row, ["id"])

    def _layout(self, connection: Connection, run: str) -> dict[str, Any]:
        """The layout saved before: a window that does not show the run does not forget it."""
        text = connection.execute(sql.select(schema.runs.c.document).where(schema.runs.c.id == run)).scalar()
        document = json.loads(text) if text else {}
        return {
            key: document[key] for key in ("layout", "groups", "pipelines", "confidence", "notes") if key in document
        }

    def _upsert(self, connection: Connection, table: sql.Table, values: Mapping[str, Any], keys: list[str]) -> None:
        insert = self._insert(table).values(**values)
        update = {name: insert.excluded[name] for name in values if name not in keys}
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=update))

    # -- retention ----------------------------------------------------------------------------------------------

    def expire(self, flows_before_ns: int, history_before_ns: int) -> int:
        """Deletes what is older; returns how many segments went. Files go after the rows that name them."""
        table = schema.segments
        with self.writing() as connection:
            old = table.c.end_ns < flows_before_ns
            paths = list(connection.execute(sql.select(table.c.path).where(old)).scalars())
            connection.execute(table.delete().where(old))
            connection.execute(schema.windows.delete().where(schema.windows.c.end_ns < history_before_ns))
            connection.execute(schema.steps.delete().where(schema.steps.c.end_ns < history_before_ns))
            connection.execute(schema.transitions.delete().where(schema.transitions.c.told_ns < history_before_ns))
            gone = (schema.findings.c.phase == "closed") & (schema.findings.c.closed_ns < history_before_ns)
            connection.execute(schema.findings.delete().where(gone))
            dead = (schema.runs.c.seen_ns < history_before_ns) & schema.runs.c.state.in_(("ended", "crashed"))
            connection.execute(schema.runs.delete().where(dead))
            connection.execute(schema.outbox.delete().where(schema.outbox.c.wall_ns < history_before_ns))
        for path in paths:
            (self.flows / path).unlink(missing_ok=True)
        return len(paths)

    def replace_segments(self, old: Sequence[Segment], file: Path) -> None:
        """Puts one merged segment in the place of several; it takes the number of the last of them."""
        table = schema.segments
        last = old[-1]
        with self.writing() as connection:
            connection.execute(table.delete().where(table.c.seq.in_([item.seq for item in old[:-1]])))
            connection.execute(
                table.update()
                .where(table.c.seq == last.seq)
                .values(
                    path=str(file.relative_to(self.flows)),
                    records=sum(item.records for item in old),
                    start_ns=min(item.start_ns for item in old),
                    end_ns=max(item.end_ns for item in old),
                )
            )
        for item in old:
            item.path.unlink(missing_ok=True)

    # -- small things -------------------------------------------------------------------------------------------

    def state(self, name: str) -> str | None:
        with self.reading() as connection:
            return _state(connection, name)

    def put_state(self, name: str, value: str) -> None:
        with self.writing() as connection:
            self._put_state(connection, name, value)

    def _put_state(self, connection: Connection, name: str, value: str) -> None:
        self._upsert(connection, schema.state, {"name": name, "value": value}, ["name"])


def _state(connection: Connection, name: str) -> str | None:
    query = sql.select(schema.state.c.value).where(schema.state.c.name == name)
    found: str | None = connection.execute(query).scalar()
    return found
