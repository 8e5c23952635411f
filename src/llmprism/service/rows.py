"""Small things that every writer of the store needs, inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sql
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Connection

from llmprism.service import schema

Counts = Sequence[tuple[str, str, int]]
"""(name, reason, how many more)."""

Positions = Sequence[tuple[str, str]]
"""(name, value): how far a source was read."""

__all__ = [
    "Counts",
    "Positions",
    "add_counts",
    "expire_sources",
    "get_state",
    "put_position",
    "put_state",
    "raise_mark",
    "upsert",
]


def _insert(connection: Connection, table: sql.Table) -> Any:
    return sqlite.insert(table) if connection.dialect.name == "sqlite" else postgresql.insert(table)


def upsert(connection: Connection, table: sql.Table, values: Mapping[str, Any], keys: list[str]) -> None:
    """Inserts a row, or replaces the one with the same keys."""
    insert = _insert(connection, table).values(**values)
    update = {name: insert.excluded[name] for name in values if name not in keys}
    connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=update))


def get_state(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(sql.select(schema.state.c.value).where(schema.state.c.name == name)).scalar()
    return found


def put_state(connection: Connection, name: str, value: str) -> None:
    upsert(connection, schema.state, {"name": name, "value": value}, ["name"])


def put_position(connection: Connection, source: str, name: str, value: str, wall_ns: int) -> None:
    row = {"source": source, "name": name, "value": value, "wall_ns": wall_ns}
    upsert(connection, schema.positions, row, ["source", "name"])


def add_counts(connection: Connection, source: str, counts: Counts) -> None:
    """Adds (name, reason, how many more) to a source's counters."""
    rows = [
        {"source": source, "name": name, "reason": reason, "value": value} for name, reason, value in counts if value
    ]
    if rows:
        table = schema.counters
        insert = _insert(connection, table)
        total = {"value": table.c.value + insert.excluded.value}
        keys = [table.c.source, table.c.name, table.c.reason]
        connection.execute(insert.on_conflict_do_update(index_elements=keys, set_=total), rows)


def raise_mark(connection: Connection, source: str, name: str, value: int) -> None:
    """Sets a source's mark to this value unless it is higher already."""
    table = schema.counters
    insert = _insert(connection, table).values(source=source, name=name, reason="", value=value)
    higher = sql.case((insert.excluded.value > table.c.value, insert.excluded.value), else_=table.c.value)
    connection.execute(
        insert.on_conflict_do_update(
            index_elements=[table.c.source, table.c.name, table.c.reason], set_={"value": higher}
        )
    )


def expire_sources(connection: Connection, before_ns: int) -> None:
    """Forgets clocks, positions and counters of producers that were not heard of since. Their counts go to `http`, so
    that the sums stay; positions of files and partitions are kept by their sources."""
    clocks, counters = schema.clocks, schema.counters
    old = clocks.c.wall_ns < before_ns
    gone = set(connection.execute(sql.select(clocks.c.source).where(old)).scalars())
    gone -= set(connection.execute(sql.select(clocks.c.source).where(~old)).scalars())
    for source in sorted(name for name in gone if name.startswith("http:")):
        rows = connection.execute(sql.select(counters).where(counters.c.source == source)).all()
        add_counts(connection, "http", [(row.name, row.reason, row.value) for row in rows if row.name != "latest_ns"])
        connection.execute(counters.delete().where(counters.c.source == source))
    connection.execute(clocks.delete().where(old))
    positions = schema.positions
    stale = (positions.c.source == "http") & (positions.c.wall_ns < before_ns)
    connection.execute(positions.delete().where(stale))
