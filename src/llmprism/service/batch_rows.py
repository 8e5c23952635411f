"""A batch of records as rows: its segment, its counts, its source's positions, and that it was committed."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from llmprism.ingest.accept import Accepted
from llmprism.service import schema
from llmprism.service.clock_of_source import Clock
from llmprism.service.rows import add_counts, get_state, put_position, put_state, raise_mark, upsert_all

__all__ = ["Batch", "Segment", "SourceBatch", "write_batch"]

REMEMBERED_BATCHES_NS: Final = 3_600 * 10**9
"""A batch is retried within seconds; an hour is plenty to recognise it."""

_ADD_BATCH: Final = schema.batches.insert()
_ADD_SEGMENT: Final = schema.segments.insert()
_FORGET_BATCHES: Final = schema.batches.delete().where(schema.batches.c.wall_ns < sql.bindparam("before_ns"))


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
class SourceBatch:
    """What one source has of a batch; `positions` are (name, value), kept under `positions_of` where that is not the
    source itself."""

    source: str
    accepted: Accepted
    positions: tuple[tuple[str, str], ...] = ()
    positions_of: str = ""


@dataclass(frozen=True, slots=True)
class Batch:
    """`file` is the finished segment, None where nothing was stored. `mark_ns` is the watermark after it (0: the end
    of its last record), `clocks` those that it has changed."""

    id: str
    parts: tuple[SourceBatch, ...]
    file: Path | None
    wall_ns: int
    mark_ns: int = 0
    clocks: tuple[Clock, ...] = ()

    @property
    def stored(self) -> int:
        return sum(part.accepted.stored for part in self.parts)

    @property
    def end_ns(self) -> int:
        return max((part.accepted.end_ns for part in self.parts), default=0)

    @property
    def first_end_ns(self) -> int:
        found = [part.accepted.first_end_ns or part.accepted.start_ns for part in self.parts if part.accepted.stored]
        return min(found, default=0)

    def mark_after(self, before_ns: int) -> int:
        """The watermark when it is committed, where it was this one before."""
        return before_ns if self.file is None else self.mark_ns or max(before_ns, self.end_ns)


def write_batch(connection: Connection, flows: Path, batch: Batch) -> None:
    """All that a batch leaves behind; `flows` is the folder of the segments."""
    connection.execute(_ADD_BATCH, {"id": batch.id, "wall_ns": batch.wall_ns})
    connection.execute(_FORGET_BATCHES, {"before_ns": batch.wall_ns - REMEMBERED_BATCHES_NS})
    if batch.file is not None:
        _add_segment(connection, batch, str(batch.file.relative_to(flows)))
    for part in batch.parts:
        _write_part(connection, part, batch.wall_ns)
    clocks = [
        {
            "source": clock.source,
            "exporter": clock.exporter,
            "wall_ns": batch.wall_ns,
            "document": json.dumps(asdict(clock), separators=(",", ":")),
        }
        for clock in batch.clocks
    ]
    upsert_all(connection, schema.clocks, clocks, ["source", "exporter"])


def _write_part(connection: Connection, part: SourceBatch, wall_ns: int) -> None:
    for name, value in part.positions:
        put_position(connection, part.positions_of or part.source, name, value, wall_ns)
    accepted = part.accepted
    counts = [("received", "", accepted.records), ("stored", "", accepted.stored)]
    counts += [("late", "", accepted.late), ("unseen", "", accepted.unseen)]
    counts += [("dropped", reason, count) for reason, count in accepted.dropped]
    add_counts(connection, part.source, counts)
    if accepted.stored:
        raise_mark(connection, part.source, "latest_ns", accepted.end_ns)


def _add_segment(connection: Connection, batch: Batch, path: str) -> None:
    """The segment with the watermark after it. A watermark that goes back takes those before it along: a window must
    not be made of the few segments that came before a wrong time was found out."""
    before = int(get_state(connection, "watermark") or 0)
    mark = batch.mark_after(before)
    if mark < before:
        table = schema.segments
        connection.execute(table.update().where(table.c.watermark_ns > mark).values(watermark_ns=mark))
    row = {"path": path, "records": batch.stored, "start_ns": batch.first_end_ns, "end_ns": batch.end_ns}
    connection.execute(_ADD_SEGMENT, {**row, "watermark_ns": mark, "wall_ns": batch.wall_ns})
    put_state(connection, "watermark", str(mark))
