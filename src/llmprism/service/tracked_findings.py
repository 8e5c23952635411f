"""The course of a finding: seen, opened once, updated, closed once.

`sightings` says which sightings are the same finding. One opens at its second sighting, so that one odd window opens
nothing, and only once one of these windows has shown enough steps of its job; a stopped job opens at once, because
`runs` has already waited for the silence. It closes when its end is some time past, when several windows in a row
should have shown it and did not, or when its job is gone. After that the window still holds the old records for a
while: the same fault seen again does not reopen it, one that goes on does open a new finding.

A fault that lasts longer than a window slowly becomes all that the window knows, and is no longer seen in it. An open
finding therefore remembers the runs that were slower than usual while it was seen. As long as one of them has not got
half of that back, the finding is not missed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace

from llmprism.model.finding import Finding
from llmprism.model.flows import Window
from llmprism.model.live import FindingPhase, LiveState, TrackedFinding, TrackedRun
from llmprism.service.joblogs.explanations import explained
from llmprism.service.rules import RULES, LiveRules
from llmprism.service.runs import is_settled
from llmprism.service.sightings import STOPPED_KINDS, Sighting, fits, joined_bouts
from llmprism.units import SECOND

__all__ = ["closed", "follow_findings"]


def follow_findings(
    findings: Sequence[TrackedFinding],
    sightings: Sequence[Sighting],
    runs: Sequence[TrackedRun],
    judged: frozenset[str],
    looked: frozenset[str],
    window: Window,
    rules: LiveRules = RULES,
    *,
    everybody: bool = True,
) -> tuple[tuple[TrackedFinding, ...], tuple[TrackedFinding, ...]]:
    """(all findings to keep in mind, those that changed) after this round of looks.

    `judged` are the runs of which a look shows enough steps: a look with fewer is a sighting, but opens nothing before
    another one has shown enough. `looked` are the runs that were looked at: what is known about others is neither seen
    nor missed. Without `everybody` there were looks at some runs only: nothing is missed of findings about several jobs
    or about jobs that are gone.
    """
    by_id = {run.id: run for run in runs}
    after: dict[str, TrackedFinding] = {tracked.id: tracked for tracked in findings}
    sighted: set[str] = set()
    for sighting in joined_bouts(sightings, rules):
        finding, seen_in = sighting.finding, sighting.window
        if not _believable(finding, by_id):
            continue
        tracked = _same(finding, list(after.values()), sighted, rules)
        if tracked is None:
            if _is_old(finding, seen_in, rules) or not _may_begin(finding, by_id, rules):
                continue
            tracked = _begun(finding, seen_in, after, clear=_is_clear(finding, judged))
        elif tracked.phase is FindingPhase.CLOSED:
            tracked = _after_its_end(tracked, sighting, after, sighted, judged, runs, rules)
            if tracked is None:
                continue
        else:
            seen = _seen_again(tracked, finding, seen_in, rules, clear=_is_clear(finding, judged))
            tracked = explained(tracked, seen, sighting.why)
        tracked = tracked if tracked.why is not None else replace(tracked, why=sighting.why)
        after[tracked.id] = tracked
        sighted.add(tracked.id)
    for key, tracked in list(after.items()):
        if key in sighted:
            tracked = replace(tracked, slow=_slower(tracked.finding, runs, rules))
        if tracked.finding.job in looked or (
            everybody and (tracked.finding.job is None or not _is_alive(tracked, by_id))
        ):
            tracked = _judged(tracked, key in sighted, by_id, runs, window, rules)
        after[key] = tracked
    longest = max((run.reach_ns for run in runs), default=0)
    start = min(window.start_ns, window.end_ns - longest)
    kept = tuple(tracked for tracked in after.values() if _worth_keeping(tracked, start, rules))
    before = {tracked.id: tracked for tracked in findings}
    changed = tuple(
        tracked
        for key, tracked in after.items()
        if tracked.phase is not FindingPhase.PENDING and before.get(key) != tracked
    )
    return kept, changed


def _after_its_end(
    closed_one: TrackedFinding,
    sighting: Sighting,
    after: dict[str, TrackedFinding],
    sighted: set[str],
    judged: frozenset[str],
    runs: Sequence[TrackedRun],
    rules: LiveRules,
) -> TrackedFinding | None:
    """What a sighting of a finding that was closed before is: one that is known by now, a new one, or (None) the old
    one seen once more, perhaps in a window that does not show its end: then nobody is slower than usual now."""
    end = closed_one.finding.end_ns or closed_one.closed_ns
    if sighting.finding.start_ns < end and not _slower(sighting.finding, runs, rules):
        return None
    again = _again(closed_one, sighting.finding, sighting.window, rules)
    if again is None:
        return None
    known = _same(again, [one for one in after.values() if one.phase is not FindingPhase.CLOSED], sighted, rules)
    clear = _is_clear(again, judged)
    if known is None:
        return _begun(again, sighting.window, after, clear=clear)
    return _seen_again(known, again, sighting.window, rules, clear=clear)


def _is_alive(tracked: TrackedFinding, runs: dict[str, TrackedRun]) -> bool:
    run = runs.get(tracked.finding.job or "")
    return run is not None and run.state.alive and run.state is not LiveState.HUNG


def _is_old(finding: Finding, window: Window, rules: LiveRules) -> bool:
    """Did it end so long ago that many looks have seen all of it and found nothing? Then only the edge of this one
    makes it look like a finding."""
    return finding.end_ns is not None and window.end_ns - finding.end_ns > rules.findings.old * (
        window.end_ns - window.start_ns
    )


def _is_clear(finding: Finding, judged: frozenset[str]) -> bool:
    return finding.job is None or finding.job in judged


def _may_begin(finding: Finding, runs: dict[str, TrackedRun], rules: LiveRules) -> bool:
    """The first steps of a job differ for many reasons, so they accuse nobody. Once a job is over, the silence after
    it is all that is new: it tells why the job stopped and nothing else."""
    run = runs.get(finding.job or "")
    return (
        run is None
        or finding.kind in STOPPED_KINDS
        or (run.state.alive and is_settled(run, rules) and run.steps >= rules.findings.judged_steps)
    )


def _believable(finding: Finding, runs: dict[str, TrackedRun]) -> bool:
    """A job is not said to have stopped before its silence is believed, and nothing that begins while nobody reported
    on it is its fault."""
    run = runs.get(finding.job or "")
    if finding.job is None or run is None:
        return finding.job is None
    if run.unwatched_to_ns and _began_unwatched(finding, run):
        return False
    return finding.kind not in STOPPED_KINDS or run.state in (LiveState.HUNG, LiveState.CRASHED)


def _began_unwatched(finding: Finding, run: TrackedRun) -> bool:
    slack = max(SECOND, run.period_ns)
    return run.unwatched_from_ns - slack <= finding.start_ns <= run.unwatched_to_ns + slack


def _same(
    finding: Finding, findings: list[TrackedFinding], sighted: set[str], rules: LiveRules
) -> TrackedFinding | None:
    """The tracked finding that this is a sighting of: a closed one where all of it lies in that one's time, else those
    not closed first, then the latest."""
    fitting = [tracked for tracked in findings if tracked.id not in sighted and fits(tracked.finding, finding, rules)]
    closed_ones = [tracked for tracked in fitting if tracked.phase is FindingPhase.CLOSED]
    past = [tracked for tracked in closed_ones if _lies_in(finding, tracked.finding, rules)]
    not_closed = [tracked for tracked in fitting if tracked.phase is not FindingPhase.CLOSED]
    return max(past or not_closed or fitting, key=lambda tracked: tracked.finding.start_ns, default=None)


def _lies_in(finding: Finding, before: Finding, rules: LiveRules) -> bool:
    """Has the finding begun and ended in the time of another one?"""
    if finding.end_ns is None or before.end_ns is None:
        return False
    slack = rules.findings.close_after_ns
    return finding.start_ns >= before.start_ns - slack and finding.end_ns <= before.end_ns + slack


def _again(tracked: TrackedFinding, finding: Finding, window: Window, rules: LiveRules) -> Finding | None:
    """The part of a finding that lies clearly after the close of the earlier one."""
    end = tracked.finding.end_ns or tracked.closed_ns
    last = finding.end_ns if finding.end_ns is not None else window.end_ns
    if last <= end + rules.findings.close_after_ns:
        return None
    return replace(finding, start_ns=max(finding.start_ns, end))


def _begun(finding: Finding, window: Window, others: dict[str, TrackedFinding], *, clear: bool) -> TrackedFinding:
    text = json.dumps([finding.job, finding.kind, finding.where.type, finding.where.id, finding.start_ns])
    number, name = 0, ""
    while not name or name in others:
        name = "f-" + hashlib.sha256(f"{text}{number or ''}".encode()).hexdigest()[:12]
        number += 1
    phase = FindingPhase.OPEN if finding.kind in STOPPED_KINDS else FindingPhase.PENDING
    opened = window.end_ns if phase is FindingPhase.OPEN else 0
    return TrackedFinding(name, finding, phase, opened_ns=opened, updated_ns=window.end_ns, clear=clear)


def _seen_again(
    tracked: TrackedFinding, finding: Finding, window: Window, rules: LiveRules, *, clear: bool
) -> TrackedFinding:
    sightings, clear = tracked.sightings + 1, tracked.clear or clear
    rule, merged = rules.findings, _merged(tracked, finding, window)
    sure = sightings >= rule.open_sightings and merged.confidence >= rule.open_confidence
    opens = tracked.phase is FindingPhase.PENDING and sure and clear
    return replace(
        tracked,
        finding=merged,
        phase=FindingPhase.OPEN if opens else tracked.phase,
        opened_ns=window.end_ns if opens else tracked.opened_ns,
        sightings=sightings,
        missed=0,
        updated_ns=window.end_ns,
        clear=clear,
    )


def _merged(tracked: TrackedFinding, new: Finding, window: Window) -> Finding:
    """The newest view. Where the window has lost the start, the oldest start and the cost since last time added."""
    old = tracked.finding
    cut_off = new.start_ns > old.start_ns + SECOND and old.start_ns < window.start_ns
    if not cut_off:
        return new if _judges_start(tracked, new, window) else replace(new, start_ns=min(old.start_ns, new.start_ns))
    end = new.end_ns if new.end_ns is not None else window.end_ns
    fresh = max(0, end - max(tracked.updated_ns, new.start_ns)) / max(end - new.start_ns, 1)
    lost = round(old.lost_gpu_seconds + new.lost_gpu_seconds * min(fresh, 1.0), 3)
    return replace(new, start_ns=old.start_ns, lost_gpu_seconds=lost)


def _judges_start(tracked: TrackedFinding, new: Finding, window: Window) -> bool:
    """Is the new start a better view of the same onset?

    It is where the window shows at least as much time before the finding as since it began: an early view had fewer
    slow steps to go by. A start after the window that opened the finding is another bout of the same fault.
    """
    old = tracked.finding
    enough_before = old.start_ns - window.start_ns >= window.end_ns - old.start_ns
    return enough_before and new.start_ns <= (tracked.opened_ns or tracked.updated_ns)


def _judged(
    tracked: TrackedFinding,
    sighted: bool,
    by_id: dict[str, TrackedRun],
    runs: Sequence[TrackedRun],
    window: Window,
    rules: LiveRules,
) -> TrackedFinding:
    if tracked.phase is FindingPhase.CLOSED:
        return tracked
    run = by_id.get(tracked.finding.job or "")
    if not sighted:
        tracked = replace(tracked, missed=0 if _persists(tracked, by_id, window, rules) else tracked.missed + 1)
    if tracked.phase is FindingPhase.PENDING:
        return tracked
    if tracked.finding.kind in STOPPED_KINDS:
        return _stopped_judged(tracked, run, runs, window, rules)
    end = tracked.finding.end_ns
    if end is not None and window.end_ns - end >= rules.findings.close_after_ns:
        return closed(tracked, end, "it ended", window)
    if run is not None and not run.state.alive:
        return closed(tracked, run.silent_since_ns, f"the job {run.state.value}", window)
    if tracked.missed >= rules.findings.close_missed:
        return closed(tracked, end or tracked.updated_ns, "no longer seen", window)
    return tracked


def _slower(finding: Finding, runs: Sequence[TrackedRun], rules: LiveRules) -> tuple[tuple[str, int], ...]:
    """The living runs that the finding may slow and that are slower than usual, with the step time half way back."""
    return tuple(
        (run.id, (run.recent_ns + run.baseline_ns) // 2)
        for run in runs
        if run.state.alive
        and finding.job in (None, run.id)
        and run.recent_ns > rules.findings.slower * run.baseline_ns > 0
    )


def _persists(tracked: TrackedFinding, runs: dict[str, TrackedRun], window: Window, rules: LiveRules) -> bool:
    """Is what the finding did to the runs still going on?"""
    if tracked.phase is not FindingPhase.OPEN or tracked.finding.end_ns is not None:
        return False
    if window.end_ns - tracked.updated_ns > rules.runs.rebase_ns:
        return False
    return any(name in runs and runs[name].state.alive and runs[name].recent_ns > least for name, least in tracked.slow)


def _stopped_judged(
    tracked: TrackedFinding, run: TrackedRun | None, runs: Sequence[TrackedRun], window: Window, rules: LiveRules
) -> TrackedFinding:
    if (
        run is not None
        and run.state not in (LiveState.HUNG, LiveState.CRASHED)
        and tracked.missed >= rules.findings.resumed_missed
    ):
        return closed(tracked, run.since_ns, f"the job is {run.state.value}", window)
    restarted = next(
        (one for one in runs if one.restart_of is not None and one.restart_of == tracked.finding.job), None
    )
    if restarted is not None:
        return closed(tracked, restarted.first_ns, f"restarted as {restarted.id}", window)
    if window.end_ns - tracked.finding.start_ns >= rules.findings.stopped_open_ns:
        return closed(tracked, window.end_ns, "an hour old", window)
    if run is None or tracked.finding.end_ns is not None:
        return tracked
    lost = round(len(run.members) * max(0, window.end_ns - run.silent_since_ns) / 1e9, 3)
    return replace(tracked, finding=replace(tracked.finding, lost_gpu_seconds=lost))


def closed(tracked: TrackedFinding, end_ns: int, reason: str, window: Window) -> TrackedFinding:
    """The finding after its end."""
    finding = replace(tracked.finding, end_ns=max(end_ns, tracked.finding.start_ns))
    return replace(
        tracked,
        finding=finding,
        phase=FindingPhase.CLOSED,
        closed_ns=window.end_ns,
        updated_ns=window.end_ns,
        reason=reason,
    )


def _worth_keeping(tracked: TrackedFinding, start_ns: int, rules: LiveRules) -> bool:
    if tracked.phase is FindingPhase.PENDING:
        return tracked.missed < rules.findings.pending_missed
    if tracked.phase is FindingPhase.CLOSED:
        return (tracked.finding.end_ns or 0) >= start_ns - rules.findings.close_after_ns
    return True
