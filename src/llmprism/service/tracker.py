"""From window to window: the state that makes jobs and findings last. State and looks in, state and changes out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from llmprism.model.live import FindingPhase, LiveState, StepMark, TrackedFinding, TrackedRun
from llmprism.service.looks import Look
from llmprism.service.rules import LiveRules
from llmprism.service.runs import Transition, UnconfirmedJob, follow_runs, is_settled, nobody
from llmprism.service.sightings import STOPPED_KINDS, Sighting, sightings_of
from llmprism.service.tracked_findings import follow_findings

__all__ = ["Changes", "TrackerState", "slowest_step", "track"]


@dataclass(frozen=True, slots=True)
class TrackerState:
    runs: tuple[TrackedRun, ...] = ()
    candidates: tuple[UnconfirmedJob, ...] = ()
    findings: tuple[TrackedFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Changes:
    """What one round of looks changed. `report_run` maps the base look's job ids to run ids, `followed` does so per
    look for the runs that it judged."""

    runs: tuple[TrackedRun, ...] = ()
    transitions: tuple[Transition, ...] = ()
    steps: tuple[tuple[str, StepMark], ...] = ()
    findings: tuple[TrackedFinding, ...] = ()
    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    report_run: dict[str, str] = field(default_factory=dict)
    followed: tuple[dict[str, str], ...] = ()


def track(
    state: TrackerState,
    looks: Sequence[Look],
    rules: LiveRules,
    taken: Callable[[str], bool] = nobody,
    unwatched: frozenset[str] = frozenset(),
) -> tuple[TrackerState, Changes]:
    """The state after this round of looks, and what changed; the first look is the base one, where there is one (a
    check between two windows looks at some runs only, and says nothing of the others). `unwatched` are the runs that
    nobody reports on now. Pure: the same looks give the same states."""
    runs = follow_runs(state.runs, state.candidates, looks, _troubled(state.findings), rules, taken, unwatched)
    settled = {run.id for run in runs.runs if is_settled(run, rules)}
    sightings: list[Sighting] = []
    judged: set[str] = set()
    for look, followed in zip(looks, runs.followed, strict=True):
        sightings += sightings_of(look, followed)
        judged.update(
            followed[job.job.id]
            for job in look.report.jobs
            if followed.get(job.job.id) in settled and job.timeline.steps.count >= rules.findings.judged_steps
        )
    looked = frozenset(run for followed in runs.followed for run in followed.values())
    window = looks[0].window
    everybody = looks[0].runs is None
    findings, changed = follow_findings(
        state.findings, sightings, runs.runs, frozenset(judged), looked, window, rules, everybody=everybody
    )
    before = {tracked.id: tracked.phase for tracked in state.findings}
    followed_runs, slowed = _slowed_by(runs.runs, findings, window.end_ns)
    moved = {move.run for move in slowed}
    changed_runs = {run.id: run for run in (*runs.changed, *(run for run in followed_runs if run.id in moved))}
    return TrackerState(followed_runs, runs.candidates, findings), Changes(
        runs=tuple(changed_runs.values()),
        transitions=(*runs.transitions, *slowed),
        steps=runs.steps,
        findings=changed,
        opened=tuple(tracked.id for tracked in changed if before.get(tracked.id) in (None, FindingPhase.PENDING)),
        closed=tuple(
            tracked.id
            for tracked in changed
            if tracked.phase is FindingPhase.CLOSED and before.get(tracked.id) is not FindingPhase.CLOSED
        ),
        report_run=runs.report_run,
        followed=runs.followed,
    )


def slowest_step(runs: Sequence[TrackedRun], rules: LiveRules) -> int:
    """The longest step of the settled runs that windows show; 0 while a run is not settled."""
    shown = [run for run in runs if run.state.alive and run.reach_ns <= rules.windows.length]
    if not all(is_settled(run, rules) for run in shown):
        return 0
    return max((max(run.period_ns, run.usual_high_ns) for run in shown), default=0)


def _troubled(findings: tuple[TrackedFinding, ...]) -> frozenset[str]:
    """The runs that an open finding slows."""
    slowing = [
        tracked.finding for tracked in findings if tracked.phase is FindingPhase.OPEN and tracked.finding.end_ns is None
    ]
    return frozenset(finding.job for finding in slowing if finding.job and finding.kind not in STOPPED_KINDS)


def _slowed_by(
    runs: tuple[TrackedRun, ...], findings: tuple[TrackedFinding, ...], now_ns: int
) -> tuple[tuple[TrackedRun, ...], tuple[Transition, ...]]:
    """Running jobs are slowed from the window in which a finding about them opens."""
    troubled = _troubled(findings)
    hit = [run.id for run in runs if run.state is LiveState.RUNNING and run.id in troubled]
    slowed = tuple(replace(run, state=LiveState.SLOWED, since_ns=now_ns) if run.id in hit else run for run in runs)
    return slowed, tuple(
        Transition(run, now_ns, LiveState.RUNNING, LiveState.SLOWED, "a finding slows it") for run in hit
    )
