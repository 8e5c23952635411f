"""Small things that every writer of the store needs, inside a transaction of the caller's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Final

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
    "upsert_all",
]


_STATE: Final = sql.select(schema.state.c.value).where(schema.state.c.name == sql.bindparam("wanted"))


def _insert(dialect: str, table: sql.Table) -> Any:
    return sqlite.insert(table) if dialect == "sqlite" else postgresql.insert(table)


@cache
def _upsert(dialect: str, table: sql.Table, names: tuple[str, ...], keys: tuple[str, ...]) -> Any:
    """Statements are made once: that takes ten times as long as running one."""
    insert = _insert(dialect, table)
    update = {name: insert.excluded[name] for name in names if name not in keys}
    return insert.on_conflict_do_update(index_elements=list(keys), set_=update)


def upsert(connection: Connection, table: sql.Table, values: Mapping[str, Any], keys: Sequence[str]) -> None:
    """Inserts a row, or replaces the one with the same keys. Values may be expressions, such as the database's time."""
    made = {name: value for name, value in values.items() if isinstance(value, sql.ClauseElement)}
    statement = _upsert(connection.dialect.name, table, tuple(values), tuple(keys))
    given = {name: value for name, value in values.items() if name not in made}
    connection.execute(statement.values(**made) if made else statement, given)


def upsert_all(
    connection: Connection, table: sql.Table, rows: Sequence[Mapping[str, Any]], keys: Sequence[str]
) -> None:
    """The same for rows of the same columns, of plain values."""
    if rows:
        connection.execute(_upsert(connection.dialect.name, table, tuple(rows[0]), tuple(keys)), list(rows))


def get_state(connection: Connection, name: str) -> str | None:
    found: str | None = connection.execute(_STATE, {"wanted": name}).scalar()
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
        connection.execute(_adding(connection.dialect.name), rows)


@cache
def _adding(dialect: str) -> Any:
    table = schema.counters
    insert = _insert(dialect, table)
    total = {"value": table.c.value + insert.excluded.value}
    return insert.on_conflict_do_update(index_elements=[table.c.source, table.c.name, table.c.reason], set_=total)


def raise_mark(connection: Connection, source: str, name: str, value: int) -> None:
    """Sets a source's mark to this value unless it is higher already."""
    row = {"source": source, "name": name, "reason": "", "value": value}
    connection.execute(_raising(connection.dialect.name), row)


@cache
def _raising(dialect: str) -> Any:
    table = schema.counters
    insert = _insert(dialect, table)
    higher = sql.case((insert.excluded.value > table.c.value, insert.excluded.value), else_=table.c.value)
    keys = [table.c.source, table.c.name, table.c.reason]
    return insert.on_conflict_do_update(index_elements=keys, set_={"value": higher})


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
