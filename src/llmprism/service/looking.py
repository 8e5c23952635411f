"""Looks at the stored records of a span of time: of everybody, or of some runs over a longer one."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from llmprism.errors import LLMPrismError, StoreError
from llmprism.model.flows import FlowTable, InputCounts, Window
from llmprism.model.live import TrackedRun
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Progress, diagnose
from llmprism.service.checks import has_stopped
from llmprism.service.config import Config
from llmprism.service.layout_memory import LayoutMemory
from llmprism.service.looks import Look
from llmprism.service.reading import affordable, read_members, read_window
from llmprism.service.rules.configured import rules_of
from llmprism.service.step_memory import step_bytes_of
from llmprism.service.store import Store
from llmprism.service.windows import look_due

__all__ = ["Looking"]

log = logging.getLogger(__name__)


class Looking:
    """What an evaluator looks with: the store, the state of its tracker and plan, and what is known of layouts."""

    def __init__(self, store: Store, config: Config) -> None:
        self._store = store
        self._config = config
        self._rules = rules_of(config)
        self._layouts = LayoutMemory(self._rules)
        self._state, self._plan = store.tracker()

    def _while_making(self, window: Window) -> None:
        """Called from time to time while the look at everybody is made."""

    def _base_look(self, window: Window, through: int, topology: Topology | None) -> tuple[Look, str]:
        """The look at all records of the window, and a note where it had to be shortened."""
        segments = self._store.segments(window.start_ns, window.end_ns, through)
        segments, note = affordable(segments, self._config.windows.max_records)
        self._while_making(window)
        flows = read_window(segments, window)
        self._while_making(window)
        report, failed = self._report(flows, window, topology, lambda *_progress: self._while_making(window))
        return Look(report, self._rules.windows.length), note or failed

    def _longer_looks(
        self, window: Window, through: int, topology: Topology | None, *, silent_only: bool = False
    ) -> list[Look]:
        """Looks at the slow jobs whose time has come, one per length."""
        due = self._due_looks(window.end_ns, silent_only=silent_only)
        looks = (self._look_at(runs, length, window, through, topology) for length, runs in due)
        return [look for look in looks if look is not None]

    def _look_at(
        self, runs: Sequence[TrackedRun], length: int, window: Window, through: int, topology: Topology | None
    ) -> Look | None:
        """A look at the records of these runs alone; a shorter one where there are too many."""
        members = sorted({name for run in runs for name in run.members})
        flows, reach, least = None, length, min(length, 2 * self._rules.windows.length)
        while flows is None and reach >= least:
            longer = Window(window.end_ns - reach, window.end_ns)
            segments = self._store.segments(longer.start_ns, longer.end_ns, through)
            most = self._config.windows.max_records
            flows, _ = read_members(segments, longer, members, self._store.incoming, most)
            reach //= 2
        if flows is None:
            return None
        report, _ = self._report(flows, longer, topology)
        return Look(report, length, frozenset(run.id for run in runs))

    def _due_looks(self, end_ns: int, *, silent_only: bool) -> list[tuple[int, list[TrackedRun]]]:
        """(length, runs) of the looks to be made now: at their own hop, and at once where a run has fallen silent."""
        due: dict[int, list[TrackedRun]] = {}
        for run in self._state.runs:
            if not run.state.alive or run.reach_ns <= self._rules.windows.length:
                continue
            timely = not silent_only and look_due(run.reach_ns, self._plan, end_ns, self._rules.windows)
            if timely or has_stopped(run, {}, end_ns, self._rules):
                due.setdefault(run.reach_ns, []).append(run)
        return sorted(due.items())

    def _report(
        self, flows: FlowTable | None, window: Window, topology: Topology | None, progress: Progress | None = None
    ) -> tuple[Report, str]:
        """What the records say; an empty report and a note where they cannot be diagnosed. One window that the methods
        stumble over must not stop those that follow."""
        empty = Report(window, InputCounts(0, 0), (), (), (), topology=topology)
        if flows is None:
            return empty, ""
        self._layouts.begin(window, step_bytes_of(self._state.runs, self._rules))
        try:
            report = diagnose(
                flows,
                topology,
                with_events=False,
                with_facts=False,
                window=window,
                progress=progress,
                threads=1,
                find_layout=self._layouts.layout_of,
            )
            self._layouts.end(report)
            return report, ""
        except StoreError:
            raise  # of a check in between: no fault of the records
        except (LLMPrismError, ArithmeticError, LookupError, TypeError, ValueError) as error:
            log.exception("a window could not be diagnosed", extra={"end_ns": window.end_ns})
            self._store.add_counts("service", [("windows_failed", "", 1)])
            return empty, f"this window could not be diagnosed ({type(error).__name__}); the next one is tried"
