"""A worker's second process: makes the windows while it leads, and helps whoever leads otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from llmprism.model.flows import InputCounts
from llmprism.model.report import Report
from llmprism.pipeline import diagnose
from llmprism.service.config import Config
from llmprism.service.layout_memory import LayoutMemory
from llmprism.service.rules.configured import rules_of
from llmprism.service.topology_file import TopologyFile
from llmprism.service.workers.desk import Desk
from llmprism.service.workers.share_reports import encode_share_report
from llmprism.service.workers.shared_evaluator import SharedEvaluator
from llmprism.service.workers.shared_late_lane import SharedLateEvaluator, SharedLateStore
from llmprism.service.workers.shared_store import SharedStore
from llmprism.service.workers.shares import Share, read_share

__all__ = ["Worker"]

log = logging.getLogger(__name__)

GREET_S: Final = 1.0


class Worker:
    """`advance` does the next thing there is to do; False where there is nothing."""

    def __init__(
        self,
        store: SharedStore,
        config: Config,
        now_s: Callable[[], float] = time.monotonic,
        now_ns: Callable[[], int] = time.time_ns,
    ) -> None:
        self._store = store
        self._store.late = False  # those that come late have a lane of their own
        self._config = config
        self._now_s = now_s
        self._now_ns = now_ns
        self._topology = TopologyFile(config.topology.file)
        self._desk = Desk(store, self.answer)
        self._lanes: tuple[SharedEvaluator, ...] = ()
        self._layouts = LayoutMemory(rules_of(config))
        self._greeted_s = float("-inf")

    def advance(self) -> bool:
        leads = self._store.lead()
        if leads and not self._lanes:
            log.info("this worker leads", extra={"worker": self._store.name})
            late = SharedLateStore(self._store, self._config, self._now_ns)
            self._lanes = (
                SharedEvaluator(self._store, self._config, self._desk),
                SharedLateEvaluator(late, self._config, self._desk),
            )
        if not leads:
            self._lanes = ()
        self._greet(leads)
        if not self._lanes:
            return self._desk.help_once()
        made = [lane.advance() for lane in self._lanes]
        return any(made)

    def _greet(self, leads: bool) -> None:
        if self._now_s() - self._greeted_s >= GREET_S:
            self._greeted_s = self._now_s()
            self._store.greet("evaluator", {"leads": leads, "shares": self._desk.done})

    def answer(self, share: Share) -> str:
        """The report of a share, as text."""
        topology = self._topology.refresh()
        flows = read_share(self._store.flows, share)
        if flows is None:
            return encode_share_report(Report(share.window, InputCounts(0, 0), (), (), ()))
        self._layouts.begin(share.window, dict(share.steps))
        report = diagnose(
            flows,
            topology,
            with_events=False,
            with_facts=False,
            window=share.window,
            find_layout=self._layouts.layout_of,
        )
        self._layouts.end(report)
        return encode_share_report(report, member_ends=self._config.job_logs.enabled)
