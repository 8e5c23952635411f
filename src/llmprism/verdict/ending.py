"""How a job ended: flows know when and who fell silent, logs know why; and which endings are no fault.

The rules, by what each side says:

    flows            logs                        verdict
    stopped          failed, at that time        one finding with the logs' cause; place and kind as argued below
    stopped          running, nobody complains   stopped; a "crash" that no peer reports is a hang: the processes live
    stopped          cancelled, time limit       nothing, unless the job had hung long before
    stopped          ended well                  nothing: silence after the end
    stopped, back    counts on through it        stood still: no process ended, none was started anew
    goes on          failed                      nothing: the run survived it, or the lines are of something else
    ends at rest     only that peers are lost    nothing: the job was ended, and its ranks say so one after the other
    ends at rest     that they waited in vain    hangs, by the logs: nobody was ended before they gave up
    ends at rest     a rank with a cause         failed, between two steps
    not watched      failed                      failed, by the logs alone
    stands still     a rank behind the others    hangs, by the logs, and the flows do not contradict

Kind: a rank that wrote its own fatal error has crashed, whatever the others' traffic looks like. Ranks that give up
after a time-out and no process that died: it hung.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llmprism.model.finding import Alternative, Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.log import Cause, CauseClass, Outcome, Symptom
from llmprism.model.verdict import Contradiction, Source, Verdict
from llmprism.units import SECOND
from llmprism.verdict.case import JobCase, Judged, Judgement, owner_of
from llmprism.verdict.collectives import find_mismatch, sent_share
from llmprism.verdict.ending_by_logs import failed_by_logs, hung_by_logs
from llmprism.verdict.nearby import lines_about
from llmprism.verdict.quotes import lines_of_ending, log_evidence
from llmprism.verdict.sentences import died_silently, ended_sentence, time_text
from llmprism.verdict.suspects import (
    SuspectPlace,
    choose_place,
    has_own_cause,
    in_another_collective,
    rank_suspects,
)

__all__ = ["judge_ending"]

_STOPS: Final = (FindingKind.CRASH, FindingKind.HANG)
_SHOWN_BY_AN_END: Final = (
    FindingKind.STALL,
    FindingKind.SLOW_STEP,
    FindingKind.SLOW_GPU,
    FindingKind.SLOW_GROUP,
    FindingKind.IMBALANCE,
)
_BEFORE_IT_ENDS: Final = "Take stacks of all ranks (py-spy dump) before the job is ended."
_AFTER_A_DEATH: Final = "Look at the kernel log of its host and at the scheduler's record of the job."
_LOOK_AT_RANK: Final = "Take stacks of that rank (py-spy dump), look at its GPU."


def judge_ending(case: JobCase) -> Judgement:
    """One finding for the end of the job, or none, with what was withdrawn and noted."""
    result = Judgement()
    stop = _stop_of(case)
    outcome = case.diagnosis.outcome
    if stop is not None:
        if outcome in (Outcome.CANCELLED, Outcome.TIME_LIMIT) and not _hung_before(case, stop):
            result.used.append(stop)
            result.notes.append(_withdrawn(case, stop, f"the logs say that the run {_ended_how(outcome)}"))
        elif outcome is Outcome.SUCCESS:
            result.used.append(stop)
            result.notes.append(_withdrawn(case, stop, "the logs say that the run ended well"))
        else:
            result.used.append(stop)
            result.judged.append(_stood_still(case, stop) if _counts_on(case, stop) else _stopped(case, stop))
    elif outcome is Outcome.FAILED:
        failed_by_logs(case, result)
    elif case.diagnosis.symptom is Symptom.HANG and case.diagnosis.cause.cause_class is not CauseClass.NONE:
        hung_by_logs(case, result)
    for one in result.judged:
        _absorb(case, one.finding, result)
    return result


def _absorb(case: JobCase, ending: Finding, result: Judgement) -> None:
    """Ranks that die or wait are late: slowness that begins with the end of a run is not another cause."""
    begin = min(ending.start_ns, _last_step_ns(case, ending)) - case.slack_ns - case.clock_error_ns
    for finding in case.findings(*_SHOWN_BY_AN_END):
        if finding.start_ns >= begin and (ending.end_ns is None or finding.start_ns < ending.end_ns):
            result.used.append(finding)
            result.notes.append(
                f"{finding.job}: the {finding.kind.value} that the flows report as well begins with the end of the run "
                f"and is a part of it ({finding.summary.rstrip('.')})"
            )


def _last_step_ns(case: JobCase, ending: Finding) -> int:
    """When the flows show the last step before an end that lasts: what they show from then on is that end, although the
    logs speak of it later."""
    steps = case.job.timeline.steps if case.job is not None else None
    if steps is None or not steps.count or ending.end_ns is not None:
        return ending.start_ns
    return int(steps.end_ns[-1])


def _ended_how(outcome: Outcome) -> str:
    return "hit its time limit" if outcome is Outcome.TIME_LIMIT else "was ended by somebody"


def _withdrawn(case: JobCase, stop: Finding, why: str) -> str:
    return f"{stop.job}: the flows alone call its end a {stop.kind.value}; {why}, so nothing is reported ({case.name})"


def _stop_of(case: JobCase) -> Finding | None:
    """The crash or hang of the flows that these logs are about, where there is one."""
    stops = case.findings(*_STOPS)
    if not stops:
        return None
    begin, end = case.log_span()
    if begin is None or end is None:
        return stops[-1]
    slack = case.near_ns + case.clock_error_ns
    failed = case.failure_ns()
    near = [one for one in stops if begin - case.clock_error_ns <= one.start_ns <= end + slack]
    if failed is not None and case.diagnosis.outcome is Outcome.FAILED:
        # a time-out may run down long after the stop; a failure before the stop is another event
        near = [one for one in near if one.start_ns <= failed + slack]
    return min(near, key=lambda one: abs(one.start_ns - (failed or end)), default=None)


def _hung_before(case: JobCase, stop: Finding) -> bool:
    """Whether the job stood still long before somebody ended it."""
    ended = case.flow_time(case.view.last_ns)
    return ended is not None and ended - stop.start_ns > case.near_ns


def _counts_on(case: JobCase, stop: Finding) -> bool:
    """Whether one attempt of the job counted its iterations before the flows saw it stop and after they saw it come
    back, and no rank speaks of an end. Attempts that follow each other have logs of their own."""
    begin, end = case.log_span()
    if stop.end_ns is None or case.fit is None or begin is None or end is None:
        return False
    troubled = bool(case.last_words())
    slack = case.clock_error_ns + case.slack_ns
    whole = begin + slack < stop.start_ns and stop.end_ns + slack < end
    return whole and not troubled and case.diagnosis.outcome is not Outcome.FAILED


def _stood_still(case: JobCase, stop: Finding) -> Judged:
    """The flows alone took it for the end of one attempt and the beginning of another."""
    iteration, lasted = _iteration(case, stop), time_text((stop.end_ns or stop.start_ns) - stop.start_ns)
    when = "" if iteration is None else f" in iteration {iteration}"
    summary = (
        f"All {case.size} ranks stood still for {lasted}{when} and went on: look at what they share, the file system "
        "first, and at what ran on their hosts then."
    )
    why = "its ranks count on in the same run: none was started anew"
    said = f"iterations go on after {lasted}"
    clash = Contradiction("kind", f"a {stop.kind.value}, and a new start", said, Source.LOGS, why)
    where = Where(WhereType.JOB, stop.job or case.name)
    cause = Cause(CauseClass.UNKNOWN, None, case.rules.ending.unknown_cause, "no log says why", _BEFORE_IT_ENDS)
    finding = replace(
        stop,
        kind=FindingKind.STALL,
        where=where,
        summary=summary,
        confidence=stop.confidence * case.rules.ending.kind_doubt,
        alternatives=_alternatives(stop, FindingKind.STALL, where, stop.confidence),
    )
    verdict = Verdict(
        Source.BOTH,
        cause,
        owner_of(cause.cause_class),
        None,
        None,
        iteration,
        case.number,
        rank_suspects(case, stop, SuspectPlace(None, None, None, 0.0, Source.BOTH, (clash,))),
        (clash,),
        (),
        stop,
    )
    return Judged(finding, verdict)


def _stopped(case: JobCase, stop: Finding) -> Judged:
    """The flows saw the job stop; the logs failed, or say nothing of it."""
    place = choose_place(case, stop)
    kind, clashes = _kind_of(case, stop, place)
    if kind is FindingKind.HANG:
        place = in_another_collective(case, place)
    cause = _cause(case, stop, kind, place)
    source = Source.BOTH if case.diagnosis.outcome is Outcome.FAILED or place.source is Source.BOTH else Source.FLOWS
    if kind is not stop.kind:
        source = Source.BOTH
    where = stop.where if place.address is None else Where(WhereType.GPU, place.address)
    failed = case.failure_ns()
    waited = _waited(case, stop.start_ns)
    lost = max(stop.lost_gpu_seconds, max(case.size - 1, 0) * waited / SECOND if stop.end_ns is None else 0.0)
    iteration = _iteration(case, stop)
    evidence = [*stop.evidence, *log_evidence(case)]
    if failed is not None and case.diagnosis.outcome is Outcome.FAILED:
        evidence.append(Evidence("seconds from the stop in the flows to the first line about it", (failed -
        stop.start_ns) / SECOND))  # fmt: skip
    sent = sent_share(case, place.address) if kind is FindingKind.HANG else None
    if sent is not None:
        evidence.append(Evidence("bytes it sent in the step that broke off, share of its usual step", *sent))
    confidence = stop.confidence * (case.rules.ending.kind_doubt if clashes else 1.0)
    if place.address is not None:  # where the flows name the job alone, it is as sure as the rank's place
        named = case.address_of(stop) is not None
        confidence = max(place.confidence, confidence) if named else place.confidence
    finding = replace(
        stop,
        kind=kind,
        where=where,
        confidence=min(confidence, case.rules.place.most_sure),
        lost_gpu_seconds=lost,
        summary=ended_sentence(
            kind,
            place,
            cause,
            topology=case.report.topology,
            iteration=iteration,
            others=case.size - 1,
            waited_ns=waited if stop.end_ns is None else 0,
            lost_gpu_seconds=lost,
            back_after_ns=None if stop.end_ns is None else stop.end_ns - stop.start_ns,
        ),
        evidence=tuple(evidence),
        alternatives=_alternatives(stop, kind, where, min(confidence, case.rules.place.most_sure)),
    )
    verdict = Verdict(
        source,
        cause,
        owner_of(cause.cause_class),
        place.rank,
        place.node,
        iteration,
        case.number,
        rank_suspects(case, stop, place),
        (*place.contradictions, *clashes),
        lines_of_ending(case, place, stop),
        stop,
    )
    return Judged(finding, verdict)


def _alternatives(stop: Finding, kind: FindingKind, where: Where, confidence: float) -> tuple[Alternative, ...]:
    """What the flows alone said stays as another possibility where the verdict is another."""
    others = tuple(one for one in stop.alternatives if (one.kind, one.where) != (kind, where))
    if (kind, where) == (stop.kind, stop.where) or stop.where.type is WhereType.JOB:
        return others
    return (Alternative(stop.kind, stop.where, round(min(stop.confidence, 1 - confidence), 4)), *others)


def _kind_of(case: JobCase, stop: Finding, place: SuspectPlace) -> tuple[FindingKind, tuple[Contradiction, ...]]:
    """Crash or hang, where the two sides differ."""
    found = case.diagnosis
    failed = case.failure_ns()
    own = bool(found.suspects) and has_own_cause(case, found.suspects[0])
    if stop.kind is FindingKind.HANG and own and found.symptom is Symptom.CRASH:
        why = "the rank wrote a fatal error of its own; others go on sending to it until they give up"
        said = f"rank {place.rank} failed: {found.cause.summary}"
        return FindingKind.CRASH, (Contradiction("kind", "the job hangs", said, Source.LOGS, why),)
    if stop.kind is FindingKind.HANG and _connection_lost(case, stop):
        why = "its peers saw the connection close within seconds: a process that hangs keeps its connections"
        said = "the connection to a peer was closed"
        return FindingKind.CRASH, (Contradiction("kind", "the job hangs", said, Source.LOGS, why),)
    if stop.kind is FindingKind.CRASH and found.symptom is Symptom.HANG and not own and _all_complain(case):
        why = "every rank says why it ended, and the first that it waited in vain: nobody had died before"
        clash = Contradiction("kind", "a rank died", "the ranks gave up waiting", Source.LOGS, why)
        return FindingKind.HANG, (clash,)
    if stop.kind is FindingKind.CRASH and found.outcome is Outcome.FAILED and not own and failed is not None:
        late = failed - stop.start_ns
        if found.symptom is Symptom.HANG and late > case.rules.ending.time_out_ns + case.clock_error_ns:
            why = f"the first complaint came {time_text(late)} after the stop, as a time-out: no connection was lost"
            clash = Contradiction("kind", "a rank died", "the ranks gave up waiting", Source.LOGS, why)
            return FindingKind.HANG, (clash,)
    if stop.kind is FindingKind.CRASH and _nobody_complains(case, stop):
        watched = time_text(case.report.window.end_ns - stop.start_ns)
        why = f"no rank reports a lost peer in the {watched} that were watched: a process that dies is missed"
        said = f"all {len(case.view.ranks)} ranks stop without a word"
        return FindingKind.HANG, (Contradiction("kind", "a rank died", said, Source.LOGS, why),)
    return stop.kind, ()


def _connection_lost(case: JobCase, stop: Finding) -> bool:
    """Whether the first that ranks say, right after the stop, is that a peer is gone, and not that they gave up
    waiting. Later somebody may have ended a job that hung."""
    timed = sorted(
        (when, line.time_out) for line in case.last_words("cascade") if (when := case.line_time(line)) is not None
    )
    if not timed or case.diagnosis.outcome is not Outcome.FAILED or case.diagnosis.symptom is not Symptom.CRASH:
        return False
    first, time_out = timed[0]
    return not time_out and first - stop.start_ns <= case.rules.ending.watched_ns + case.clock_error_ns + case.slack_ns


def _all_complain(case: JobCase) -> bool:
    """Whether every rank of the job wrote, when it ended, that it had lost others or waited for them in vain."""
    actors = {line.actor for line in case.last_words("cascade") if line.actor >= 0}
    return len(actors) >= max(len(case.view.ranks), case.size)


def _nobody_complains(case: JobCase, stop: Finding) -> bool:
    """Whether all ranks have logs that reach the stop and none speaks of trouble, although there was time for it."""
    whole = len(case.view.ranks) >= case.size and case.fit is not None
    watched = case.report.window.end_ns - stop.start_ns > max(case.rules.ending.watched_ns, case.slack_ns)
    last = case.flow_time(case.view.last_ns)
    reaches = last is not None and last >= stop.start_ns - case.clock_error_ns - case.slack_ns
    troubled = bool(case.last_words())
    quiet = case.diagnosis.outcome in (Outcome.RUNNING, Outcome.UNKNOWN)
    return whole and watched and reaches and quiet and not troubled and stop.end_ns is None


def _cause(case: JobCase, stop: Finding, kind: FindingKind, place: SuspectPlace) -> Cause:
    """The logs' cause where they have one; the silence of the flows supports a rank that died without a word.

    Where the logs blame nothing, a line about hardware or storage of that place and time may be the cause.
    """
    cause, rules = case.diagnosis.cause, case.rules.ending
    found = case.diagnosis.suspects
    own = bool(found) and has_own_cause(case, found[0])
    if kind is FindingKind.HANG and not own:
        mismatch = find_mismatch(case, place.rank)
        if mismatch is not None:
            return mismatch
    if cause.cause_class in (CauseClass.NONE, CauseClass.UNKNOWN):
        where = stop.where if place.address is None else Where(WhereType.GPU, place.address)
        near = [case.view.lines[at] for at in lines_about(case, replace(stop, where=where))]
        known = [line for line in near if line.cause is not None]
        if known:
            first = min(known, key=lambda line: (line.role != "root", line.time_ns))
            return Cause(
                CauseClass(first.cause or ""), first.signature, rules.nearby_cause, first.meaning, first.advice
            )
    if cause.cause_class is CauseClass.NONE:
        advice = _BEFORE_IT_ENDS if kind is FindingKind.HANG else _AFTER_A_DEATH
        return Cause(CauseClass.UNKNOWN, None, rules.unknown_cause, "no log says why", advice)
    if cause.cause_class is CauseClass.UNKNOWN and place.address is not None and not own:
        advice = _LOOK_AT_RANK if kind is FindingKind.HANG else _AFTER_A_DEATH
        return replace(cause, summary="no log says why: the ranks only complain of each other", advice=advice)
    silent = died_silently(cause)
    if silent and kind is FindingKind.HANG:
        what = (
            "it stopped without a word while its connections stayed open: its process or its GPU hangs, its host is up"
        )
        return Cause(CauseClass.UNKNOWN, None, rules.hung_process, what, _LOOK_AT_RANK)
    if silent and place.source is Source.BOTH:
        return replace(cause, confidence=round(1 - (1 - cause.confidence) * rules.silent_death, 2))
    return cause


def _waited(case: JobCase, since_ns: int) -> int:
    """How long the other ranks waited: until their last line about it, or until the flows were no longer watched."""
    last = case.flow_time(case.view.last_ns)
    by_logs = last - since_ns if last is not None and case.diagnosis.outcome is Outcome.FAILED else 0
    by_flows = case.report.window.end_ns - since_ns if case.diagnosis.outcome is not Outcome.FAILED else 0
    waited = max(by_logs, by_flows, 0)
    return waited if waited > case.clock_error_ns + SECOND else 0


def _iteration(case: JobCase, stop: Finding) -> int | None:
    """The iteration by the job's own count: a log that failed says it, else the steps that the flows saw end."""
    said = case.diagnosis.outcome is Outcome.FAILED or case.diagnosis.symptom is Symptom.HANG
    counted = case.fit is not None and case.fit.stride == 1 and not said
    if counted and case.fit is not None and case.job is not None:
        return int((case.job.timeline.steps.end_ns <= stop.start_ns).sum()) - case.fit.shift
    return case.diagnosis.iteration
