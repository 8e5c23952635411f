"""From window to window: the state that makes jobs and findings last. State and report in, state and changes out."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Final

from llmprism.model.live import FindingLife, FindingPhase, LiveState, RunLife, StepMark
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
    runs = follow_runs(state.runs, state.candidates, report, _troubled(state.lives))
    judged = frozenset(
        runs.report_run[job.job.id]
        for job in report.jobs
        if job.job.id in runs.report_run and job.timeline.steps.count >= JUDGED_STEPS
    )
    lives, changed = follow_findings(state.lives, report.findings, runs.runs, runs.report_run, judged, report.window)
    before = {life.id: life.phase for life in state.lives}
    followed, slowed = _slowed_by(runs.runs, lives, report.window.end_ns)
    names = {*runs.changed, *(move.run for move in slowed)}
    return TrackerState(followed, runs.candidates, lives), Changes(
        runs=tuple(run for run in followed if run.id in names),
        transitions=(*runs.transitions, *slowed),
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


def _troubled(lives: tuple[FindingLife, ...]) -> frozenset[str]:
    """The runs that an open finding slows."""
    slowing = [life.finding for life in lives if life.phase is FindingPhase.OPEN and life.finding.end_ns is None]
    return frozenset(finding.job for finding in slowing if finding.job and finding.kind not in STOPPED_KINDS)


def _slowed_by(
    runs: tuple[RunLife, ...], lives: tuple[FindingLife, ...], now_ns: int
) -> tuple[tuple[RunLife, ...], tuple[Transition, ...]]:
    """Running jobs are slowed from the window in which a finding about them opens."""
    troubled = _troubled(lives)
    hit = [run.id for run in runs if run.state is LiveState.RUNNING and run.id in troubled]
    slowed = tuple(replace(run, state=LiveState.SLOWED, since_ns=now_ns) if run.id in hit else run for run in runs)
    return slowed, tuple(
        Transition(run, now_ns, LiveState.RUNNING, LiveState.SLOWED, "a finding slows it") for run in hit
    )
