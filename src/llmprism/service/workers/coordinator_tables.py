"""The coordinator's tables, in addition to those of `schema`. All times are the database's own clock, in ns."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, MetaData, String, Table, Text

__all__ = ["metadata", "partitions", "shares", "workers"]

metadata = MetaData()

partitions = Table(
    "partitions",
    metadata,
    Column("source", String(128), primary_key=True),
    Column("position", BigInteger, nullable=False),
    Column("owner", String(128), nullable=False),
    Column("latest_ns", BigInteger, nullable=False),
    Column("stored_wall_ns", BigInteger, nullable=False),
    Column("empty_wall_ns", BigInteger, nullable=False),
)
"""One row per partition. `position`: the next offset to be read, -1 before the first batch. `latest_ns`: the latest end
of its records (event time). `empty_wall_ns`: when its owner last saw that there is nothing more to read."""

shares = Table(
    "shares",
    metadata,
    Column("round", BigInteger, primary_key=True, autoincrement=False),
    Column("number", Integer, primary_key=True),
    Column("records", BigInteger, nullable=False),
    Column("document", Text, nullable=False),
    Column("piece", Text),
    Column("worker", String(128)),
    prefixes=["UNLOGGED"],
)
"""The shares of the window at hand. `piece` is the answer; while a worker makes it, the row is locked.
Nothing here must survive the database itself, so it costs no log."""

workers = Table(
    "workers",
    metadata,
    Column("name", String(128), primary_key=True),
    Column("version", String(32), nullable=False),
    Column("seen_wall_ns", BigInteger, nullable=False),
    Column("intake", Text, nullable=False, server_default="{}"),
    Column("evaluator", Text, nullable=False, server_default="{}"),
)
"""`intake` and `evaluator` are what the two processes of a worker say of themselves, as JSON."""
