"""Which job of this window is which job of the last: runs with ids that never change, their states and their steps.

A new run is believed once its steps show clearly, or it has been seen several times with the same members: the first
seconds of a job, when only some of its ranks talk, look like a smaller job. It is *settled*, and its steps are recorded
and judged, once they have shown clearly twice in a row; until then its looks grow longer. A run that ended or crashed
and whose members train again is a new run that remembers its predecessor.

A run whose steps are longer than a window shows is followed in looks of its own length; the base window then only tells
that it is active. The windows' ends cut silences at arbitrary points, so a stop is believed only after a silence that
is long both in seconds and for this job.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from llmprism.model.finding import FindingKind
from llmprism.model.job import JobState
from llmprism.model.live import LiveState, StepMark, TrackedRun
from llmprism.model.report import JobReport
from llmprism.service.looks import Look, is_clear, last_active, longest_pause, member_names, usual_steps
from llmprism.service.matching import inside, match, whole_of
from llmprism.service.pace import is_slow, paced, recorded, with_baseline
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.step_memory import with_vote
from llmprism.service.windows import reach_for, reach_longer
from llmprism.units import SECOND

__all__ = ["RunUpdate", "Transition", "UnconfirmedJob", "follow_runs", "is_settled", "nobody", "stop_silence"]


@dataclass(frozen=True, slots=True)
class UnconfirmedJob:
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
    """What one round of looks did to the runs.

    `runs` are those to keep in mind, `changed` those that differ from before, also when they need not be kept.
    `report_run` maps the base look's job ids to runs; `followed` does so per look for the runs that it judged.
    """

    runs: tuple[TrackedRun, ...]
    candidates: tuple[UnconfirmedJob, ...]
    changed: tuple[TrackedRun, ...]
    transitions: tuple[Transition, ...]
    steps: tuple[tuple[str, StepMark], ...]
    report_run: dict[str, str]
    followed: tuple[dict[str, str], ...]


def nobody(_name: str) -> bool:
    return False


def is_settled(run: TrackedRun, rules: LiveRules = RULES) -> bool:
    return run.clear >= rules.runs.settled_looks


def stop_silence(run: TrackedRun, rules: LiveRules = RULES) -> float:
    """Silence in ns from which this run may have stopped."""
    pause = min(run.period_ns, run.pause_ns) if run.pause_ns else run.period_ns
    return max(rules.runs.stop_silence_ns, rules.runs.stop_silence_steps * pause)


def follow_runs(
    runs: Sequence[TrackedRun],
    candidates: Sequence[UnconfirmedJob],
    looks: Sequence[Look],
    troubled: frozenset[str],
    rules: LiveRules,
    taken: Callable[[str], bool] = nobody,
    unwatched: frozenset[str] = frozenset(),
) -> RunUpdate:
    """Runs after this round; the first look is the base one. `troubled` are the runs that an open finding slows: their
    baselines stand still. `taken` knows the ids of runs long past, which no new run may get. Of the runs `unwatched`
    nobody reports now: nothing is concluded about them."""
    follow = _Follow(runs, candidates, looks[0], troubled, rules, taken, unwatched)
    for look in looks:
        follow.sighted(look)
    if looks[0].runs is None:
        follow.unsighted()
    return follow.update()


class _Follow:
    def __init__(
        self,
        runs: Sequence[TrackedRun],
        candidates: Sequence[UnconfirmedJob],
        base: Look,
        troubled: frozenset[str],
        rules: LiveRules,
        taken: Callable[[str], bool],
        unwatched: frozenset[str],
    ) -> None:
        self._unwatched = unwatched
        self._runs = {run.id: run for run in runs}
        self._before = dict(self._runs)
        self._candidates = candidates
        self._waiting: list[UnconfirmedJob] = []
        self._end = base.window.end_ns
        self._troubled = troubled
        self._rules = rules
        self._taken = taken
        self._transitions: list[Transition] = []
        self._steps: list[tuple[str, StepMark]] = []
        self._report_run: dict[str, str] = {}
        self._followed: list[dict[str, str]] = []

    def update(self) -> RunUpdate:
        kept = tuple(
            run
            for run in self._runs.values()
            if run.state.alive or self._end - run.since_ns < self._rules.runs.forget_ns
        )
        changed = tuple(run for run in self._runs.values() if self._before.get(run.id) != run)
        moves, steps = tuple(self._transitions), tuple(self._steps)
        followed = tuple(self._followed)
        return RunUpdate(kept, tuple(self._waiting), changed, moves, steps, self._report_run, followed)

    def sighted(self, look: Look) -> None:
        self._followed.append({})
        jobs = {job.job.id: (job, member_names(look, job)) for job in look.report.jobs}
        watched = [run for run in self._runs.values() if look.runs is None or run.id in look.runs]
        matched = match({name: names for name, (_, names) in jobs.items()}, watched, self._rules)
        for name, (job, names) in jobs.items():
            run = self._runs.get(matched.get(name, ""))
            if run is not None and run.id in self._unwatched:
                self._report_run[name] = run.id
            elif look.runs is None:
                self._sighted_at_base(look, job, names, run)
            else:
                self._sighted_longer(look, job, names, run, watched)

    def _sighted_at_base(self, look: Look, job: JobReport, names: tuple[str, ...], run: TrackedRun | None) -> None:
        whole = self._kin(look, job, names, run) or self._whole(names, run)
        if whole is not None and self._is_part(whole, job):
            self._pulse(whole, job, names)
            return
        if run is None:
            self._perhaps_new(look, job, names, None)
            return
        stood_still_ns = self._stood_still_until(look, job, run)
        if stood_still_ns is not None and last_active(job) - stood_still_ns < run.period_ns:
            self._report_run[job.job.id] = run.id  # the first messages of a job that begins anew look alike
            return
        if stood_still_ns is not None:
            self._set(run, LiveState.RUNNING, stood_still_ns, "it goes on in the step in which it stood still")
            run = self._runs[run.id]
        if run.state.alive and run.reach_ns > self._rules.windows.length:
            self._pulse(run, job, names)
        elif run.state.alive or run.state is LiveState.CRASHED:
            self._follow(look, run, job, names)
        else:
            self._report_run[job.job.id] = run.id
        run = self._runs[run.id]  # as it is after this look
        if not run.state.alive and _trains_again(run, job):
            self._perhaps_new(look, job, names, run)

    def _stood_still_until(self, look: Look, job: JobReport, run: TrackedRun) -> int | None:
        """When a run that was taken for crashed went on in the step in which it stood still, as this look shows it: it
        has not been started anew, and is the same run, alive. None where it has not."""
        if run.state is not LiveState.CRASHED or last_active(job) <= run.silent_since_ns:
            return None
        slack = max(SECOND, run.period_ns)
        ends = [
            one.end_ns
            for one in look.report.findings
            if one.kind is FindingKind.STALL
            and one.job == job.job.id
            and one.end_ns is not None
            and abs(one.start_ns - run.silent_since_ns) <= slack
        ]
        return max(ends, default=None)

    def _kin(self, look: Look, job: JobReport, names: tuple[str, ...], run: TrackedRun | None) -> TrackedRun | None:
        """A run that is not settled and shares half of its members with this job, whose steps are not clear either: the
        window is too short for both, and shows another part of the same job each time."""
        if (run is not None and run.state.alive) or is_clear(job, 0, look.window, self._rules):
            return None
        here = frozenset(names)
        unsettled = [one for one in self._runs.values() if one.state.alive and not is_settled(one, self._rules)]
        shared = {one.id: len(here & frozenset(one.members)) for one in unsettled}
        kin = [one for one in unsettled if 2 * shared[one.id] >= min(len(here), len(one.members)) > 0]
        return max(kin, key=lambda one: (shared[one.id], -one.first_ns), default=None)

    def _whole(self, names: tuple[str, ...], run: TrackedRun | None) -> TrackedRun | None:
        """The run that this job may be only a part of, although it fits another one that is dead, or the same one."""
        if run is None:
            return whole_of(names, list(self._runs.values()), self._rules)
        if not run.state.alive:
            return whole_of(names, [one for one in self._runs.values() if one.state.alive], self._rules)
        small = len(names) <= self._rules.runs.part * len(run.members) and inside(
            names, frozenset(run.members), self._rules
        )
        return run if small and is_settled(run, self._rules) else None

    def _is_part(self, whole: TrackedRun, job: JobReport) -> bool:
        """Is this only a part of a run? Of a dead one when it shows nothing new, of a living one unless that has not
        been seen as a whole for long."""
        if not whole.state.alive or whole.state is LiveState.HUNG:
            return last_active(job) <= whole.silent_since_ns
        reach = max(whole.reach_ns, self._rules.windows.length)
        return self._end - max(whole.whole_ns, whole.first_ns) <= self._rules.runs.parts_windows * reach

    def _pulse(self, run: TrackedRun, job: JobReport, names: tuple[str, ...]) -> None:
        """The run is active; no more can be said from this look."""
        self._report_run[job.job.id] = run.id
        if not run.state.alive:
            return
        active = max(run.silent_since_ns, last_active(job))
        run = replace(run, seen_ns=self._end, silent_since_ns=active)
        if not is_settled(run, self._rules):
            run = replace(run, members=_joined(run.members, names))
        if run.state in (LiveState.STALLED, LiveState.HUNG) and self._end - active < stop_silence(run, self._rules):
            self._set(run, LiveState.RUNNING if run.steps else LiveState.STARTED, active, "it trains again")
        else:
            self._runs[run.id] = run

    def _perhaps_new(self, look: Look, job: JobReport, names: tuple[str, ...], before: TrackedRun | None) -> None:
        seen = 1 + max((c.windows for c in self._candidates if c.members == names), default=0)
        since = before.silent_since_ns if before else 0
        if not is_clear(job, since, look.window, self._rules) and seen < self._rules.runs.believed_windows:
            self._waiting.append(UnconfirmedJob(names, seen))
            return
        starts = job.job.transfers.start_ns[job.job.transfers.start_ns > since]
        first = int(starts.min()) if starts.size else max(look.window.start_ns, since)
        run = TrackedRun(
            id=self._free_id(job.job.id),
            members=names,
            servers=job.job.servers,
            state=LiveState.STARTED if before is None else LiveState.RESTARTED,
            since_ns=first,
            first_ns=first,
            seen_ns=self._end,
            silent_since_ns=last_active(job),
            last_step_end_ns=since,
            restart_of=before.id if before else None,
        )
        self._runs[run.id] = run
        why = "first seen" if before is None else f"its GPUs train again after {before.id} {before.state.value}"
        self._transitions.append(Transition(run.id, first, None, run.state, why))
        self._follow(look, run, job, names)

    def _free_id(self, wanted: str) -> str:
        """The window's own id; a number after it where an earlier run has it already."""
        number, name = 1, wanted
        while name in self._runs or self._taken(name):
            number += 1
            name = f"{wanted}.{number}"
        return name

    def _sighted_longer(
        self, look: Look, job: JobReport, names: tuple[str, ...], run: TrackedRun | None, watched: list[TrackedRun]
    ) -> None:
        everybody = frozenset(names)
        parts = [
            one
            for one in watched
            if not is_settled(one, self._rules) and one.state.alive and inside(one.members, everybody, self._rules)
        ]
        if run is None:
            run = max(parts, key=lambda one: (len(one.members), -one.first_ns), default=None)
        if run is None or not run.state.alive:
            return
        self._follow(look, self._runs[run.id], job, names)
        for part in parts:
            if part.id != run.id:
                self._set(self._runs[part.id], LiveState.ENDED, part.silent_since_ns, f"it is a part of {run.id}")

    def _follow(self, look: Look, run: TrackedRun, job: JobReport, names: tuple[str, ...]) -> None:
        if look.runs is None:
            self._report_run[job.job.id] = run.id
        self._followed[-1][job.job.id] = run.id
        if not run.state.alive:
            if run.state is LiveState.CRASHED and job.state is JobState.HUNG and not _trains_again(run, job):
                self._set(run, LiveState.HUNG, run.silent_since_ns, "its ranks still exchange control messages")
            return
        active = last_active(job)
        silent = active <= run.silent_since_ns and is_settled(run, self._rules)
        run = replace(run, seen_ns=self._end, silent_since_ns=max(run.silent_since_ns, active))
        if not silent:
            clear = is_settled(run, self._rules) or is_clear(job, run.first_ns, look.window, self._rules)
            members = names if clear else _joined(run.members, names)
            run = self._cleared(replace(run, members=members, servers=job.job.servers), job, look)
        if not is_settled(run, self._rules):
            state = LiveState.STARTED if run.restart_of is None else LiveState.RESTARTED
            self._set(run, state, run.since_ns, "no clear steps yet")
            return
        since = run.slow_since_ns
        run = self._stepped(run, job, moves=not silent)
        self._set(run, *self._judged(run, job, slow_before=since > 0))

    def _stepped(self, run: TrackedRun, job: JobReport, *, moves: bool) -> TrackedRun:
        """The run with its latest steps. While it is silent the look loses the beginning of what it knew, and no step
        can be new except the last."""
        usual = usual_steps(job, run.first_ns)
        if moves:
            run = paced(run, usual, self._rules)
        run, marks = recorded(run, job, self._end)
        self._steps += [(run.id, mark) for mark in marks]
        if not moves:
            return run
        run = with_baseline(run, usual, self._end, self._rules, troubled=run.id in self._troubled)
        return replace(run, slow_since_ns=(run.slow_since_ns or self._end) if is_slow(run, self._rules) else 0)

    def _cleared(self, run: TrackedRun, job: JobReport, look: Look) -> TrackedRun:
        """The run with what this look is worth: steps that show clearly settle it, else its looks grow longer."""
        if is_clear(job, run.first_ns, look.window, self._rules):
            period = paced(run, usual_steps(job, run.first_ns), self._rules).period_ns
            pause = longest_pause(job, int(job.timeline.steps.start_ns[0]))
            reach = reach_for(period, self._rules.windows)
            known = self._before.get(run.id, run).members == run.members
            step_bytes = 0 if run.id in self._troubled else job.layout.step_bytes
            run = with_vote(run, step_bytes, self._end, self._rules, known=known)
            return replace(run, clear=run.clear + 1, whole_ns=self._end, pause_ns=pause, reach_ns=reach)
        if is_settled(run, self._rules):
            return run
        aged = self._end - run.first_ns >= look.reach_ns
        reach = reach_longer(look.reach_ns, self._rules.windows) if aged else max(run.reach_ns, look.reach_ns)
        return replace(run, clear=0, reach_ns=reach)

    def _judged(self, run: TrackedRun, job: JobReport, slow_before: bool) -> tuple[LiveState, int, str]:
        """State, since when, and why. A job is slowed in the second slow window in a row."""
        silence = self._end - run.silent_since_ns
        if silence >= stop_silence(run, self._rules):
            return self._stopped(run, job, silence)
        if not run.steps:
            return (LiveState.STARTED if run.restart_of is None else LiveState.RESTARTED), run.since_ns, "no step yet"
        if run.id in self._troubled:
            return LiveState.SLOWED, self._end, "a finding slows it"
        if run.slow_since_ns and slow_before:
            ratio = run.recent_ns / run.baseline_ns
            return LiveState.SLOWED, run.slow_since_ns, f"steps take {ratio:.2f} times as long as usual"
        return LiveState.RUNNING, self._end, "steps as usual"

    def _stopped(self, run: TrackedRun, job: JobReport, silence: int) -> tuple[LiveState, int, str]:
        at = run.silent_since_ns
        silent = f"silent for {silence / SECOND:.0f} s"
        if job.state is JobState.CRASHED:
            return LiveState.CRASHED, at, f"{silent} since the middle of a step"
        if job.state is JobState.HUNG or run.state is LiveState.HUNG:
            return LiveState.HUNG, at, f"{silent} in the middle of a step while control messages go on"
        if silence >= max(self._rules.runs.end_silence_ns, self._rules.runs.end_silence_steps * run.period_ns):
            return LiveState.ENDED, at, f"{silent} since the end of a step"
        return LiveState.STALLED, at, silent

    def unsighted(self) -> None:
        """Runs that no look shows: gone when they have been silent for as long as a look at them is, or their GPUs
        work for another job; otherwise nothing is known and nothing changes."""
        sighted = {*self._report_run.values(), *(run for one in self._followed for run in one.values())}
        working = {name: run.id for run in self._runs.values() if run.id in sighted for name in run.members}
        for run in list(self._runs.values()):
            if run.id in sighted or not run.state.alive or run.id in self._unwatched:
                continue
            taken = sum(working.get(name, run.id) != run.id for name in run.members)
            silence = self._end - run.silent_since_ns
            if 2 * taken > len(run.members):
                self._set(run, LiveState.ENDED, run.silent_since_ns, "its GPUs work for another job")
            elif silence > self._longest_silence(run):
                self._set(run, LiveState.ENDED, run.silent_since_ns, f"silent for {silence / SECOND:.0f} s")

    def _longest_silence(self, run: TrackedRun) -> int:
        if run.state is LiveState.HUNG:
            return self._rules.runs.hung_ns
        if not is_settled(run, self._rules):
            return max(self._rules.runs.unsettled_windows * self._rules.windows.length, run.reach_ns)
        return max(self._rules.windows.length, run.reach_ns)

    def _set(self, run: TrackedRun, state: LiveState, at: int, why: str) -> None:
        if state is not run.state:
            self._transitions.append(Transition(run.id, at, run.state, state, why))
            run = replace(run, state=state, since_ns=at)
        self._runs[run.id] = run


def _joined(members: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*members, *more)))


def _trains_again(run: TrackedRun, job: JobReport) -> bool:
    return bool((job.timeline.steps.start_ns > run.silent_since_ns).any())
