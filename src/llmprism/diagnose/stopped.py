"""Hang and crash: a job whose traffic ends in the middle of a step (`endings` says how and through whom).

A job that begins no further step pauses, for an evaluation or a checkpoint, or hangs in its first computation: its
ranks live on, nothing goes to storage, and the silence is much longer than any before. Nobody can be named then.

Catches: a killed, frozen or lost rank, from the first incomplete step. Must not shout at: jobs that end, records that
end because the window does, pauses between steps. Tested with the crash and hang captures against all others.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Final

import numpy as np

from llmprism.diagnose.byte_curves import hold_the_training
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.endings import Ending, final_ending
from llmprism.diagnose.probes import without_probes
from llmprism.diagnose.restarts import inner_endings
from llmprism.diagnose.rhythm import with_whole_steps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Alternative, Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline

__all__ = ["DETECTOR", "find_stopped", "is_settled", "job_state"]


def is_settled(job: Job, timeline: Timeline, window: Window, rules: FaultRules = RULES) -> bool:
    """Have enough steps been seen, with most of the training in them, to know what is usual for the job?"""
    steps = timeline.steps
    if steps.count < rules.endings.few_steps or not hold_the_training(job, steps, rules):
        return False
    first = int(job.transfers.start_ns[job.transfers.pair_offsets[:-1]].min())
    from_the_first = first - window.start_ns < float(np.median(steps.duration_ns)) and not steps.setup.any()
    return steps.count >= rules.endings.settled_steps or from_the_first


def job_state(job: Job, timeline: Timeline, window: Window, rules: FaultRules = RULES) -> JobState:
    """Running, ended, crashed or hung at the end of the window."""
    timeline, job = with_whole_steps(timeline, rules), without_probes(job, rules)
    ending = final_ending(job, timeline, window, rules)
    if ending is None:
        return JobState.UNKNOWN
    if ending.broken_off and not is_settled(job, timeline, window, rules):
        return JobState.STARTING  # loading, compiling and warming up look like breaking off
    ended = ending.state is JobState.ENDED
    if ended and _stands_still(job, timeline, ending, rules) and is_settled(job, timeline, window, rules):
        return JobState.HUNG
    return ending.state


def find_stopped(
    job: Job, timeline: Timeline, window: Window, state: JobState, rules: FaultRules = RULES
) -> list[Finding]:
    """One finding for each time that the job broke off; its state tells whether it has done so for good."""
    endings, job = inner_endings(job, timeline, rules), without_probes(job, rules)
    final = final_ending(job, timeline, window, rules) if state in (JobState.CRASHED, JobState.HUNG) else None
    findings = [_finding(job, timeline, ending, window, ending.state, rules) for ending in endings]
    return findings if final is None else [*findings, _finding(job, timeline, final, window, state, rules)]


def _stands_still(job: Job, timeline: Timeline, ending: Ending, rules: FaultRules) -> bool:
    """Do the ranks of a job that begins no further step live on for much longer than it ever paused?"""
    longest = rules.endings.hang_growth * float(np.diff(timeline.steps.end_ns).max())
    rule, period = rules.endings, ending.period_ns
    long = min(max(rule.hang_many_steps * period, rule.short_hang_ns), max(rule.hang_steps * period, rule.hang_ns))
    quiet = max(long, longest)
    since = max(ending.last_ns, job.outside_until_ns)
    if ending.alive_ns - since <= quiet:
        return False
    transfers = job.transfers
    control = transfers.bytes < MESSAGE_FLOOR_BYTES
    before, after = control & (transfers.start_ns <= since), control & (transfers.start_ns > since + quiet / 2)
    source = transfers.pair_src[transfers.pair_of_row]
    moments = np.sort(transfers.start_ns[control & (transfers.start_ns > since)])
    if np.diff(np.append(since, moments)).max(initial=0) > rules.endings.break_ns:
        return False  # those that talk after a break are the next job's
    usual, heard = np.unique(source[before]), np.unique(source[after])
    return bool(usual.size and np.isin(usual, heard).mean() >= rules.endings.heard)


def _finding(
    job: Job, timeline: Timeline, ending: Ending, window: Window, state: JobState, rules: FaultRules
) -> Finding:
    hung = state is JobState.HUNG
    kind, place = FindingKind.HANG if hung else FindingKind.CRASH, _place_confidence(ending, rules)
    lost = _lost_ns(timeline, ending, window)
    return Finding(
        kind=kind,
        job=job.id,
        where=_where(job, ending.culprit),
        start_ns=ending.since_ns if ending.broken_off else ending.last_ns,
        end_ns=ending.resumed_ns,
        severity=1.0,
        confidence=round(place * ending.kind_sure, 3),
        lost_gpu_seconds=round(lost / 1e9 * len(job.members), 3),
        summary=_summary(job, ending, rules, hung=hung),
        evidence=_evidence(ending),
        alternatives=_alternatives(job, ending, kind, place, rules),
    )


def _alternatives(
    job: Job, ending: Ending, kind: FindingKind, place: float, rules: FaultRules
) -> tuple[Alternative, ...]:
    """The other kind at the same place, and the members that may be to blame instead, or where nobody surely is; the
    likeliest first."""
    other = FindingKind.CRASH if kind is FindingKind.HANG else FindingKind.HANG
    least, sure = rules.who_stopped.least_listed, ending.sure * ending.kind_sure
    listed = [(place * (1.0 - ending.kind_sure), other, ending.culprit)]
    listed += [(chance * sure, kind, row) for row, chance in ending.suspects]
    listed.sort(key=lambda one: -one[0])
    return tuple(Alternative(what, _where(job, row), round(sure, 3)) for sure, what, row in listed if sure >= least)


def _place_confidence(ending: Ending, rules: FaultRules) -> float:
    """How likely the job broke off through the culprit, whether that died or hangs; low where it has not been missing
    for long, and may go on, or where the job may evaluate."""
    rule, period = rules.endings, ending.period_ns
    if not ending.broken_off and ending.alive_ns - ending.last_ns < max(rule.hang_ns, rule.hang_steps * period):
        return rule.sure_pause
    if ending.culprit < 0:
        return min(rule.sure_nobody, ending.sure)
    watched = ending.last_ns - ending.since_ns + ending.silence_ns
    early = ending.state is JobState.HUNG and watched < max(rule.watched_steps * period, rule.watched_ns)
    sure = ending.chance * ending.sure
    return min(sure, rule.sure_early) if early else sure


def _evidence(ending: Ending) -> tuple[Evidence, ...]:
    silence = Evidence("seconds without training messages after the last one", round(ending.silence_ns / 1e9, 3))
    if ending.culprit < 0:
        return (silence,)
    return (
        Evidence(
            "seconds that others went on after its message was due",
            round((ending.last_ns - ending.since_ns) / 1e9, 3),
            0.0,
        ),
        Evidence("seconds from then until the next member was overdue", round(ending.lead_ns / 1e9, 3)),
        silence,
    )


def _lost_ns(timeline: Timeline, ending: Ending, window: Window) -> float:
    """From the start of the step that broke off, which is lost, to the end of the next one less what it should take."""
    steps = timeline.steps
    if ending.resumed_ns is None or ending.step >= steps.count:
        return float(max(window.end_ns - ending.begun_ns, 0))
    return float(max(int(steps.end_ns[ending.step]) - ending.begun_ns - ending.period_ns, 0.0))


def _where(job: Job, row: int) -> Where:
    if row < 0:
        return Where(WhereType.JOB, job.id)
    return Where(WhereType.GPU, job.transfers.addresses[job.members[row]])


def _summary(job: Job, ending: Ending, rules: FaultRules, *, hung: bool) -> str:
    row = ending.culprit
    if hung and not ending.broken_off:
        quiet = ending.silence_ns / 1e9
        advice = "take stack dumps and look for a rank that computes or waits for data; no fault if it evaluates"
        return f"The job has not begun step {ending.step} for {quiet:.0f} s although its ranks are alive: {advice}."
    who = f"GPU {job.transfers.addresses[job.members[row]]}" if row >= 0 else "A GPU"
    who = f"Most likely {who}" if row >= 0 and ending.chance < rules.who_stopped.plainly else who
    others = f"the job's other {len(job.members) - 1} GPUs stopped with it"
    if ending.kind_sure < rules.who_stopped.plainly:
        others += "; it may have died" if hung else "; it may only hang"
    if hung:
        advice = "take a stack dump of that rank, check its GPU for an Xid and its NIC for link flaps"
        return f"{who} fell silent in step {ending.step} and {others}: {advice}."
    if ending.resumed_ns is not None:
        away = (ending.resumed_ns - ending.last_ns) / 1e9
        advice = "read its log and its server's kernel log for the cause"
        return f"{who} died in step {ending.step}, {others}, and the job came back after {away:.0f} s: {advice}."
    advice = "read its log and its server's kernel log for the cause, then restart without it"
    return f"{who} died in step {ending.step} and {others}: {advice}."


def _with_lockstep(job: Job, layout: JobLayout) -> Job:
    """The job with the tensor-parallel group of each member in place of its server: the GPUs of such a group move as
    one, so that one of them stands for all. Others of the same server that stop with it may be to blame in its place.
    Where it is not known how wide such groups are servers are all that is known."""
    width, stage = layout.layout.tp, layout.stage_of()
    if width is None or not job.places:
        return job
    seen: Counter[tuple[str, int | None]] = Counter()
    names = []
    for member, server in zip(job.members, job.places, strict=True):
        where = server, stage.get(member)
        names.append(f"{server} {where[1]} {seen[where] // width}" if server else "")
        seen[where] += 1
    return replace(job, places=tuple(names))


def _look(given: DetectorInput) -> list[Finding]:
    job, timeline = given.evidence.job, given.evidence.timeline
    job = _with_lockstep(job, given.evidence.layout)
    findings = find_stopped(job, timeline, given.window, given.evidence.state, given.rules)
    return findings if findings and is_settled(job, timeline, given.window, given.rules) else []


DETECTOR: Final = Detector("stopped", (FindingKind.HANG, FindingKind.CRASH), _look, needs_steps=False)
