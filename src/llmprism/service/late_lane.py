"""Windows of the sources that come late: a second evaluator with a time of its own.

A collector that drops a file every five minutes is minutes behind those that stream. The windows of the streams do not
wait for it; its records are looked at here, in windows behind its own watermark, with runs, findings and alerts that
carry the times of the records. The two lanes meet in the store: runs and findings are rows of the same tables, while
each lane keeps the state of its own tracker. What the page shows as the latest picture is that of the streams.

A job that a stream reports too is the streams' job: what a late source knows of it is left out here.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Final

import sqlalchemy as sql

from llmprism.model.flows import FlowTable, Window
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Progress
from llmprism.service import schema
from llmprism.service.codec import decode_state
from llmprism.service.config import Config, StoreSettings
from llmprism.service.evaluator import Evaluator
from llmprism.service.late_sources import late_mark
from llmprism.service.rows import get_state, put_state
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.rules.clocks import SourceClockRules
from llmprism.service.store import Store, WindowResult
from llmprism.service.tracker import TrackerState
from llmprism.service.window_rows import write_findings, write_runs
from llmprism.service.windows import WindowPlan
from llmprism.units import SECOND

__all__ = ["LATE_WINDOW", "LateEvaluator", "LateStore", "LateView", "without_streamed"]

TRACKER: Final = "late_tracker"

CLOCKS_NS: Final = SECOND
"""How often the clocks are read: there may be thousands of exporters, and files come every few minutes."""

LATE_WINDOW: Final = "late_window"
"""Where the last window of the late sources is described: start_ns, end_ns, records."""


class LateView(Store):
    """A store as the late lane sees it: the segments of late sources, their watermark, a tracker of their own."""

    late = True

    def view(self, now_ns: Callable[[], int], rules: SourceClockRules) -> None:
        """Once, before anything else."""
        self._rules = rules
        self._now_ns = now_ns
        self._mark = self._read_ns = 0

    def watermark(self) -> tuple[int, int]:
        now = self._now_ns()
        if abs(now - self._read_ns) < CLOCKS_NS:
            return self._mark, now
        self._read_ns = now
        self._mark = max(self._mark or self.tracker()[1].mark_ns, late_mark(self.clocks().values(), now, self._rules))
        return self._mark, now

    def passed_at(self, mark_ns: int) -> int:  # noqa: ARG002 - all late sources have passed it
        """The number of the last segment there is."""
        with self.reading() as connection:
            return int(connection.execute(sql.select(sql.func.max(schema.segments.c.seq))).scalar() or 0)

    def tracker(self) -> tuple[TrackerState, WindowPlan]:
        text = self.state(TRACKER)
        return decode_state(text) if text else (TrackerState(), WindowPlan())

    def members_of_streams(self, window: Window) -> frozenset[str]:
        """Addresses of the jobs on which the streams reported in this time. (A first file, which nobody knows to be
        late, counts as a stream.)"""
        state, _ = super().tracker()
        seen = [run for run in state.runs if run.first_ns < window.end_ns and run.silent_since_ns > window.start_ns]
        return frozenset(name for run in seen for name in run.members)

    def commit_window(self, result: WindowResult) -> None:
        window = {"start_ns": result.start_ns, "end_ns": result.end_ns, "records": result.records}
        with self.writing() as connection:
            before = json.loads(get_state(connection, LATE_WINDOW) or "{}")
            if result.picture is not None or not before:
                put_state(connection, LATE_WINDOW, json.dumps(window))
            write_runs(connection, result)
            write_findings(connection, result, TRACKER)

    def commit_findings(self, result: WindowResult) -> None:
        with self.writing() as connection:
            write_findings(connection, result, TRACKER)


class LateStore(LateView):
    def __init__(
        self, settings: StoreSettings, now_ns: Callable[[], int] = time.time_ns, rules: SourceClockRules = RULES.clocks
    ) -> None:
        super().__init__(settings)
        self.view(now_ns, rules)


class LateEvaluator(Evaluator):
    """`advance` makes the next due window of the late sources, if there is one."""

    def __init__(self, store: LateStore, config: Config, now_ns: Callable[[], int] | None = None) -> None:
        super().__init__(store, config, now_ns)
        self._late = store
        self._logs = None  # logs are read by the other lane

    def _idle_ns(self, latest: int, wall: int) -> int:  # noqa: ARG002 - between two files time stands still
        return 0

    def _report(
        self, flows: FlowTable | None, window: Window, topology: Topology | None, progress: Progress | None = None
    ) -> tuple[Report, str]:
        report, note = super()._report(flows, window, topology, progress)
        return without_streamed(report, self._late.members_of_streams(window), self._rules), note


def without_streamed(report: Report, theirs: frozenset[str], rules: LiveRules) -> Report:
    """The report without the jobs on whose members (`theirs`) the streams report."""
    shared = {
        job.job.id
        for job in report.jobs
        if sum(report.addresses[member] in theirs for member in job.job.members)
        >= rules.runs.streamed * len(job.job.members)
    }
    if not shared:
        return report
    jobs = tuple(job for job in report.jobs if job.job.id not in shared)
    return replace(report, jobs=jobs, findings=tuple(one for one in report.findings if one.job not in shared))
