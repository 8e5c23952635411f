"""Makes the windows: reads the raw records of the next due window, diagnoses them, and commits what they change.

A window is made of the segments that were committed before the watermark passed its end, whenever it is made: so a
restarted service makes the same windows as one that was never disturbed. When many are due at once, fewer are made, but
they still overlap; only when the machine cannot keep up at all is time left out, and that is counted. Jobs whose steps
are longer than a window are looked at over longer spans, alone (see `windows`).

Where no record comes at all, time passes by the clock: a job that is alone on its cluster and crashes must be reported
too. With several jobs, or with a source that delivers files of minutes, the collector is the likelier culprit; then
time stands still, and the service says that it gets no records. The same holds for the jobs of one source among
several (`silence`).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from llmprism.model.flows import Window
from llmprism.model.live import FindingPhase, TrackedRun
from llmprism.model.report import Report
from llmprism.service.check_results import unchanged
from llmprism.service.checks import (
    Sent,
    SentSince,
    affordable_runs,
    has_stopped,
    newcomers,
    share_of,
    undecided,
    wanted_runs,
    with_activity,
)
from llmprism.service.config import Config
from llmprism.service.joblogs.late import late_result, withdraw
from llmprism.service.joblogs.settings import JobLogs
from llmprism.service.layout_memory import LayoutMemory, documents_due
from llmprism.service.looking import Looking
from llmprism.service.looks import Look
from llmprism.service.messages import messages_of
from llmprism.service.picture import check_document, layout_documents, picture_document, summary_document
from llmprism.service.runs import is_settled
from llmprism.service.silence import gap_of, marked, silent_groups, unreported
from llmprism.service.store import Segment, Store, WindowResult
from llmprism.service.topology_file import TopologyFile
from llmprism.service.tracker import Changes, TrackerState, slowest_step, track
from llmprism.service.windows import (
    Cost,
    affords,
    cannot_keep_up,
    check_ends,
    due_window,
    following,
    started,
    usual_cost,
    watermark,
)
from llmprism.units import SECOND

__all__ = ["Evaluator", "TopologyFile"]

log = logging.getLogger(__name__)


class _JobStoppedError(Exception):
    """A job has stopped by this time while a window is made."""

    def __init__(self, end_ns: int) -> None:
        super().__init__(end_ns)
        self.end_ns = end_ns


class Evaluator(Looking):
    """`advance` makes the next due window, if there is one."""

    def __init__(self, store: Store, config: Config, now_ns: Callable[[], int] | None = None) -> None:
        super().__init__(store, config)
        self._wall_ns = now_ns or time.time_ns
        self._elapsed_ns = now_ns or time.monotonic_ns
        self._latest_seen: tuple[int, int] = (0, 0)
        self._latest_seen_at = self._elapsed_ns()
        self._took_ns = self._glanced_ns = self._young_ns = 0
        self._last_cost: Cost | None = None
        self._has_waited = False
        self._addresses: frozenset[str] = frozenset()
        self._rates: dict[str, float] = {}
        self._sent = SentSince()
        self._topology = TopologyFile(config.topology.file)
        self._logs = JobLogs.of(config, store)

    @property
    def state(self) -> TrackerState:
        return self._state

    @property
    def layouts(self) -> LayoutMemory:
        return self._layouts

    def advance(self) -> bool:
        """True where a window was made."""
        latest, wall = self._store.watermark()
        if not latest:
            return False
        if not self._plan.next_end:
            first = self._store.first_end()
            if first is None:
                return False
            self._plan = started(first, self._rules.windows)
        if latest < self._plan.last_end and latest < self._plan.mark_ns:
            self._go_back(latest)
        mark = watermark(latest + self._idle_ns(latest, wall), self._rules.windows)
        coming = self._store.next_after(self._plan.next_end - 1)
        window = due_window(self._plan, mark, coming, self._rules.windows)
        try:
            if window is None:
                return self._check(mark, latest) or self._explain_late()
            self._make(self._left_out(window, mark), mark, latest)
        except _JobStoppedError as stop:
            log.info("a window waits for a job that has stopped", extra={"end_ns": stop.end_ns})
            wait = self._rules.windows.waits_hops * self._rules.windows.hop
            self._plan = replace(self._plan, next_end=stop.end_ns + wait)
        return True

    def _go_back(self, latest: int) -> None:
        """The watermark went back behind the last window: a clock was believed that the others do not agree with. What
        was concluded in its time is forgotten."""
        log.warning("time goes back", extra={"from_ns": self._plan.mark_ns, "to_ns": latest})
        self._plan = started(latest, self._rules.windows)
        self._glanced_ns = self._young_ns = 0
        kept = tuple(run for run in self._state.runs if run.first_ns <= latest)
        findings = tuple(tracked for tracked in self._state.findings if tracked.finding.start_ns <= latest)
        self._state = replace(self._state, runs=kept, findings=findings, candidates=())

    def _idle_ns(self, latest: int, wall: int) -> int:
        """How far the clock has run on without records; 0 while records come or where the collector seems silent."""
        now = self._elapsed_ns()
        if (latest, wall) != self._latest_seen:
            self._latest_seen, self._latest_seen_at = (latest, wall), now
        idle = now - self._latest_seen_at
        if idle < self._config.windows.idle_after_s * SECOND:
            return 0
        living = [run for run in self._state.runs if run.state.alive]
        opened = any(tracked.phase is FindingPhase.OPEN for tracked in self._state.findings)
        if len(living) > 1 or not (living or opened) or idle < self._patience_ns():
            return 0
        return min(idle, self._rules.runs.idle_windows * self._longest())

    def _patience_ns(self) -> float:
        """How long the sources may be silent without anything being wrong; for ever where they deliver long files."""
        clocks = self._store.clocks().values()
        last = max((clock.wall_ns for clock in clocks), default=0)
        usual = [clock for clock in clocks if last - clock.wall_ns <= self._rules.clocks.active_ns]
        if any(clock.span_ns > self._rules.clocks.long_batch_ns for clock in usual):
            return float("inf")
        return self._rules.runs.idle_intervals * max((clock.interval_ns for clock in usual), default=0)

    def _longest(self) -> int:
        return (
            max((run.reach_ns for run in self._state.runs if run.state.alive), default=0) or self._rules.windows.length
        )

    def _check(self, mark: int, latest: int) -> bool:
        """Between two windows that are made seldom: looks at the runs that have changed, or makes the window of
        everybody at once where there is somebody new. False where no check is due."""
        end = check_ends(self._plan, mark, self._rules.windows)
        if not end:
            return False
        begun = time.monotonic()
        window, through = self._span_until(end)
        since, segments, sent, wanted = self._since_last(end, through)
        wanted = self._affordable(wanted, end)
        if share_of(wanted, len(self._addresses)) > self._rules.runs.whole or self._needs_everybody(sent, end):
            self._make(window, mark, latest)
            return True
        topology = self._topology.refresh()
        look = self._look_at(wanted, self._rules.windows.length, window, through, topology) if wanted else None
        looks = [look] if look is not None else []
        looks = self._with_logs([*looks, *self._longer_looks(window, through, topology, silent_only=True)])
        state, changes = self._judged(looks, wanted, sent, through) if looks else (self._state, Changes())
        result = WindowResult(
            start_ns=since,
            end_ns=end,
            records=sum(segment.records for segment in segments),
            through_seq=through,
            wall_ns=self._wall_ns(),
            took_ms=int(1000 * (time.monotonic() - begun)),
            summary=check_document(state, f"a check between two windows; jobs looked at: {len(wanted)}"),
            picture=None,
            layouts=layout_documents(
                looks, changes.followed, documents_due(self._state, state, window, self._plan, self._rules)
            ),
            changes=changes,
            tracker=state,
            plan=replace(self._plan, mark_ns=latest, checked_ns=end),
            messages=messages_of(changes, self._config.alerts, window, topology, self._state.findings),
            logs=self._log_documents(looks, changes),
        )
        self._commit(result, len(looks))
        return True

    def _span_until(self, end: int) -> tuple[Window, int]:
        """The window that ends here, and the last segment that it may see."""
        through = self._store.passed_at(end + self._rules.windows.lateness)
        return Window(end - self._rules.windows.length, end), through

    def _since_last(
        self, end: int, through: int
    ) -> tuple[int, list[Segment], Mapping[str, Sent], Sequence[TrackedRun]]:
        """Up to where all was read before, the segments with what is new, what was sent since the last window, and the
        runs that have changed."""
        start = self._plan.last_end
        if self._sent.start_ns != start:
            self._sent.begin(start)
        since = self._sent.end_ns
        segments = self._store.segments(since, end, through)
        sent = self._sent.read(segments, end)
        wanted = wanted_runs(self._state.runs, self._state.findings, sent, self._rates, start, end, self._rules)
        return since, segments, sent, wanted

    def _affordable(self, wanted: Sequence[TrackedRun], end: int) -> Sequence[TrackedRun]:
        """These runs, without the young ones where looking at those is too dear now."""
        since = end - max(self._plan.last_end, self._young_ns)
        kept = affordable_runs(wanted, len(self._addresses), self._took_ns, since, self._rules)
        self._young_ns = end if any(not is_settled(run, self._rules) for run in kept) else self._young_ns
        return kept

    def _needs_everybody(self, sent: Mapping[str, Sent], end: int) -> bool:
        """Is a window of everybody worth its cost now?"""
        new = newcomers(sent, self._addresses, self._rules) or undecided(self._state.findings)
        return new and affords(self._took_ns, end - self._plan.last_end, self._rules.windows)

    def _while_making(self, window: Window) -> None:
        """While a window is made that takes longer than a hop: has a job stopped since its end? Where none has, that is
        committed, so that nobody waits for the window to know it; who needs a look waits for the window. Where one has,
        the window waits until that is reported, but the next one does not."""
        if not self._plan.last_end or self._took_ns <= self._rules.windows.hop:
            return
        begun, hop = time.monotonic(), self._rules.windows.hop
        end = watermark(self._store.watermark()[0], self._rules.windows) // hop * hop
        if end < window.end_ns or end <= max(self._plan.checked_ns, self._glanced_ns):
            return
        self._glanced_ns = end
        _, through = self._span_until(end)
        since, segments, sent, wanted = self._since_last(end, through)
        if not any(has_stopped(run, sent, end, self._rules) for run in wanted):
            plan = replace(self._plan, checked_ns=end)
            took = int(1000 * (time.monotonic() - begun))
            result = unchanged(since, end, segments, through, self._wall_ns(), took, self._state, plan, len(wanted))
            self._commit(result, 0)
        elif not self._has_waited:
            self._has_waited = True
            raise _JobStoppedError(end)

    def _judged(
        self, looks: list[Look], wanted: Sequence[TrackedRun], sent: Mapping[str, Sent], through: int
    ) -> tuple[TrackerState, Changes]:
        """What looks at some runs change. Of the others only their activity is known, and nothing is concluded."""
        looked = {run.id for run in wanted}
        active = tuple(run if run.id in looked else with_activity(run, sent) for run in self._state.runs)
        state, changes, _ = self._tracked(replace(self._state, runs=active), looks, through)
        judged = {run for one in changes.followed for run in one.values()}
        before = {run.id: run for run in self._state.runs if run.id not in judged}
        runs = tuple(before.get(run.id, run) for run in state.runs)
        changed = tuple(run for run in changes.runs if run.id in judged)
        return replace(state, runs=runs), replace(changes, runs=changed)

    def _left_out(self, window: Window, mark: int) -> Window:
        """The latest due window where the machine cannot keep up at all, else this one. What is left out is counted."""
        behind = mark - window.end_ns
        if not cannot_keep_up(behind, self._took_ns, self._rules.windows):
            return window
        hop = self._rules.windows.hop
        end = window.end_ns + behind // hop * hop
        seconds = (end - self._rules.windows.length - window.end_ns) // SECOND
        log.warning("time left out to catch up", extra={"seconds": seconds})
        counts = [("windows_skipped", "", (end - window.end_ns) // hop), ("seconds_left_out", "", seconds)]
        self._store.add_counts("service", counts)
        return Window(end - self._rules.windows.length, end)

    def _make(self, window: Window, mark: int, latest: int) -> None:
        begun, begun_cpu = time.monotonic(), time.process_time_ns()
        if self._logs is not None:
            self._logs.poll()
        through = self._store.passed_at(window.end_ns + self._rules.windows.lateness)
        topology = self._topology.refresh()
        base, note = self._base_look(window, through, topology)
        looks = self._with_logs([base, *self._longer_looks(window, through, topology)])
        report = looks[0].report
        state, changes, unwatched = self._tracked(self._state, looks, through)
        self._remember(report, changes.report_run)
        self._has_waited = False
        if unwatched:
            names = ", ".join(sorted(unwatched)[:3])
            more = f" and {len(unwatched) - 3} more" if len(unwatched) > 3 else ""
            note = note or f"nobody reports on {names}{more} any more: look at their collector"
        records = report.input.records
        self._note_cost(Cost(time.process_time_ns() - begun_cpu, records))
        plan = following(
            window, mark, self._took_ns, self._rules.windows, records, slowest_step(state.runs, self._rules)
        )
        plan = replace(plan, mark_ns=latest)
        took = int(1000 * (time.monotonic() - begun))
        result = WindowResult(
            start_ns=window.start_ns,
            end_ns=window.end_ns,
            records=records,
            through_seq=through,
            wall_ns=self._wall_ns(),
            took_ms=took,
            summary=summary_document(report, state, note),
            picture=picture_document(report, state, changes.report_run, topology, self._topology.trouble, note),
            layouts=layout_documents(
                looks, changes.followed, documents_due(self._state, state, window, self._plan, self._rules)
            ),
            changes=changes,
            tracker=state,
            plan=plan,
            messages=messages_of(changes, self._config.alerts, window, topology, self._state.findings),
            logs=self._log_documents(looks, changes),
        )
        self._commit(result, len(looks))

    def _with_logs(self, looks: list[Look]) -> list[Look]:
        return looks if self._logs is None else [self._logs.explained(look) for look in looks]

    def _log_documents(self, looks: list[Look], changes: Changes) -> dict[str, dict[str, Any]]:
        return {} if self._logs is None else self._logs.changed_documents(looks, changes.followed)

    def _explain_late(self) -> bool:
        """Findings gain their cause from lines that came after their window. False where there is none."""
        logs = self._logs
        if logs is None or not logs.polled_late():
            return False
        through, topology = self._store.passed_at(self._plan.mark_ns), self._topology.refresh()

        def look_again(run: TrackedRun, window: Window) -> Look | None:
            length = max(run.reach_ns, self._rules.windows.length)
            return self._look_at([run], length, Window(window.end_ns - length, window.end_ns), through, topology)

        alerts = self._config.alerts
        result = late_result(
            logs.late, logs.explained, self._state, self._plan, look_again, alerts, topology, self._rules
        )
        if result is None:
            return False
        self._store.commit_findings(result)
        self._state = result.tracker
        return True

    def _commit(self, result: WindowResult, looks: int) -> None:
        self._store.commit_window(result)
        self._state, self._plan = result.tracker, result.plan
        about = {"end_ns": result.end_ns, "records": result.records, "looks": looks, "took_ms": result.took_ms}
        log.info("check" if result.picture is None else "window", extra=about)
        if self._logs is not None:
            self._logs.late.tried([tracked for tracked in self._state.findings if tracked.updated_ns == result.end_ns])
        for tracked in result.changes.findings:
            if tracked.id in result.changes.opened or tracked.id in result.changes.closed:
                log.warning(
                    "finding", extra={"id": tracked.id, "phase": tracked.phase.value, "what": tracked.finding.summary}
                )

    def _note_cost(self, cost: Cost) -> None:
        if not self._config.windows.fixed_hop:
            self._took_ns, self._last_cost = usual_cost(cost, self._last_cost), cost

    def _remember(self, report: Report, report_run: dict[str, str]) -> None:
        """Who was there and how much each run sent, for the checks that follow."""
        self._addresses = frozenset(report.addresses)
        seconds = max(report.window.seconds, 1e-3)
        whole = {job.job.id: float(job.job.transfers.bytes.sum()) / seconds for job in report.jobs}
        self._rates = {report_run[name]: rate for name, rate in whole.items() if name in report_run}

    def _tracked(
        self, before: TrackerState, looks: list[Look], through: int
    ) -> tuple[TrackerState, Changes, frozenset[str]]:
        """What these looks change, without concluding anything about runs that nobody reports on."""
        window = looks[0].window
        segments = self._store.segments(window.start_ns, window.end_ns, through)
        gap = gap_of(segments, self._rules)
        living = [run.id for run in before.runs if run.state.alive]
        if gap is not None and len(living) > 1:
            runs = tuple(marked(run, *gap, rules=self._rules) if run.state.alive else run for run in before.runs)
            before = replace(before, runs=runs)
        state, changes = track(before, looks, self._rules, self._store.has_run)
        stopped = silent_groups(before.runs, state.runs, window.end_ns, self._rules)
        unwatched = frozenset(run for group in stopped for run in unreported(segments, group, self._rules))
        if unwatched:
            runs = tuple(
                marked(run, run.silent_since_ns, window.end_ns, self._rules) if run.id in unwatched else run
                for run in before.runs
            )
            before = replace(before, runs=runs)
            state, changes = track(before, looks, self._rules, self._store.has_run, unwatched)
        return *withdraw(state, changes, looks, self._rules), unwatched
