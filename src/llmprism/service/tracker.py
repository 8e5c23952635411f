"""From window to window: the state that makes jobs and findings last. State and report in, state and changes out."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from llmprism.model.live import FindingLife, FindingPhase, RunLife, StepMark
from llmprism.model.report import Report
from llmprism.service.lives import STOPPED_KINDS, follow_findings
from llmprism.service.runs import Candidate, Transition, follow_runs

__all__ = ["Changes", "TrackerState", "track"]


JUDGED_STEPS: Final = 8
"""Steps a window must show before a finding about a running job is believed; windows grow until they hold them."""


@dataclass(frozen=True, slots=True)
class TrackerState:
    runs: tuple[RunLife, ...] = ()
    candidates: tuple[Candidate, ...] = ()
    lives: tuple[FindingLife, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What one window changed. `report_run` maps the window's job ids to run ids."""

    runs: tuple[RunLife, ...] = ()
    transitions: tuple[Transition, ...] = ()
    steps: tuple[tuple[str, StepMark], ...] = ()
    findings: tuple[FindingLife, ...] = ()
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    report_run: dict[str, str] = field(default_factory=dict)


def track(state: TrackerState, report: Report) -> tuple[TrackerState, Changes]:
    """The state after this window, and what changed. Pure: the same windows give the same states."""
    slowing = [life.finding for life in state.lives if life.phase is FindingPhase.OPEN and life.finding.end_ns is None]
    troubled = frozenset(finding.job for finding in slowing if finding.job and finding.kind not in STOPPED_KINDS)
    runs = follow_runs(state.runs, state.candidates, report, troubled)
    judged = frozenset(
        runs.report_run[job.job.id]
        for job in report.jobs
        if job.job.id in runs.report_run and job.timeline.steps.count >= JUDGED_STEPS
    )
    lives, changed = follow_findings(state.lives, report.findings, runs.runs, runs.report_run, judged, report.window)
    before = {life.id: life.phase for life in state.lives}
    names = set(runs.changed)
    return TrackerState(runs.runs, runs.candidates, lives), Changes(
        runs=tuple(run for run in runs.runs if run.id in names),
        transitions=runs.transitions,
        steps=runs.steps,
        findings=changed,
        opened=tuple(life.id for life in changed if before.get(life.id) in (None, FindingPhase.PENDING)),
        closed=tuple(
            life.id
            for life in changed
            if life.phase is FindingPhase.CLOSED and before.get(life.id) is not FindingPhase.CLOSED
        ),
        report_run=runs.report_run,
    )
