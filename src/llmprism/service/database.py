"""The database behind the store: SQLite in WAL mode or PostgreSQL, opened alike, with errors translated."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Engine, make_url
from sqlalchemy.exc import ArgumentError, SQLAlchemyError

from llmprism.errors import ConfigError, StoreError

__all__ = ["open_engine", "sync_file", "translated"]

BUSY_MS: Final = 30_000
"""How long one process waits for the other's write transaction; those last milliseconds."""


def open_engine(url: str) -> Engine:
    try:
        address = make_url(url)
        name = address.get_backend_name()
        if name not in ("sqlite", "postgresql"):
            raise ConfigError(f"store.url: {name} is not supported; use sqlite or postgresql")
        if name == "postgresql":
            if address.drivername == "postgresql":
                address = address.set(drivername="postgresql+psycopg")
            return sql.create_engine(address, pool_pre_ping=True, connect_args={"connect_timeout": 5})
        engine = sql.create_engine(address, connect_args={"timeout": BUSY_MS / 1000, "check_same_thread": False})
    except (ArgumentError, ImportError, ValueError) as error:
        raise ConfigError(f"store.url: {error}") from None
    sql.event.listen(engine, "connect", _pragmas)
    sql.event.listen(engine, "begin", _begin)
    return engine


def _pragmas(connection: Any, _record: object) -> None:
    connection.isolation_level = None
    cursor = connection.cursor()
    for pragma in ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", f"busy_timeout={BUSY_MS}"):
        cursor.execute(f"PRAGMA {pragma}")
    cursor.close()


def _begin(connection: Connection) -> None:
    """A reader that turns writer can meet another process's write and fail at once; a writer says so and waits."""
    writes = connection.get_execution_options().get("write", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


@contextmanager
def translated() -> Iterator[None]:
    try:
        yield
    except SQLAlchemyError as error:
        reason = getattr(error, "orig", None) or error
        raise StoreError(f"the store does not answer ({' '.join(str(reason).split())[:200]})") from error


def sync_file(path: Path) -> None:
    """Makes a finished file and its name survive a power cut."""
    for target in (path, path.parent):
        descriptor = os.open(target, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
