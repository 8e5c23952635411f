"""Lines that arrive after their window: findings gain their cause when it is known, not when it was due.

A time-out of half an hour is written half an hour after the stop, and shippers deliver in pieces. So a finding that is
open without a cause is looked at again whenever new lines were read: the window in which it was last seen is made once
more from the stored flows and read together with the logs there are now. While lines are still coming, that waits a
little, and for a while after a cause was found it is looked for again: the first lines of a crash are often those of a
rank that only lost its peer. Where the logs say that nothing was wrong (the job was cancelled, or had ended well), the
finding is closed, and the reason says so.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from llmprism.model.finding import Finding, Where, WhereType
from llmprism.model.flows import Window
from llmprism.model.live import Explanation, FindingPhase, TrackedFinding, TrackedRun
from llmprism.model.topology import Topology
from llmprism.service.config import AlertSettings
from llmprism.service.joblogs.documents import log_documents
from llmprism.service.joblogs.explain import LogExplainer
from llmprism.service.joblogs.explanations import knowledge
from llmprism.service.looks import Look, member_names
from llmprism.service.messages import messages_of
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.sightings import fits, sightings_of
from llmprism.service.tracked_findings import closed
from llmprism.service.tracker import Changes, TrackerState
from llmprism.service.window_rows import WindowResult
from llmprism.service.windows import WindowPlan

__all__ = ["LateCauses", "LookAgain", "explained_again", "late_result", "withdraw"]

LookAgain = Callable[[TrackedRun, Window], Look | None]

PAUSE_S: Final = 2.0
"""How often new lines are looked for between windows."""

HOLD_S: Final = 10.0
"""How long a look waits for lines to stop coming: shippers deliver every few seconds, and one job among many that write
all the time must not wait for the others."""

SETTLE_S: Final = 60.0
"""How long after a cause was found more lines may still change it: ranks that lost a peer write within a minute of it,
and shippers that were away deliver within that time."""

AT_ONCE: Final = 4
"""Findings that are looked at again in one go: each costs the diagnosis of one job."""

KNOWN: Final = 2
"""`knowledge` of findings that have a cause."""


class LateCauses:
    """Remembers up to which lines every open finding was explained."""

    def __init__(self, explainer: LogExplainer, now_s: Callable[[], float] = time.monotonic) -> None:
        self._explainer = explainer
        self._now_s = now_s
        self._looked_s = float("-inf")
        self._reads: dict[str, int] = {}
        self._known_s: dict[str, float] = {}
        self._least: int | None = None
        self._last_read = explainer.reads
        self._held_s: float | None = None

    def is_time(self) -> bool:
        """Whether it is time to look for new lines."""
        now = self._now_s()
        if now - self._looked_s < PAUSE_S:
            return False
        self._looked_s = now
        return True

    def due(self, findings: Sequence[TrackedFinding]) -> list[TrackedFinding]:
        """Open findings about a job that may gain a cause from lines that were not there when it was last tried, or
        another one than a short while ago; none while lines are still coming, up to a time."""
        now = self._now_s()
        known = [tracked.id for tracked in findings if knowledge(tracked.why) >= KNOWN]
        self._known_s = {name: self._known_s.get(name, now) for name in known}
        waiting = [
            tracked
            for tracked in findings
            if _may_be_explained(tracked) and now - self._known_s.get(tracked.id, now) < SETTLE_S
        ]
        if waiting:
            self._explainer.refresh(urgent=True)
        self._reads = {tracked.id: self._reads.get(tracked.id, -1) for tracked in waiting}
        new = [tracked for tracked in waiting if self._reads[tracked.id] < self._explainer.reads]
        if self._lines_are_coming():
            return []
        return sorted(new, key=lambda tracked: (knowledge(tracked.why), -tracked.finding.start_ns))[:AT_ONCE]

    def _lines_are_coming(self) -> bool:
        """Were new lines read since the last time? Not for longer than it may hold a look up."""
        now, reads = self._now_s(), self._explainer.reads
        came, self._last_read = reads != self._last_read, reads
        if not came:
            self._held_s = None
            return False
        self._held_s = now if self._held_s is None else self._held_s
        if now - self._held_s < HOLD_S:
            return True
        self._held_s = None
        return False

    def explained(self) -> None:
        """A look was read together with the lines that are known by now. More may become known before the next."""
        reads = self._explainer.reads
        self._least = reads if self._least is None else min(reads, self._least)

    def tried(self, findings: Sequence[TrackedFinding]) -> None:
        """These were looked for in all looks since the last call: what all of them knew, these have seen."""
        reads = self._explainer.reads if self._least is None else self._least
        self._reads |= {tracked.id: reads for tracked in findings if _may_be_explained(tracked)}
        self._least = None


def _may_be_explained(tracked: TrackedFinding) -> bool:
    return tracked.phase is FindingPhase.OPEN and tracked.finding.job is not None


def explained_again(
    tracked: TrackedFinding, look: Look, members: Sequence[str], rules: LiveRules = RULES
) -> TrackedFinding:
    """The finding after another look at the window in which it was last seen; the same where nothing is new.

    `members`: those of its run. When it began and what it has cost stays as it was followed. Of two causes the one that
    was found with more lines is taken."""
    run_of = _run_of(look, tracked.finding.job or "", frozenset(members))
    for sighting in sightings_of(look, run_of):
        if fits(tracked.finding, sighting.finding, rules) and _says_more(sighting.why, tracked.why):
            seen = tracked.finding
            cost = max(seen.lost_gpu_seconds, sighting.finding.lost_gpu_seconds)
            finding = replace(sighting.finding, start_ns=seen.start_ns, end_ns=seen.end_ns, lost_gpu_seconds=cost)
            return replace(tracked, finding=finding, why=sighting.why)
    for finding, reason in look.withdrawn:
        if fits(tracked.finding, _of_run(finding, run_of), rules):
            return closed(tracked, tracked.finding.start_ns, reason, look.window)
    return tracked


def _says_more(why: Explanation | None, before: Explanation | None) -> bool:
    new, old = knowledge(why), knowledge(before)
    return new > old or (new == KNOWN and new == old and why != before)


def withdraw(
    state: TrackerState, changes: Changes, looks: Sequence[Look], rules: LiveRules = RULES
) -> tuple[TrackerState, Changes]:
    """Close the findings that the logs of these looks explain away."""
    gone: dict[str, TrackedFinding] = {}
    for look, run_of in zip(looks, changes.followed, strict=True):
        for finding, reason in look.withdrawn:
            mapped = _of_run(finding, run_of)
            for tracked in state.findings:
                if (
                    tracked.phase is FindingPhase.OPEN
                    and tracked.id not in gone
                    and fits(tracked.finding, mapped, rules)
                ):
                    gone[tracked.id] = closed(tracked, tracked.finding.start_ns, reason, look.window)
    if not gone:
        return state, changes
    findings = tuple(gone.get(tracked.id, tracked) for tracked in state.findings)
    kept = tuple(tracked for tracked in changes.findings if tracked.id not in gone)
    names = tuple(name for name in changes.closed if name not in gone)
    opened = tuple(name for name in changes.opened if name not in gone)
    # one that opens and is explained away in the same window is nobody's news
    shown = tuple(tracked for tracked in gone.values() if tracked.id not in changes.opened)
    changed = replace(
        changes, findings=kept + shown, closed=names + tuple(tracked.id for tracked in shown), opened=opened
    )
    return replace(state, findings=findings), changed


def _run_of(look: Look, run: str, members: frozenset[str]) -> dict[str, str]:
    """The job of a look that has the most of the run's members, under the run's name."""
    shared = {job.job.id: len(members & frozenset(member_names(look, job))) for job in look.report.jobs}
    best = max(shared, key=lambda name: shared[name], default=None)
    return {best: run} if best is not None and 2 * shared[best] >= len(members) else {}


def _of_run(finding: Finding, run_of: dict[str, str]) -> Finding:
    run = run_of.get(finding.job or "")
    where = Where(WhereType.JOB, run) if finding.where.type is WhereType.JOB and run else finding.where
    return replace(finding, job=run, where=where)


def late_result(
    late: LateCauses,
    explain: Callable[[Look], Look],
    state: TrackerState,
    plan: WindowPlan,
    again: LookAgain,
    alerts: AlertSettings,
    topology: Topology | None,
    rules: LiveRules = RULES,
) -> WindowResult | None:
    """What new lines change of the findings that wait for a cause, ready to be stored; None: nothing.

    `again` makes the look at a run that ends with a window."""
    runs = {run.id: run for run in state.runs}
    after: dict[str, TrackedFinding] = {}
    looks: list[tuple[Look, dict[str, str]]] = []
    for tracked in late.due(state.findings):
        run = runs.get(tracked.finding.job or "")
        look = None if run is None else again(run, Window(tracked.updated_ns, tracked.updated_ns))
        if run is None or look is None:
            late.tried([tracked])
            continue
        look = explain(look)
        late.tried([tracked])
        looks.append((look, _run_of(look, run.id, frozenset(run.members))))
        now = explained_again(tracked, look, run.members, rules)
        if now != tracked:
            after[tracked.id] = now
    if not after:
        return None
    changes = Changes(
        findings=tuple(after.values()),
        closed=tuple(tracked.id for tracked in after.values() if tracked.phase is FindingPhase.CLOSED),
    )
    tracker = replace(state, findings=tuple(after.get(tracked.id, tracked) for tracked in state.findings))
    now_ns = max(tracked.updated_ns for tracked in after.values())
    window = Window(now_ns, now_ns)
    return WindowResult(
        start_ns=now_ns,
        end_ns=now_ns,
        records=0,
        through_seq=0,
        wall_ns=time.time_ns(),
        took_ms=0,
        summary={},
        picture=None,
        layouts={},
        changes=changes,
        tracker=tracker,
        plan=plan,
        messages=messages_of(changes, alerts, window, topology, state.findings),
        logs=log_documents([look for look, _ in looks], [run_of for _, run_of in looks]),
    )
