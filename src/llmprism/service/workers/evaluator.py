"""A worker's second process: makes the windows while it leads, and helps whoever leads otherwise."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final

from llmprism.model.flows import InputCounts, Window
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import diagnose
from llmprism.service.config import Config
from llmprism.service.evaluator import Evaluator, TopologyFile
from llmprism.service.store import Segment
from llmprism.service.workers.desk import Desk
from llmprism.service.workers.pieces import decode_piece, encode_piece, merge_reports
from llmprism.service.workers.shares import Share, plan_shares, read_share
from llmprism.service.workers.store import SharedStore

__all__ = ["SharedEvaluator", "Worker"]

log = logging.getLogger(__name__)

GREET_S: Final = 1.0


class SharedEvaluator(Evaluator):
    """Plans and closes windows as any evaluator does, and has their shares diagnosed by whoever has time."""

    def __init__(self, store: SharedStore, config: Config, desk: Desk) -> None:
        super().__init__(store, config)
        self._flows = store.flows
        self._desk = desk

    def _diagnosed(self, segments: list[Segment], window: Window, topology: Topology | None) -> Report:
        settings = self._config.workers
        paths = [str(segment.path.relative_to(self._flows)) for segment in segments]
        shares = plan_shares(self._flows, paths, window, topology, settings.share_records, settings.max_shares)
        pieces = self._desk.work_off(shares) if shares else []
        return merge_reports([decode_piece(piece, topology) for piece in pieces], window, topology)


class Worker:
    """`advance` does the next thing there is to do; False where there is nothing."""

    def __init__(self, store: SharedStore, config: Config, now_s: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._config = config
        self._now_s = now_s
        self._topology = TopologyFile(config.topology.file)
        self._desk = Desk(store, self.answer)
        self._leader: SharedEvaluator | None = None
        self._greeted_s = float("-inf")

    def advance(self) -> bool:
        leads = self._store.lead()
        if leads and self._leader is None:
            log.info("this worker leads", extra={"worker": self._store.name})
            self._leader = SharedEvaluator(self._store, self._config, self._desk)
        if not leads:
            self._leader = None
        self._greet(leads)
        return self._leader.advance() if self._leader is not None else self._desk.help_once()

    def _greet(self, leads: bool) -> None:
        if self._now_s() - self._greeted_s >= GREET_S:
            self._greeted_s = self._now_s()
            self._store.greet("evaluator", {"leads": leads, "shares": self._desk.done})

    def answer(self, share: Share) -> str:
        """The report of a share, as text."""
        topology = self._topology.refresh()
        flows = read_share(self._store.flows, share)
        if flows is None:
            return encode_piece(Report(share.window, InputCounts(0, 0), (), (), ()))
        return encode_piece(diagnose(flows, topology, with_events=False, window=share.window))
