"""A batch of records as rows: its segment, its counts, its source's positions, and that it was committed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from llmprism.ingest.accept import Accepted
from llmprism.service import schema
from llmprism.service.rows import add_counts, get_state, put_position, put_state, raise_mark

__all__ = ["Batch", "Segment", "write_batch"]

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


def write_batch(connection: Connection, flows: Path, batch: Batch) -> None:
    """All that a batch leaves behind; `flows` is the folder of the segments."""
    connection.execute(schema.batches.insert().values(id=batch.id, wall_ns=batch.wall_ns))
    old = schema.batches.c.wall_ns < batch.wall_ns - REMEMBERED_BATCHES_NS
    connection.execute(schema.batches.delete().where(old))
    if batch.file is not None:
        _add_segment(connection, batch, str(batch.file.relative_to(flows)))
    for name, value in batch.positions:
        put_position(connection, batch.source, name, value, batch.wall_ns)
    accepted = batch.accepted
    counts = [("received", "", accepted.records), ("stored", "", accepted.stored), ("late", "", accepted.late)]
    counts += [("dropped", reason, count) for reason, count in accepted.dropped]
    add_counts(connection, batch.source, counts)
    if accepted.stored:
        raise_mark(connection, batch.source, "latest_ns", accepted.end_ns)


def _add_segment(connection: Connection, batch: Batch, path: str) -> None:
    accepted = batch.accepted
    before = connection.execute(sql.select(sql.func.max(schema.segments.c.watermark_ns))).scalar() or 0
    mark = max(int(before), int(get_state(connection, "watermark") or 0), accepted.end_ns)
    connection.execute(
        schema.segments.insert().values(
            path=path,
            records=accepted.stored,
            start_ns=accepted.start_ns,
            end_ns=accepted.end_ns,
            watermark_ns=mark,
            wall_ns=batch.wall_ns,
        )
    )
    put_state(connection, "watermark", str(mark))
