"""Makes the windows: reads the raw records of the next due window, diagnoses them, and commits what they change.

A window is made of the segments that were committed before the watermark passed its end, whenever it is made: so a
restarted service makes the same windows as one that was never disturbed. Only when it has fallen behind by more than
a window does it leave some out; those are counted.

Where no record comes at all, time passes by the clock: a job that is alone on its cluster and crashes must be told
too. Where several jobs fall silent at the same moment the collector is the likelier culprit; then time stands still,
and the service says that it gets no records.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np

from llmprism.errors import InputError, LLMPrismError
from llmprism.ingest import read_flows, read_topology
from llmprism.model.flows import FlowTable, InputCounts, Window
from llmprism.model.live import FindingPhase
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import diagnose
from llmprism.service.config import Config
from llmprism.service.messages import messages_of
from llmprism.service.picture import layout_documents, picture_document, summary_document
from llmprism.service.runs import paces
from llmprism.service.store import Segment, Store, WindowResult
from llmprism.service.tracker import TrackerState, track
from llmprism.service.windows import SECOND, affordable_plan, due_window, resized, started, watermark

__all__ = ["Evaluator", "TopologyFile", "cut", "read_window"]

log = logging.getLogger(__name__)

IDLE_WINDOWS: Final = 3
"""Without records, time passes for three windows at most: then everything has ended and nothing can change."""

TOGETHER_NS: Final = 3 * SECOND
"""Jobs that fall silent within this time of each other did so together."""


class TopologyFile:
    """A topology that is read again when its file changes. A broken new version leaves the last good one in force."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int] | None = None
        self.topology: Topology | None = None
        self.trouble = ""

    def refresh(self) -> Topology | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                self._stamp = stamp
                self.topology, self.trouble = read_topology(self._path), ""
                log.info("topology read", extra={"file": str(self._path), "servers": len(self.topology.servers)})
        except (OSError, LLMPrismError) as error:
            if str(error) != self.trouble:
                log.warning("topology cannot be used", extra={"reason": str(error)})
            self.trouble = str(error)
        return self.topology


