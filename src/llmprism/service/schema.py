"""The tables. Times are event times in ns unless the name says `wall`; texts named `document` hold JSON.

Everything that one batch or one window changes is written in one transaction: a crash leaves all of it or none.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import BigInteger, Column, Float, Index, Integer, MetaData, String, Table, Text

__all__ = [
    "SCHEMA_VERSION",
    "WIDENED",
    "batches",
    "clocks",
    "counters",
    "findings",
    "metadata",
    "outbox",
    "positions",
    "run_logs",
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
"""`start_ns` is when its first record ends, `end_ns` when its last does; `watermark_ns` is how far the sources that
agree had come when it was committed."""

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
    Column("source", Text, primary_key=True),
    Column("name", Text, primary_key=True),
    Column("value", String(128), nullable=False),
    Column("wall_ns", BigInteger, nullable=False),
)

counters = Table(
    "counters",
    metadata,
    Column("source", Text, primary_key=True),
    Column("name", String(32), primary_key=True),
    Column("reason", String(64), primary_key=True),
    Column("value", BigInteger, nullable=False),
)

clocks = Table(
    "clocks",
    metadata,
    Column("source", Text, primary_key=True),
    Column("exporter", Text, primary_key=True),
    Column("wall_ns", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)
"""What is known of the clock of every source and exporter (`clocks.Clock`), for the next start and for the page."""

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

run_logs = Table(
    "run_logs",
    metadata,
    Column("run", String(64), primary_key=True),
    Column("seen_ns", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
)
"""How the logs of a run were last read: who is who, clocks, and lines about trouble at their times."""

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
    Column("target", Text, nullable=False),
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

WIDENED: Final = (("positions", "source"), ("positions", "name"), ("counters", "source"), ("outbox", "target"))
"""Columns that earlier versions made too narrow for long addresses and paths; PostgreSQL enforces their lengths."""
