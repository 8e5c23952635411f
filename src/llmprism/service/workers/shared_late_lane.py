"""Windows of the partitions that come late, among several workers: the leader's second lane.

A topic whose producer delivers files of minutes is minutes behind the others. Its partitions are not waited for by the
windows of the others, and its segments are looked at in windows of their own (`service.late_lane`), which the leader
plans behind their own watermark; the shares of these windows lie on the same table as all others. Everything is written
through the connection that holds the leader's lock, as in the first lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import sqlalchemy as sql
from sqlalchemy.engine import Connection

from llmprism.model.flows import Window
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.service.clock_of_source import Clock
from llmprism.service.clocks import declared_late
from llmprism.service.config import Config
from llmprism.service.late_lane import LateView, without_streamed
from llmprism.service.rules.configured import rules_of
from llmprism.service.workers.desk import Desk
from llmprism.service.workers.shared_evaluator import SharedEvaluator
from llmprism.service.workers.shared_store import SharedStore
from llmprism.service.workers.shares import Share

__all__ = ["SharedLateEvaluator", "SharedLateStore"]


class SharedLateStore(LateView):
    """The late sources in the store of a worker that leads; it writes through that store."""

    def __init__(self, store: SharedStore, config: Config, now_ns: Callable[[], int] = time.time_ns) -> None:
        super().__init__(config.store)
        super().close()
        self._shared = store
        self._engine: sql.Engine = store.engine
        self.view(now_ns, rules_of(config).clocks)

    def clocks(self) -> dict[tuple[str, str], Clock]:
        """Those of the sources that are said to come late; of a partition that nobody read for a while nothing else is
        known than that it is behind."""
        return {key: clock for key, clock in super().clocks().items() if declared_late(clock.source, self._rules)}

    @contextmanager
    def writing(self) -> Iterator[Connection]:
        with self._shared.writing() as connection:
            yield connection

    def close(self) -> None:
        """The connections are those of the other store."""


class SharedLateEvaluator(SharedEvaluator):
    """`advance` makes the next due window of the late sources, if there is one."""

    def __init__(self, store: SharedLateStore, config: Config, desk: Desk) -> None:
        super().__init__(store, config, desk)
        self._late = store
        self._logs = None  # logs are read by the other lane

    def _idle_ns(self, latest: int, wall: int) -> int:  # noqa: ARG002 - between two files time stands still
        return 0

    def _shared_report(self, shares: list[Share], window: Window, topology: Topology | None) -> tuple[Report, str]:
        report, note = super()._shared_report(shares, window, topology)
        return without_streamed(report, self._late.members_of_streams(window), self._rules), note
