"""Endings that only the logs report: the flows saw no crash and no hang.

Flows that were not watched, or that rest between two steps, do not contradict. Flows that go on do, unless they show
that the job stood still then: a job that failed and was started again goes on as well, by other processes, whose logs
are those of another attempt.
"""

from __future__ import annotations

import numpy as np

from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.job import JobState
from llmprism.model.log import SignKind, Symptom
from llmprism.model.verdict import Source, Verdict
from llmprism.units import SECOND
from llmprism.verdict.case import JobCase, Judged, Judgement, owner_of
from llmprism.verdict.collectives import find_mismatch
from llmprism.verdict.quotes import lines_of_ending, log_evidence
from llmprism.verdict.sentences import ended_sentence
from llmprism.verdict.suspects import choose_place, in_another_collective, rank_suspects

__all__ = ["failed_by_logs", "hung_by_logs"]


def failed_by_logs(case: JobCase, result: Judgement) -> None:
    """The logs say that the run failed; the flows saw no crash and no hang."""
    failed, cause = case.failure_ns(), case.diagnosis.cause
    back = None
    if case.job is not None and failed is not None:
        after = case.steps_after(failed)
        back = _back_ns(case, failed)
        if after >= case.rules.ending.went_on_steps and back is None:
            result.notes.append(
                f"{case.name}: the logs speak of a failure ({cause.summary}), but the flows show {after} more steps: "
                "nothing is reported"
            )
            return
        at_rest = case.job.state in (JobState.ENDED, JobState.RUNNING)
        watched = failed <= case.report.window.end_ns + case.clock_error_ns
        weak = cause.confidence <= case.rules.ending.weak_cause and not case.diagnosis.suspects
        if at_rest and weak and watched and not _gave_up(case):
            result.notes.append(
                f"{case.name}: ranks complain of each other ({cause.summary}), but the traffic shows no rank that "
                "stopped before the others and ends at the end of a step: the job was ended, nothing is reported"
            )
            return
    result.judged.append(_by_logs(case, FindingKind.CRASH, failed, back))


def _gave_up(case: JobCase) -> bool:
    """Whether the ranks waited in vain after the last iteration that they count, and the flows show none either: they
    were not ended, for who is ended does not wait first."""
    counted = max((int(rank.iteration_ns.max(initial=0)) for rank in case.view.ranks), default=0)
    last = case.flow_time(counted)
    still = last is not None and case.steps_after(last) < case.rules.ending.went_on_steps
    return still and case.diagnosis.symptom is Symptom.HANG


def _back_ns(case: JobCase, failed_ns: int) -> int | None:
    """When the job was back after a failure: the flows stand still then for longer than ever else, or for as long as it
    took until the next attempt of which there are logs; None where they do neither."""
    if case.job is None or case.job.timeline.steps.count < case.rules.clock.least_steps:
        return None
    steps, rules = case.job.timeline.steps, case.rules.ending
    margin = case.clock_error_ns + case.slack_ns
    pauses = np.diff(steps.end_ns)
    here = (steps.end_ns[:-1] <= failed_ns + margin) & (steps.end_ns[1:] >= failed_ns - margin)
    if not here.any():
        return None
    at = int(np.argmax(np.where(here, pauses, -1)))
    others = np.delete(pauses, at)[~steps.setup[1:][np.arange(pauses.size) != at]]
    longest = max(int(others.max(initial=0)), int(rules.restart_steps * case.step_ns))
    next_attempt = case.followed_ns is not None and case.followed_ns >= steps.end_ns[at + 1] - margin
    if pauses[at] > longest or (next_attempt and pauses[at] > rules.went_on_steps * case.step_ns):
        return int(steps.end_ns[at + 1]) - case.step_ns
    return None


def hung_by_logs(case: JobCase, result: Judgement) -> None:
    """The logs' numbers show a rank behind the others; the flows show no stop."""
    sign = next((one for one in case.diagnosis.signs if one.kind is SignKind.HANG and one.lasts), None)
    if case.job is not None and case.job.timeline.steps.count and sign is not None:
        ends = case.job.timeline.steps.end_ns
        idle = case.report.window.end_ns - int(ends[-1])
        last = case.flow_time(case.view.last_ns)
        if idle < case.slack_ns + SECOND or (
            last is not None and case.steps_after(last) >= case.rules.ending.went_on_steps
        ):
            result.notes.append(f"{case.name}: {sign.summary}; the flows show steps up to the end: no hang is reported")
            return
        if (
            case.job.state in (JobState.ENDED, JobState.RUNNING)
            and case.diagnosis.cause.confidence < case.rules.ending.sure_hang
        ):
            result.notes.append(f"{case.name}: {sign.summary}; the traffic ends where it rests: no hang is reported")
            return
    result.judged.append(_by_logs(case, FindingKind.HANG, None, None))


def _by_logs(case: JobCase, kind: FindingKind, failed_ns: int | None, back_ns: int | None) -> Judged:
    """A finding that rests on the logs alone; `back_ns`: the flows show that the job was back then."""
    found = case.diagnosis
    if found.symptom is Symptom.HANG:
        kind = FindingKind.HANG
    place, cause = choose_place(case, None), found.cause
    if kind is FindingKind.HANG:
        place = in_another_collective(case, place)
        cause = find_mismatch(case, place.rank) or cause
    last = case.flow_time(case.view.last_ns)
    start = failed_ns if failed_ns is not None else last if last is not None else case.report.window.start_ns
    waited = max(0, (last or start) - start)
    waited = waited if waited > case.clock_error_ns + SECOND else 0
    lost = max(case.size - 1, 0) * waited / SECOND
    stood = None if back_ns is None else max(back_ns - start, 0)
    if stood is not None:
        waited, lost = 0, case.size * stood / SECOND
    job = case.job.job.id if case.job is not None else None
    where = Where(WhereType.GPU, place.address) if place.address else Where(WhereType.JOB, job or case.name)
    summary = ended_sentence(
        kind,
        place,
        cause,
        topology=case.report.topology,
        iteration=found.iteration,
        others=case.size - 1,
        waited_ns=waited,
        lost_gpu_seconds=lost,
        back_after_ns=stood,
    )
    confidence = max(cause.confidence, place.confidence if place.address else 0.0)
    evidence = log_evidence(case)
    if stood is not None:
        evidence.append(Evidence("seconds without a step in the flows", stood / SECOND, case.step_ns / SECOND))
    finding = Finding(kind, job, where, start, back_ns, 1.0, round(confidence, 3), lost, summary, tuple(evidence))
    verdict = Verdict(
        Source.LOGS if back_ns is None else Source.BOTH,
        cause,
        owner_of(cause.cause_class),
        place.rank,
        place.node,
        found.iteration,
        case.number,
        rank_suspects(case, None, place),
        (),
        lines_of_ending(case, place, None),
    )
    return Judged(finding, verdict)
