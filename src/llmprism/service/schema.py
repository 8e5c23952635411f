"""The tables. Times are event times in ns unless the name says `wall`; texts named `document` hold JSON.

Everything that one batch or one window changes is written in one transaction: a crash leaves all of it or none.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text

__all__ = [
    "SCHEMA_VERSION",
    "batches",
    "counters",
    "findings",
    "metadata",
    "outbox",
    "positions",
    "runs",
    "segments",
    "state",
    "steps",
    "transitions",
    "windows",
]

SCHEMA_VERSION: Final = 1

metadata = MetaData()

state = Table("state", metadata, Column("name", String(64), primary_key=True), Column("value", Text, nullable=False))

segments = Table(
    "segments",
    metadata,
    Column("seq", Integer, primary_key=True, autoincrement=True),
    Column("path", String(255), nullable=False, unique=True),
    Column("records", BigInteger, nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("watermark_ns", BigInteger, nullable=False),
    Column("wall_ns", BigInteger, nullable=False),
    Index("segments_by_end", "end_ns"),
)
"""`watermark_ns` is the latest record end of this and all earlier segments."""

batches = Table(
    "batches",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("wall_ns", BigInteger, nullable=False),
)
"""Batches that were committed, also those that left no segment: a retry after a lost answer finds itself here."""

positions = Table(
    "positions",
    metadata,
    Column("source", String(128), primary_key=True),
    Column("name", String(512), primary_key=True),
    Column("value", String(128), nullable=False),
    Column("wall_ns", BigInteger, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("source", String(128), primary_key=True),
    Column("name", String(32), primary_key=True),
    Column("reason", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

windows = Table(
    "windows",
    metadata,
    Column("end_ns", BigInteger, primary_key=True, autoincrement=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("through_seq", Integer, nullable=False),
    Column("wall_ns", BigInteger, nullable=False),
    Column("took_ms", Integer, nullable=False),
    Column("document", Text, nullable=False),
)

runs = Table(
    "runs",
    metadata,
    Column("id", String(64), primary_key=True),
    Column("state", String(16), nullable=False),
    Column("first_ns", BigInteger, nullable=False),
    Column("seen_ns", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Index("runs_by_seen", "seen_ns"),
)

transitions = Table(
    "transitions",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("run", String(64), nullable=False),
    Column("at_ns", BigInteger, nullable=False),
    Column("told_ns", BigInteger, nullable=False),
    Column("old", String(16)),
    Column("new", String(16), nullable=False),
    Column("why", Text, nullable=False),
    Index("transitions_by_run", "run", "at_ns"),
    Index("transitions_by_time", "told_ns"),
)

steps = Table(
    "steps",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("number", Integer, primary_key=True),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger, nullable=False),
    Column("setup", Integer, nullable=False),
    Index("steps_by_end", "end_ns"),
)

findings = Table(
    "findings",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run", String(64)),
    Column("kind", String(32), nullable=False),
    Column("phase", String(16), nullable=False),
    Column("start_ns", BigInteger, nullable=False),
    Column("end_ns", BigInteger),
    Column("opened_ns", BigInteger, nullable=False),
    Column("closed_ns", BigInteger, nullable=False),
    Column("updated_ns", BigInteger, nullable=False),
    Column("lost_gpu_seconds", Float, nullable=False),
    Column("document", Text, nullable=False),
    Index("findings_by_time", "start_ns"),
    Index("findings_by_phase", "phase"),
)

outbox = Table(
    "outbox",
    metadata,
    Column("id", Integer, primary_key=True, autoincrement=True),
    Column("target", String(128), nullable=False),
    Column("finding", String(32), nullable=False),
    Column("event", String(16), nullable=False),
    Column("status", String(16), nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("due_wall_ns", BigInteger, nullable=False),
    Column("wall_ns", BigInteger, nullable=False),
    Column("error", Text, nullable=False),
    Column("document", Text, nullable=False),
    Index("outbox_by_due", "status", "due_wall_ns"),
)
"""Messages to be sent, one row per target and event. `status`: waiting, sent or dead (the dead-letter record)."""