class Evaluator:
    """`advance` makes the next due window, if there is one."""

    def __init__(self, store: Store, config: Config, now_ns: Callable[[], int] = time.time_ns) -> None:
        self._store = store
        self._config = config
        self._rules = config.windows.rules()
        self._now_ns = now_ns
        self._begun_ns = now_ns()
        self._topology = TopologyFile(config.topology.file)
        self._state, self._plan = store.tracker()

    @property
    def state(self) -> TrackerState:
        return self._state

    def advance(self) -> bool:
        """True where a window was made."""
        latest, wall = self._store.watermark()
        if not latest:
            return False
        if not self._plan.next_end:
            first = self._store.first_end()
            if first is None:
                return False
            self._plan = started(first, self._rules)
        mark = watermark(latest + self._idle_ns(wall), self._rules)
        following = self._store.next_after(self._plan.next_end - 1)
        window = due_window(self._plan, mark, following, self._rules)
        if window is None:
            return False
        window = self._caught_up(window, mark)
        self._make(window)
        return True

    def _idle_ns(self, wall: int) -> int:
        """How far the clock has run on without records; 0 while records come or where the collector seems silent."""
        idle = self._now_ns() - max(wall, self._begun_ns)
        if idle < self._config.windows.idle_after_s * SECOND:
            return 0
        living = [run for run in self._state.runs if run.state.alive]
        silent = sorted(run.silent_since_ns for run in living)
        if len(silent) > 1 and silent[-1] - silent[0] < TOGETHER_NS:
            return 0
        opened = any(life.phase is FindingPhase.OPEN for life in self._state.lives)
        if not living and not opened:
            return 0
        return min(idle, IDLE_WINDOWS * self._plan.length)

    def _caught_up(self, window: Window, mark: int) -> Window:
        """The latest due window where this one is more than a window's length in the past, else this one."""
        if mark - window.end_ns <= self._plan.length:
            return window
        hop = self._rules.hop
        skipped = (mark - window.end_ns) // hop
        if skipped:
            log.warning("windows left out to catch up", extra={"windows": skipped})
            self._store.add_counts("service", [("windows_skipped", "", skipped)])
        end = window.end_ns + skipped * hop
        return Window(end - self._plan.length, end)

    def _make(self, window: Window) -> None:
        begun = time.monotonic()
        through = self._store.passed_at(window.end_ns + self._rules.lateness)
        topology = self._topology.refresh()
        segments = self._store.segments(window.start_ns, window.end_ns, through)
        report, note = self._report(segments, window, topology)
        state, changes = track(self._state, report)
        plan = resized(self._plan, window, paces(state.runs), self._rules)
        plan = affordable_plan(plan, window, report.input.records, self._config.windows.max_records, self._rules)
        took = int(1000 * (time.monotonic() - begun))
        result = WindowResult(
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            records=report.input.records,
            through_seq=through,
            wall_ns=self._now_ns(),
            took_ms=took,
            summary=summary_document(report, state, note),
            picture=picture_document(report, state, changes.report_run, topology, self._topology.trouble, note),
            layouts=layout_documents(report, changes.report_run),
            changes=changes,
            tracker=state,
            plan=plan,
            messages=messages_of(changes, self._config.alerts, window),
        )
        self._store.commit_window(result)
        self._state, self._plan = state, plan
        log.info(
            "window",
            extra={"end_ns": window.end_ns, "records": report.input.records, "jobs": len(report.jobs), "took_ms": took},
        )
        for life in changes.findings:
            if life.id in changes.opened or life.id in changes.closed:
                log.warning("finding", extra={"id": life.id, "phase": life.phase.value, "what": life.finding.summary})

    def _report(self, segments: list[Segment], window: Window, topology: Topology | None) -> tuple[Report, str]:
        """The window's report, and a note where it had to be shortened."""
        segments, note = _affordable(segments, self._config.windows.max_records)
        return self._diagnosed(segments, window, topology), note

    def _diagnosed(self, segments: list[Segment], window: Window, topology: Topology | None) -> Report:
        flows = read_window(segments, window)
        if flows is None:
            return Report(window, InputCounts(0, 0), (), (), (), topology=topology)
        return diagnose(flows, topology, with_events=False, window=window)


def _affordable(segments: list[Segment], most: int) -> tuple[list[Segment], str]:
    """The latest segments within the cap on records."""
    total = sum(segment.records for segment in segments)
    if total <= most:
        return segments, ""
    kept: list[Segment] = []
    for segment in reversed(segments):
        if kept and sum(item.records for item in kept) + segment.records > most:
            break
        kept.insert(0, segment)
    return kept, f"{total:,} records are more than one window may hold ({most:,}): only the latest part was looked at"


def read_window(segments: list[Segment], window: Window) -> FlowTable | None:
    """The records of these segments that end inside the window; None where there is none."""
    paths = [segment.path for segment in segments if segment.path.exists()]
    if not paths:
        return None
    try:
        flows = read_flows(paths)
    except InputError as error:
        log.error("segments cannot be read", extra={"reason": str(error)})
        return None
    flows = cut(flows, window)
    return flows if flows.start_ns.size else None


def cut(flows: FlowTable, window: Window) -> FlowTable:
    """The records that end after the window's start and not after its end. Addresses keep their ids."""
    keep = (flows.end_ns > window.start_ns) & (flows.end_ns <= window.end_ns)
    pair = np.repeat(np.arange(flows.pair_src.size), np.diff(flows.pair_offsets))
    counts = np.bincount(pair[keep], minlength=flows.pair_src.size)
    alive = np.flatnonzero(counts)
    offsets = np.concatenate(([0], np.cumsum(counts[alive]))).astype(np.int64)
    used = int(keep.sum())
    return replace(
        flows,
        pair_src=flows.pair_src[alive],
        pair_dst=flows.pair_dst[alive],
        pair_offsets=offsets,
        start_ns=flows.start_ns[keep],
        end_ns=flows.end_ns[keep],
        bytes=flows.bytes[keep],
        path=flows.path[keep],
        counts=InputCounts(used + sum(count for _, count in flows.counts.dropped), used, flows.counts.dropped),
    )
