"""Plans and closes windows as any evaluator does, and has their shares diagnosed by whoever has time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from llmprism.model.flows import Window
from llmprism.model.live import TrackedRun
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.service.config import Config
from llmprism.service.evaluator import Evaluator
from llmprism.service.looks import Look
from llmprism.service.reading import affordable
from llmprism.service.step_memory import step_bytes_of
from llmprism.service.store import Segment, Store
from llmprism.service.workers.desk import FAILED, Desk
from llmprism.service.workers.places import address_places, places_of
from llmprism.service.workers.share_reports import decode_share_report, merge_reports
from llmprism.service.workers.shares import MemberFilter, Share, plan_shares

__all__ = ["SharedEvaluator"]


class SharedEvaluator(Evaluator):
    """The evaluator of the worker that leads."""

    def __init__(self, store: Store, config: Config, desk: Desk) -> None:
        super().__init__(store, config)
        self._flows = store.flows
        self._desk = desk

    def _base_look(self, window: Window, through: int, topology: Topology | None) -> tuple[Look, str]:
        segments = self._store.segments(window.start_ns, window.end_ns, through)
        segments, note = affordable(segments, self._config.windows.max_records)
        report, failed = self._shared_report(self._shares(segments, window), window, topology)
        return Look(report, self._rules.windows.length), note or failed

    def _look_at(
        self, runs: Sequence[TrackedRun], length: int, window: Window, through: int, topology: Topology | None
    ) -> Look | None:
        names = sorted({name for run in runs for name in run.members})
        members = MemberFilter(tuple(names), tuple(places_of(names, address_places(topology))))
        reach, shares, longer = length, list[Share](), window
        least = min(length, 2 * self._rules.windows.length)
        while not shares and reach >= least:
            longer = Window(window.end_ns - reach, window.end_ns)
            segments = self._store.segments(longer.start_ns, longer.end_ns, through)
            shares = self._shares(segments, longer, members)
            if sum(share.records for share in shares) > self._config.windows.max_records:
                shares = []
            reach //= 2
        if not shares:
            return None
        report, _ = self._shared_report(shares, longer, topology)
        return Look(report, length, frozenset(run.id for run in runs))

    def _shares(self, segments: list[Segment], window: Window, members: MemberFilter | None = None) -> list[Share]:
        paths = [str(segment.path.relative_to(self._flows)) for segment in segments]
        settings = self._config.workers
        shares = plan_shares(
            self._flows, paths, window, records=settings.share_records, most=settings.max_shares, members=members
        )
        steps = tuple(step_bytes_of(self._state.runs, self._rules).items())
        return [replace(share, steps=steps) for share in shares]

    def _shared_report(self, shares: list[Share], window: Window, topology: Topology | None) -> tuple[Report, str]:
        """The report of all shares, and a note where some could not be diagnosed."""
        answers = self._desk.work_off(shares) if shares else []
        good = [decode_share_report(answer, topology) for answer in answers if not answer.startswith(FAILED)]
        report = merge_reports(good, window, topology)
        if len(good) == len(answers):
            return report, ""
        self._store.add_counts("service", [("windows_failed", "", 1)])
        failed = len(answers) - len(good)
        return report, f"{failed} of {len(answers)} parts of this window could not be diagnosed; the next one is tried"
