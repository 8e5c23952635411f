"""The table that shares of a window lie on until somebody has worked them off.

A worker that takes a share locks its row for as long as it works on it: one transaction, from taking to answering. When
the worker dies, its connection ends, the lock goes, and the share is there for the next one. Nobody has to notice.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from typing import Final

import sqlalchemy as sql

from llmprism.errors import LLMPrismError, StoreError
from llmprism.service.database import translated
from llmprism.service.workers import coordinator_tables
from llmprism.service.workers.locks import watchful
from llmprism.service.workers.shared_store import NOW_NS, SharedStore
from llmprism.service.workers.shares import Share, decode_share, encode_share

__all__ = ["FAILED", "Desk"]

log = logging.getLogger(__name__)

PAUSE_S: Final = 0.05
"""Between two looks at the table while others finish their shares."""

FAILED: Final = "!"
"""The first character of an answer that is an error; JSON never begins so."""

Work = Callable[[Share], str]


class Desk:
    """One per process. `work` makes the answer to a share."""

    def __init__(self, store: SharedStore, work: Work) -> None:
        self._store = store
        self._work = work
        self.done = 0

    def work_off(self, shares: Sequence[Share]) -> list[str]:
        """The leader's side: lays the shares out, works along, and returns all answers in the order of the shares."""
        if len(shares) == 1:
            return [self._answer(shares[0])]
        number = self._lay_out(shares)
        while True:
            if self.help_once():
                continue
            answers = self._answers(number)
            if None not in answers:
                break
            if not self._store.lead():
                raise StoreError("this worker leads no more")
            time.sleep(PAUSE_S)
        return [answer for answer in answers if answer is not None]

    def _lay_out(self, shares: Sequence[Share]) -> int:
        """A new round. Older ones go, except for shares at which somebody still works in vain."""
        table = coordinator_tables.shares
        with self._store.writing() as connection:
            idle = sql.select(table.c.round, table.c.number).with_for_update(skip_locked=True)
            for row in connection.execute(idle).all():
                connection.execute(table.delete().where((table.c.round == row.round) & (table.c.number == row.number)))
            number = int(connection.execute(sql.select(NOW_NS)).scalar() or 0)
            rows = [
                {"round": number, "number": index, "records": share.records, "document": encode_share(share)}
                for index, share in enumerate(shares)
            ]
            connection.execute(table.insert(), rows)
        return number

    def _answers(self, number: int) -> list[str | None]:
        table = coordinator_tables.shares
        with self._store.reading() as connection:
            query = sql.select(table.c.piece).where(table.c.round == number).order_by(table.c.number)
            return list(connection.execute(query).scalars())

    def help_once(self) -> bool:
        """Works off the largest share that nobody works at; False where there is none."""
        table = coordinator_tables.shares
        waiting = (
            sql.select(table)
            .where(table.c.piece.is_(None))
            .order_by(table.c.round.desc(), table.c.records.desc(), table.c.number)
            .limit(1)
            .with_for_update(skip_locked=True)
        )
        with translated(), self._store.engine.connect() as connection, connection.begin():
            row = connection.execute(waiting).first()
            if row is None:
                return False
            watchful(connection)
            answer = self._answer(decode_share(row.document))
            mine = (table.c.round == row.round) & (table.c.number == row.number)
            connection.execute(table.update().where(mine).values(piece=answer, worker=self._store.name))
        self.done += 1
        return True

    def _answer(self, share: Share) -> str:
        """What the records say, or why they cannot be diagnosed: one share that the methods stumble over must not stop
        the window. A store or a folder that does not answer is no answer: somebody will try again."""
        try:
            return self._work(share)
        except (StoreError, OSError):
            raise
        except (LLMPrismError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            log.exception("a share could not be diagnosed", extra={"end_ns": share.window.end_ns})
            return f"{FAILED}{type(error).__name__}"
