"""The store: SQLite (WAL) or PostgreSQL through SQLAlchemy Core, and a folder of Parquet segments next to it.

A batch is committed in one transaction: its segment, its source's position and its counts. A window is committed in one
transaction: runs, steps, findings, messages to be sent, and the tracker's state. So after a crash the store is as it
was after some batch and some window, and whatever comes again is recognised by its position or its batch id. A segment
file is complete and on disk before the transaction that names it; files that no row names are swept at the start.

Errors of the database are raised as StoreError; the callers try again.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from llmprism.errors import StoreError
from llmprism.service import schema
from llmprism.service.batch_rows import Batch, Segment, SourceBatch, write_batch
from llmprism.service.clock_of_source import Clock, ClockState
from llmprism.service.codec import decode_state
from llmprism.service.config import StoreSettings
from llmprism.service.database import open_engine, translated
from llmprism.service.late_sources import LATE_PREFIX
from llmprism.service.rows import Counts, Positions, add_counts, expire_sources, get_state, put_position, put_state
from llmprism.service.tracker import TrackerState
from llmprism.service.window_rows import WindowResult, write_findings, write_window
from llmprism.service.windows import WindowPlan

__all__ = ["SQLITE_FILE", "Batch", "Segment", "SourceBatch", "Store", "WindowResult", "create_tables"]

SQLITE_FILE: Final = "llmprism.db"


def create_tables(connection: Connection) -> None:
    """Makes the tables where they are absent; raises StoreError where another version has made them."""
    schema.metadata.create_all(connection)
    if connection.dialect.name == "postgresql":
        for table, column in schema.WIDENED:
            connection.exec_driver_sql(f"ALTER TABLE {table} ALTER COLUMN {column} TYPE TEXT")
    found = get_state(connection, "schema")
    if found is not None and int(found) != schema.SCHEMA_VERSION:
        raise StoreError(f"the store has schema {found}, this llmprism writes {schema.SCHEMA_VERSION}")
    put_state(connection, "schema", str(schema.SCHEMA_VERSION))


class Store:
    """One per process; safe to use from several threads."""

    mixes_sources = True
    """Whether one batch may hold records of several sources."""

    late: bool | None = None
    """Whose segments are shown: those of late sources, those of the others, or all (None)."""

    def __init__(self, settings: StoreSettings) -> None:
        self.folder = Path(settings.folder)
        self.flows = self.folder / "flows"
        self.incoming = self.folder / "incoming"
        try:
            self.flows.mkdir(parents=True, exist_ok=True)
            self.incoming.mkdir(exist_ok=True)
        except OSError as error:
            raise StoreError(f"{self.flows}: cannot be made ({error.strerror})") from None
        self._engine = open_engine(settings.url or f"sqlite:///{self.folder / SQLITE_FILE}")
        self._lock = threading.Lock()

    def create(self) -> None:
        """Makes the tables where they are absent, and sweeps files that no row names."""
        with self.writing() as connection:
            create_tables(connection)
            named = set(connection.execute(sql.select(schema.segments.c.path)).scalars())
        for file in self.flows.rglob("*"):
            if file.is_file() and str(file.relative_to(self.flows)) not in named:
                file.unlink(missing_ok=True)

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

    def segment_file(self, batch: str, end_ns: int, *, late: bool = False) -> Path:
        """Where a batch's segment goes: one folder per hour of event time."""
        prefix = LATE_PREFIX if late else ""
        return self.flows / f"hour-{max(end_ns, 0) // (3_600 * 10**9)}" / f"{prefix}{batch}.parquet"

    def _shown(self) -> sql.ColumnElement[bool]:
        is_late = schema.segments.c.path.contains(f"/{LATE_PREFIX}", autoescape=True)
        return sql.true() if self.late is None else is_late if self.late else ~is_late

    def committed(self, batch: str) -> bool:
        with self.reading() as connection:
            query = sql.select(schema.batches.c.id).where(schema.batches.c.id == batch)
            return connection.execute(query).first() is not None

    def commit_batch(self, batch: Batch) -> None:
        with self.writing() as connection:
            write_batch(connection, self.flows, batch)

    def add_counts(
        self, source: str, counts: Counts, positions: Positions = (), wall_ns: int = 0, positions_of: str = ""
    ) -> None:
        """Adds (name, reason, how many more), and moves the source's positions with them."""
        with self.writing() as connection:
            add_counts(connection, source, counts)
            for name, value in positions:
                put_position(connection, positions_of or source, name, value, wall_ns)

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

    def clocks(self) -> dict[tuple[str, str], Clock]:
        """What is known of every source's clock."""
        with self.reading() as connection:
            texts = connection.execute(sql.select(schema.clocks.c.document)).scalars().all()
        found = [Clock(**{**item, "state": ClockState(item["state"])}) for item in map(json.loads, texts)]
        return {clock.key: clock for clock in found}

    # -- segments -----------------------------------------------------------------------------------------------

    def watermark(self) -> tuple[int, int]:
        """(latest record end, wall time of the last segment); zeros without any."""
        with self.reading() as connection:
            wall = connection.execute(sql.select(sql.func.max(schema.segments.c.wall_ns))).scalar()
            return int(get_state(connection, "watermark") or 0), int(wall or 0)

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
        where = (table.c.end_ns > start_ns) & (table.c.start_ns <= end_ns) & self._shown()
        if through_seq is not None:
            where = where & (table.c.seq <= through_seq)
        with self.reading() as connection:
            rows = connection.execute(sql.select(table).where(where).order_by(table.c.seq)).all()
        return [self._segment(row) for row in rows]

    def first_end(self) -> int | None:
        """The end of the earliest batch, from which the windows start."""
        table = schema.segments
        with self.reading() as connection:
            query = sql.select(table.c.start_ns).where(self._shown()).order_by(table.c.seq).limit(1)
            found = connection.execute(query).scalar()
            return None if found is None else int(found)

    def next_after(self, end_ns: int) -> int | None:
        """The earliest start of a segment that reaches beyond this time."""
        table = schema.segments
        with self.reading() as connection:
            query = sql.select(sql.func.min(table.c.start_ns)).where((table.c.end_ns > end_ns) & self._shown())
            found = connection.execute(query).scalar()
            return None if found is None else max(int(found), end_ns)

    def _segment(self, row: Any) -> Segment:
        return Segment(
            row.seq, self.flows / row.path, row.records, row.start_ns, row.end_ns, row.watermark_ns, row.wall_ns
        )

    # -- windows ------------------------------------------------------------------------------------------------

    def tracker(self) -> tuple[TrackerState, WindowPlan]:
        with self.reading() as connection:
            text = get_state(connection, "tracker")
        return decode_state(text) if text else (TrackerState(), WindowPlan())

    def commit_window(self, result: WindowResult) -> None:
        with self.writing() as connection:
            write_window(connection, result)

    def commit_findings(self, result: WindowResult) -> None:
        """What logs that came late change, without a window."""
        with self.writing() as connection:
            write_findings(connection, result)

    def has_run(self, name: str) -> bool:
        """Was there ever a run of this id?"""
        with self.reading() as connection:
            return connection.execute(sql.select(schema.runs.c.id).where(schema.runs.c.id == name)).first() is not None

    # -- retention ----------------------------------------------------------------------------------------------

    def expire(self, flows_before_ns: int, history_before_ns: int, wall_before_ns: int = 0) -> int:
        """Deletes what is older (sources by when they were last heard of, `wall_before_ns`); returns how many segments
        went. Files go after the rows that name them."""
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
            connection.execute(schema.runs.delete().where(schema.runs.c.seen_ns < history_before_ns))
            connection.execute(schema.run_logs.delete().where(schema.run_logs.c.seen_ns < history_before_ns))
            connection.execute(schema.batches.delete().where(schema.batches.c.wall_ns < wall_before_ns))
            connection.execute(schema.outbox.delete().where(schema.outbox.c.wall_ns < history_before_ns))
            expire_sources(connection, wall_before_ns)
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
            return get_state(connection, name)

    def put_state(self, name: str, value: str) -> None:
        with self.writing() as connection:
            put_state(connection, name, value)
