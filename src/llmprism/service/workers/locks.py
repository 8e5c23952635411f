"""Advisory locks of PostgreSQL, held by one connection: whoever loses the connection has lost the locks with it.

A killed process loses its connections at once; of a machine that vanishes, the database hears within half a minute
through keepalives; a frozen process is shown the door after `FROZEN_S`. So nothing here has to be released by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import sqlalchemy as sql
from sqlalchemy.engine import Connection, Engine

from llmprism.errors import StoreError
from llmprism.service.database import translated

__all__ = ["CREATE", "DUTY", "FAMILY", "LEADER", "HeldLocks", "name_lock", "watchful"]

FAMILY: Final = 0x4C4C4D50
"""The first half of all our lock numbers ("LLMP")."""

LEADER: Final = 1
DUTY: Final = 2
CREATE: Final = 3
_NAMES: Final = 1 << 16
"""Numbers of worker names begin here."""

FROZEN_S: Final = 300
"""A session that says nothing for so long is ended: far longer than a share of the most records that a window may hold
takes (six million: some twenty seconds)."""

_WATCHFUL: Final = (
    "SET tcp_keepalives_idle = 10",
    "SET tcp_keepalives_interval = 5",
    "SET tcp_keepalives_count = 3",
    f"SET idle_session_timeout = '{FROZEN_S}s'",
    f"SET idle_in_transaction_session_timeout = '{FROZEN_S}s'",
)


def watchful(connection: Connection) -> None:
    """Makes the database notice soon that the other end of this connection is gone."""
    for setting in _WATCHFUL:
        connection.exec_driver_sql(setting)


def name_lock(name: str) -> int:
    """The lock of a worker's name."""
    number = 2166136261
    for byte in name.encode():
        number = (number ^ byte) * 16777619 % 2**31
    return _NAMES + number % (2**31 - _NAMES)


class HeldLocks:
    """Not safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._held: set[int] = set()
        self.connection: Connection | None = None

    def hold(self, key: int) -> bool:
        """True while this process has the lock; takes it where it is free. Raises StoreError, and has lost all
        locks, where the database does not answer."""
        try:
            with translated():
                return self._hold(key)
        except StoreError:
            self.release()
            raise

    def _hold(self, key: int) -> bool:
        if self.connection is None:
            self.connection = self._engine.connect()
            watchful(self.connection)
        if self.connection.invalidated:
            raise StoreError("the connection that held the locks was lost")
        if key in self._held:
            self.connection.execute(sql.select(1))
        elif self.connection.execute(sql.select(sql.func.pg_try_advisory_lock(FAMILY, key))).scalar():
            self._held.add(key)
        self.connection.commit()
        return key in self._held

    def holds(self, key: int) -> bool:
        """Whether the lock was held when the database last answered."""
        return key in self._held

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        """A transaction on the connection that holds the locks: it succeeds only while they are held. (A connection
        that was lost would silently be made anew, without them.)"""
        try:
            with translated():
                if self.connection is None or self.connection.invalidated:
                    raise StoreError("the connection that held the locks was lost")
                with self.connection.begin():
                    yield self.connection
        except StoreError:
            self.release()
            raise

    def release(self) -> None:
        """Gives all locks back with the connection, whatever its state."""
        self._held.clear()
        if self.connection is not None:
            self.connection.invalidate()
            self.connection.close()
            self.connection = None
