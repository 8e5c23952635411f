"""Which job of this window is which job of the last: runs with ids that never change, their states and their steps.

A job of a window and a run of the past are the same when their member sets agree (Jaccard similarity), best matches
first. A new run is believed once it shows enough steps, or has been seen several times with the same members: the first
seconds of a job, when only some of its ranks talk, look like a smaller job. A run that ended or crashed and whose
members train again is a new run that remembers its predecessor.

The windows' ends cut steps and silences at arbitrary points, so a stop is believed only after a silence that is long
both in seconds and in steps; a step is recorded only once it has settled.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from llmprism.model.flows import Int64
from llmprism.model.job import JobState
from llmprism.model.live import LiveState, RunLife, StepMark
from llmprism.model.report import JobReport, Report
from llmprism.service.windows import SECOND, JobPace

__all__ = ["Candidate", "RunUpdate", "Transition", "follow_runs", "paces"]

SAME_JOB: Final = 0.5
"""Jaccard similarity of member sets from which two sightings are one job: half of the members may come and go."""

BELIEVED_STEPS: Final = 5
"""Steps in one window that make a new job believable at once."""

BELIEVED_WINDOWS: Final = 3
"""Windows with the same members that make a job with few visible steps believable."""

STOP_SILENCE_NS: Final = 5 * SECOND
"""A stop needs this much silence: longer than the pauses of jobs with short steps, a third of the 15 s allowed."""

STOP_SILENCE_STEPS: Final = 2.0
"""And this many steps: pauses between steps and checkpoints stay below it."""

END_SILENCE_NS: Final = 30 * SECOND
"""An orderly end is told after this much silence; checkpoints are shorter. Until then the job is stalled."""

END_SILENCE_STEPS: Final = 5.0

SLOWED: Final = 1.3
"""Recent step time against the baseline from which a job is slowed."""

SLOWED_HIGH: Final = 1.1
"""And against what nine of ten usual steps stay below: healthy jobs may alternate between 215 and 360 ms."""

HIGH_QUANTILE: Final = 0.9

HEALTHY: Final = 1.1
"""Below this ratio the baseline follows the job's own slow drift."""

DRIFT: Final = 0.05
"""Weight of one slower window in the baseline: it follows within twenty windows."""

SETTLE: Final = 0.3
"""Weight of one faster window: the first steps of a job are slow, and the baseline soon forgets them."""

RECENT_STEPS: Final = 7
"""Steps whose median is the recent step time: one odd step in three does not move it."""

SETTLED_NS: Final = 60 * SECOND
"""A baseline is only settled when the run has been watched for a whole window: the first ones see few steps, and the
first steps are slow."""

SETTLED_STEPS: Final = 30

REBASE_NS: Final = 1_800 * SECOND
"""A job that has been slower for half an hour with nothing found has changed its work: that is its new baseline."""

TRAINING_BYTES: Final = 1_000
"""Smaller messages are heartbeats; they do not count as activity."""

FORGET_NS: Final = 3_600 * SECOND
"""A run that ended is kept in mind for an hour, to recognise its restart."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A job that is not believed yet, and in how many windows in a row it was seen."""

    members: tuple[str, ...]
    windows: int


@dataclass(frozen=True, slots=True)
class Transition:
    """A run changed its state at a time (event time)."""

    run: str
    at_ns: int
    old: LiveState | None
    new: LiveState
    why: str


@dataclass(frozen=True, slots=True)
class RunUpdate:
    """What one window did to the runs. `report_run` maps the window's job ids to runs."""

    runs: tuple[RunLife, ...]
    candidates: tuple[Candidate, ...]
    changed: tuple[str, ...]
    transitions: tuple[Transition, ...]
    steps: tuple[tuple[str, StepMark], ...]
    report_run: dict[str, str]


def paces(runs: Sequence[RunLife]) -> list[JobPace]:
    """How fast each living run steps, for the planning of the next window."""
    return [JobPace(run.steps, run.period_ns) for run in runs if run.state.alive]


def follow_runs(
    runs: Sequence[RunLife], candidates: Sequence[Candidate], report: Report, troubled: frozenset[str]
) -> RunUpdate:
    """Runs after this window. `troubled` are the runs that an open finding slows: their baselines stand still."""
    follow = _Follow(list(runs), list(candidates), report, troubled)
    follow.sighted()
    follow.unsighted()
    return follow.update()


