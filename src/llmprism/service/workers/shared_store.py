"""The store of workers that share it: PostgreSQL, and one folder that all of them see.

A batch moves its partition's position only where it joins on: the row still holds the offset that the batch began at,
checked and moved in the transaction that stores the records. So whatever Kafka believes about who owns a partition,
every offset is stored once. A batch that does not join on is dropped (another worker has stored those records already,
or will), and counted in `fenced`.

While this process leads, all its writes go through the connection that holds the leader's lock: a leader that has lost
the lock cannot write any more.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql
from sqlalchemy.engine import Connection

from llmprism import __version__
from llmprism.model.topology import Topology
from llmprism.service import schema
from llmprism.service.batch_rows import write_batch
from llmprism.service.clocks import declared_late
from llmprism.service.config import Config
from llmprism.service.rows import Counts, Positions, add_counts, upsert
from llmprism.service.rules.configured import rules_of
from llmprism.service.store import Batch, Store, create_tables
from llmprism.service.topology_file import TopologyFile
from llmprism.service.workers import coordinator_tables
from llmprism.service.workers.locks import CREATE, FAMILY, LEADER, HeldLocks
from llmprism.service.workers.places import address_places, mark_places
from llmprism.units import SECOND

__all__ = ["UNREAD", "PartitionMark", "SharedStore", "awaited", "common_mark"]

UNREAD: Final = -1
"""The position of a partition of which nothing was stored yet."""

AFFIRMED_NS: Final = 5 * SECOND
"""An owner says every second that its partition is empty; one that has not said so for this long may be dead."""

PRESENT_NS: Final = 10 * SECOND
"""A worker that was not seen for so long is counted as gone."""

FORGOTTEN_NS: Final = 86_400 * SECOND

ORPHAN_S: Final = 3_600
"""A segment that no row names after an hour will not be named any more: its worker died before the commit."""

NOW_NS: Final = sql.cast(sql.func.extract("epoch", sql.func.clock_timestamp()) * SECOND, sql.BigInteger)


@dataclass(frozen=True, slots=True)
class PartitionMark:
    """How far a partition has come (event time), and whether more is to be expected of it."""

    latest_ns: int
    stored_wall_ns: int
    empty_wall_ns: int


def awaited(marks: Sequence[PartitionMark], now_ns: int, idle_after_ns: int) -> list[PartitionMark]:
    """The partitions that windows have to wait for.

    Not those whose owner just affirmed that they are empty and that have brought nothing for a while. But those without
    a living owner: their records are still in Kafka, and somebody will read them.
    """
    return [
        mark
        for mark in marks
        if now_ns - mark.empty_wall_ns >= AFFIRMED_NS or now_ns - mark.stored_wall_ns < idle_after_ns
    ]


def common_mark(marks: Sequence[PartitionMark], now_ns: int, idle_after_ns: int) -> int:
    """The event time that all partitions have reached; 0 where one that is waited for has not been read yet."""
    waited_for = awaited(marks, now_ns, idle_after_ns)
    if waited_for:
        return min(mark.latest_ns for mark in waited_for)
    return max((mark.latest_ns for mark in marks), default=0)


def _reached(batch: Batch) -> int:
    """How far a batch takes its partition: as far as the clocks in it, where they were judged."""
    return max((clock.latest_ns for clock in batch.clocks), default=batch.end_ns)


class SharedStore(Store):
    """One per process of a worker; safe to use from several threads, `lead` from one."""

    mixes_sources = False

    def __init__(self, config: Config) -> None:
        super().__init__(config.store)
        self.name = config.workers.name
        self._idle_after_ns = int(min(config.windows.idle_after_s, 1e9) * SECOND)
        self._rules = rules_of(config).clocks
        self._locks = HeldLocks(self._engine)
        self._topology = TopologyFile(config.topology.file)
        self._placed: tuple[Topology | None, dict[str, int | None]] = (None, {})
        self.folder = self.folder / "workers" / self.name
        self.incoming = self.folder / "incoming"
        self.incoming.mkdir(parents=True, exist_ok=True)
        self.fenced = 0

    @property
    def engine(self) -> sql.Engine:
        return self._engine

    def create(self) -> None:
        """Makes the tables where they are absent. Files are swept by whoever is on duty (`sweep`)."""
        with self.writing() as connection:
            connection.execute(sql.select(sql.func.pg_advisory_xact_lock(FAMILY, CREATE)))
            create_tables(connection)
            coordinator_tables.metadata.create_all(connection)

    def close(self) -> None:
        self._locks.release()
        super().close()

    # -- leading ------------------------------------------------------------------------------------------------

    def lead(self) -> bool:
        """True while this process leads; tries to where nobody does."""
        return self._locks.hold(LEADER)

    @property
    def leads(self) -> bool:
        return self._locks.holds(LEADER)

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        if not self.leads:
            with super().writing() as connection:
                yield connection
            return
        with self._lock, self._locks.writing() as connection:
            yield connection

    # -- batches and partitions ---------------------------------------------------------------------------------

    def register(self, sources: Iterable[str]) -> None:
        """Makes the partitions known, so that windows wait for all of them. One that is new counts as having brought
        something just now: its first records may lie far back, although it is empty at first."""
        with self.writing() as connection:
            for source in sorted(sources):
                row = {"source": source, "position": UNREAD, "owner": "", "latest_ns": 0}
                insert = postgresql.insert(coordinator_tables.partitions).values(
                    **row, stored_wall_ns=NOW_NS, empty_wall_ns=0
                )
                connection.execute(insert.on_conflict_do_nothing())

    def take_over(self, sources: Iterable[str]) -> dict[str, int]:
        """Partition → where to read on; this worker is their owner from now on."""
        table = coordinator_tables.partitions
        names = sorted(sources)
        self.register(names)
        with self.writing() as connection:
            for name in names:
                values = {"owner": self.name, "empty_wall_ns": 0}
                connection.execute(table.update().where(table.c.source == name).values(**values))
            query = sql.select(table.c.source, table.c.position).where(table.c.source.in_(names))
            return {row.source: row.position for row in connection.execute(query)}

    def affirm_empty(self, positions: Mapping[str, int]) -> None:
        """The owner says that nothing lies in these partitions beyond their positions."""
        table = coordinator_tables.partitions
        with self.writing() as connection:
            for source, position in sorted(positions.items()):
                mine = (table.c.source == source) & (table.c.owner == self.name) & (table.c.position == position)
                connection.execute(table.update().where(mine).values(empty_wall_ns=NOW_NS))

    def positions_of(self, sources: Iterable[str]) -> dict[str, int]:
        table = coordinator_tables.partitions
        with self.reading() as connection:
            query = sql.select(table.c.source, table.c.position).where(table.c.source.in_(sorted(sources)))
            return {row.source: row.position for row in connection.execute(query)}

    def commit_batch(self, batch: Batch) -> None:
        if batch.file is not None:
            mark_places(batch.file, self._places())
        with self.writing() as connection:
            source = batch.parts[0].source
            positions = [position for part in batch.parts for position in part.positions]
            end = self._joined(connection, source, positions)
            if end is not None:
                parts = tuple(replace(part, positions=()) for part in batch.parts)
                write_batch(connection, self.flows, replace(batch, parts=parts))
                self._advance(connection, source, end, _reached(batch))
                return
        if batch.file is not None:
            batch.file.unlink(missing_ok=True)

    def _places(self) -> dict[str, int | None]:
        """The places by the topology in force, made anew only when that changes."""
        topology = self._topology.refresh()
        if topology is not self._placed[0]:
            self._placed = (topology, address_places(topology))
        return self._placed[1]

    def add_counts(
        self,
        source: str,
        counts: Counts,
        positions: Positions = (),
        wall_ns: int = 0,
        positions_of: str = "",  # noqa: ARG002
    ) -> None:
        """Of pushes (`positions_of`) there are none: workers do not take them."""
        if not positions:
            super().add_counts(source, counts, (), wall_ns)
            return
        with self.writing() as connection:
            end = self._joined(connection, source, positions)
            if end is not None:
                add_counts(connection, source, counts)
                self._advance(connection, source, end, 0)

    def _joined(self, connection: Connection, source: str, positions: Positions) -> int | None:
        """The position after these ranges (`first:end`), None where the first does not begin at the stored one. The
        row stays locked until the transaction ends."""
        table = coordinator_tables.partitions
        query = sql.select(table.c.position).where(table.c.source == source).with_for_update()
        position = connection.execute(query).scalar()
        for _, span in positions:
            first, _, end = span.partition(":")
            if position is None or int(first) != position:
                self.fenced += 1
                return None
            position = int(end)
        return position

    def _advance(self, connection: Connection, source: str, position: int, latest_ns: int) -> None:
        table = coordinator_tables.partitions
        values = {"position": position, "stored_wall_ns": NOW_NS, "empty_wall_ns": 0}
        values["latest_ns"] = sql.func.greatest(table.c.latest_ns, latest_ns)
        connection.execute(table.update().where(table.c.source == source).values(**values))

    # -- what windows ask ---------------------------------------------------------------------------------------

    def watermark(self) -> tuple[int, int]:
        """(event time that all partitions have reached but for those that come late, wall time since when nothing is to
        be expected: now, while a partition is waited for, else that of the last segment)."""
        table = coordinator_tables.partitions
        columns = (table.c.source, table.c.latest_ns, table.c.stored_wall_ns, table.c.empty_wall_ns)
        with self.reading() as connection:
            rows = connection.execute(sql.select(*columns)).all()
            marks = [PartitionMark(*row[1:]) for row in rows if not declared_late(row.source, self._rules)]
            now = connection.execute(sql.select(NOW_NS)).scalar() or 0
            wall = connection.execute(sql.select(sql.func.max(schema.segments.c.wall_ns))).scalar()
        waiting = awaited(marks, now, self._idle_after_ns)
        return common_mark(marks, now, self._idle_after_ns), time.time_ns() if waiting else int(wall or 0)

    def passed_at(self, mark_ns: int) -> int:  # noqa: ARG002 - all partitions have passed it, so all that counts is there
        """The number of the last segment there is."""
        with self.reading() as connection:
            return int(connection.execute(sql.select(sql.func.max(schema.segments.c.seq))).scalar() or 0)

    def first_end(self) -> int | None:
        """The earliest start: commits of several workers come in any order."""
        with self.reading() as connection:
            found = connection.execute(
                sql.select(sql.func.min(schema.segments.c.start_ns)).where(self._shown())
            ).scalar()
            return None if found is None else int(found)

    # -- workers ------------------------------------------------------------------------------------------------

    def greet(self, process: Literal["intake", "evaluator"], document: Mapping[str, Any]) -> None:
        """Says that this process of the worker is alive, and what it does."""
        table = coordinator_tables.workers
        values = {"name": self.name, "version": __version__, "seen_wall_ns": NOW_NS, process: json.dumps(document)}
        with self.writing() as connection:
            upsert(connection, table, values, ["name"])
            connection.execute(table.delete().where(table.c.seen_wall_ns < NOW_NS - FORGOTTEN_NS))

    def workers(self) -> list[dict[str, Any]]:
        """All workers of the last day, by name. `present`: seen within the last seconds."""
        table = coordinator_tables.workers
        query = sql.select(table, (NOW_NS - table.c.seen_wall_ns).label("age_ns")).order_by(table.c.name)
        with self.reading() as connection:
            rows = connection.execute(query).all()
        return [
            {
                **json.loads(row.intake),
                **json.loads(row.evaluator),
                "name": row.name,
                "version": row.version,
                "present": row.age_ns < PRESENT_NS,
                "seen_s_ago": round(row.age_ns / SECOND, 1),
            }
            for row in rows
        ]

    def unread_partitions(self) -> list[str]:
        """Partitions of which nobody has stored anything or said that they are empty for some time."""
        table = coordinator_tables.partitions
        latest = sql.func.greatest(table.c.stored_wall_ns, table.c.empty_wall_ns)
        query = sql.select(table.c.source).where(latest < NOW_NS - 3 * PRESENT_NS).order_by(table.c.source)
        with self.reading() as connection:
            return list(connection.execute(query).scalars())

    def sweep(self) -> int:
        """Removes segments that a dead worker left without a row; returns how many."""
        with self.reading() as connection:
            named = set(connection.execute(sql.select(schema.segments.c.path)).scalars())
        old = time.time() - ORPHAN_S
        gone = [
            file
            for file in self.flows.rglob("*.parquet")
            if str(file.relative_to(self.flows)) not in named and _modified(file) < old
        ]
        for file in gone:
            file.unlink(missing_ok=True)
        return len(gone)


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:
        return time.time()