class _Follow:
    def __init__(
        self, runs: list[RunLife], candidates: list[Candidate], report: Report, troubled: frozenset[str]
    ) -> None:
        self._runs = {run.id: run for run in runs}
        self._before = dict(self._runs)
        self._candidates = candidates
        self._waiting: list[Candidate] = []
        self._report = report
        self._window = report.window
        self._troubled = troubled
        self._transitions: list[Transition] = []
        self._steps: list[tuple[str, StepMark]] = []
        self._report_run: dict[str, str] = {}

    def update(self) -> RunUpdate:
        kept = tuple(run for run in self._runs.values() if self._worth_keeping(run))
        changed = tuple(run.id for run in self._runs.values() if self._before.get(run.id) != run)
        return RunUpdate(
            kept, tuple(self._waiting), changed, tuple(self._transitions), tuple(self._steps), self._report_run
        )

    def _worth_keeping(self, run: RunLife) -> bool:
        return run.state.alive or self._window.end_ns - run.since_ns < FORGET_NS

    def sighted(self) -> None:
        jobs = {job.job.id: job for job in self._report.jobs}
        members = {name: self._names(job) for name, job in jobs.items()}
        matched = _match(members, list(self._runs.values()))
        for name, job in jobs.items():
            run = self._runs.get(matched.get(name, ""))
            if run is None:
                self._perhaps_new(job, members[name], None)
            elif run.state.alive or run.state is LiveState.CRASHED:
                self._follow(run, job, members[name])
            if run is not None and not self._runs[run.id].state.alive and self._trains_again(run, job):
                self._perhaps_new(job, members[name], run)

    def _names(self, job: JobReport) -> tuple[str, ...]:
        return tuple(self._report.addresses[member] for member in job.job.members)

    def _perhaps_new(self, job: JobReport, members: tuple[str, ...], before: RunLife | None) -> None:
        seen = 1 + max((c.windows for c in self._candidates if c.members == members), default=0)
        steps = job.timeline.steps
        fresh = steps.start_ns > (before.silent_since_ns if before else 0)
        if np.count_nonzero(~steps.setup & fresh) < BELIEVED_STEPS and seen < BELIEVED_WINDOWS:
            self._waiting.append(Candidate(members, seen))
            return
        active = _last_active(job)
        first = int(steps.start_ns[fresh].min()) if fresh.any() else self._window.start_ns
        run = RunLife(
            id=self._free_id(job.job.id),
            members=members,
            servers=job.job.servers,
            state=LiveState.STARTED if before is None else LiveState.RESTARTED,
            since_ns=first,
            first_ns=first,
            seen_ns=self._window.end_ns,
            silent_since_ns=active,
            last_step_end_ns=before.silent_since_ns if before else 0,
            restart_of=before.id if before else None,
        )
        self._runs[run.id] = run
        why = "first seen" if before is None else f"its GPUs train again after {before.id} {before.state.value}"
        self._transitions.append(Transition(run.id, first, None, run.state, why))
        self._follow(run, job, members)

    def _free_id(self, wanted: str) -> str:
        """The window's own id; a number after it where an earlier run has it already."""
        taken = {run.id for run in self._runs.values()}
        number, name = 1, wanted
        while name in taken:
            number += 1
            name = f"{wanted}.{number}"
        return name

    def _trains_again(self, run: RunLife, job: JobReport) -> bool:
        return bool((job.timeline.steps.start_ns > run.silent_since_ns).any())

    def _follow(self, run: RunLife, job: JobReport, members: tuple[str, ...]) -> None:
        self._report_run[job.job.id] = run.id
        if not run.state.alive:
            if run.state is LiveState.CRASHED and job.state is JobState.HUNG and not self._trains_again(run, job):
                self._set(run, LiveState.HUNG, run.silent_since_ns, "its ranks still exchange control messages")
            return
        steps = job.timeline.steps
        usual = steps.duration_ns[~steps.setup & (steps.start_ns >= run.first_ns)]
        pace, recent = (int(np.median(usual)), int(np.median(usual[-RECENT_STEPS:]))) if usual.size else (0, 0)
        active = max(run.silent_since_ns, _last_active(job))
        run = replace(
            run,
            members=members,
            servers=job.job.servers,
            seen_ns=self._window.end_ns,
            silent_since_ns=active,
            period_ns=pace or run.period_ns,
            recent_ns=recent or run.recent_ns,
        )
        run = self._record_steps(run, job)
        run = self._baseline(run, usual)
        slow = run.recent_ns > max(SLOWED * run.baseline_ns, SLOWED_HIGH * run.usual_high_ns) > 0
        since = run.slow_since_ns
        run = replace(run, slow_since_ns=(since or self._window.end_ns) if slow else 0)
        state, at, why = self._judged(run, job, slow_before=since > 0)
        self._set(run, state, at, why)

    def _judged(self, run: RunLife, job: JobReport, slow_before: bool) -> tuple[LiveState, int, str]:
        """State, since when, and why. A job is slowed in the second slow window in a row."""
        silence = self._window.end_ns - run.silent_since_ns
        if silence >= max(STOP_SILENCE_NS, STOP_SILENCE_STEPS * run.period_ns):
            return self._stopped(run, job, silence)
        if not run.steps:
            return (LiveState.STARTED if run.restart_of is None else LiveState.RESTARTED), run.since_ns, "no step yet"
        if run.id in self._troubled:
            return LiveState.SLOWED, self._window.end_ns, "a finding slows it"
        if run.slow_since_ns and slow_before:
            ratio = run.recent_ns / run.baseline_ns
            return LiveState.SLOWED, run.slow_since_ns, f"steps take {ratio:.2f} times as long as usual"
        return LiveState.RUNNING, self._window.end_ns, "steps as usual"

    def _stopped(self, run: RunLife, job: JobReport, silence: int) -> tuple[LiveState, int, str]:
        at = run.silent_since_ns
        told = f"silent for {silence / SECOND:.0f} s"
        if job.state is JobState.CRASHED:
            return LiveState.CRASHED, at, f"{told} since the middle of a step"
        if job.state is JobState.HUNG or run.state is LiveState.HUNG:
            return LiveState.HUNG, at, f"{told} in the middle of a step while control messages go on"
        if silence >= max(END_SILENCE_NS, END_SILENCE_STEPS * run.period_ns):
            return LiveState.ENDED, at, f"{told} since the end of a step"
        return LiveState.STALLED, at, told

    def _record_steps(self, run: RunLife, job: JobReport) -> RunLife:
        """Adds the steps that have settled and lie after the last recorded one."""
        steps = job.timeline.steps
        settled = self._window.end_ns - max(SECOND, run.period_ns)
        slack = run.period_ns // 4
        count, last = run.steps, run.last_step_end_ns
        rows = zip(steps.start_ns.tolist(), steps.end_ns.tolist(), steps.setup.tolist(), strict=True)
        for start, end, setup in rows:
            if start < last - slack or end > settled or end <= last:
                continue
            self._steps.append((run.id, StepMark(count, max(start, last), end, bool(setup) and count == 0)))
            count, last = count + 1, end
        return replace(run, steps=count, last_step_end_ns=last)

    def _baseline(self, run: RunLife, usual: Int64) -> RunLife:
        """The usual step time and its spread: learnt in the first minute, then following the job's slow drift."""
        if usual.size < BELIEVED_STEPS or not run.recent_ns:
            return run
        high = int(np.quantile(usual, HIGH_QUANTILE))
        slow_for = self._window.end_ns - run.slow_since_ns if run.slow_since_ns else 0
        if run.id in self._troubled and run.baseline_ns:
            return run
        young = self._window.end_ns - run.first_ns < SETTLED_NS or run.steps < SETTLED_STEPS
        if not run.baseline_ns or young or slow_for >= REBASE_NS:
            return replace(run, baseline_ns=run.period_ns, usual_high_ns=high)
        if run.slow_since_ns or run.recent_ns > max(HEALTHY * run.baseline_ns, run.usual_high_ns):
            return run
        weight = DRIFT if run.recent_ns > run.baseline_ns else SETTLE
        return replace(
            run,
            baseline_ns=int(run.baseline_ns + weight * (run.recent_ns - run.baseline_ns)),
            usual_high_ns=int(run.usual_high_ns + DRIFT * (high - run.usual_high_ns)),
        )

    def unsighted(self) -> None:
        """Runs that the window does not show: gone when they have been silent for all of it, or their GPUs work
        for another job; otherwise nothing is known and nothing changes."""
        sighted = set(self._report_run.values())
        working = {name: run.id for run in self._runs.values() if run.id in sighted for name in run.members}
        for run in list(self._runs.values()):
            if run.id in sighted or not run.state.alive:
                continue
            taken = sum(working.get(name, run.id) != run.id for name in run.members)
            if 2 * taken > len(run.members):
                self._set(run, LiveState.ENDED, run.silent_since_ns, "its GPUs work for another job")
            elif run.silent_since_ns < self._window.start_ns and run.state is not LiveState.HUNG:
                self._set(run, LiveState.ENDED, run.silent_since_ns, "silent for a whole window")

    def _set(self, run: RunLife, state: LiveState, at: int, why: str) -> None:
        if state is not run.state:
            self._transitions.append(Transition(run.id, at, run.state, state, why))
            run = replace(run, state=state, since_ns=at)
        self._runs[run.id] = run


def _match(members: dict[str, tuple[str, ...]], runs: list[RunLife]) -> dict[str, str]:
    """Window's job id → run id: greatest agreement first; the living before the dead, the latest before older ones."""
    pairs = []
    for name, names in members.items():
        here = set(names)
        for run in runs:
            there = set(run.members)
            agreement = len(here & there) / len(here | there)
            if agreement >= SAME_JOB:
                pairs.append((-agreement, not run.state.alive, -run.first_ns, name, run.id))
    matched: dict[str, str] = {}
    for _, _, _, name, run_id in sorted(pairs):
        if name not in matched and run_id not in matched.values():
            matched[name] = run_id
    return matched


def _last_active(job: JobReport) -> int:
    """End of the job's last training message."""
    transfers = job.job.transfers
    rows = transfers.bytes >= TRAINING_BYTES
    if job.job.bulk is not None and transfers.pair_count:
        rows = rows & job.job.bulk[transfers.pair_of_row]
    return int(transfers.end_ns[rows].max()) if rows.any() else 0
