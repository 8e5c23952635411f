"""What the run's own numbers show and no traffic can: a loss that is no number, or that left its range.

The flows say what it is not: where steps go on at their usual length, no slow hardware is behind it.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.log import Outcome, Sign, SignKind
from llmprism.model.verdict import NamedSuspect, Source, Verdict
from llmprism.verdict.case import JobCase, Judged, Judgement, owner_of

__all__ = ["judge_numbers"]

_NUMBERS: Final = (SignKind.NAN, SignKind.DIVERGED, SignKind.LOSS_SCALE)


def judge_numbers(case: JobCase) -> Judgement:
    """At most one finding: the surest sign that lasts. A run that failed later is explained by its failure."""
    result = Judgement()
    signs = [sign for sign in case.diagnosis.signs if sign.kind in _NUMBERS and sign.lasts]
    if signs and case.diagnosis.outcome is not Outcome.FAILED:
        result.judged.append(_judged(case, max(signs, key=lambda sign: sign.confidence)))
    return result


def _judged(case: JobCase, sign: Sign) -> Judged:
    when = _begin(case, sign)
    ratio = _step_ratio(case, when)
    suspects = []
    for one in sign.suspects:
        seat = case.seat_of_rank(one.rank)
        score = one.score * (seat.confidence if seat is not None and seat.address else 1.0)
        address = seat.address if seat is not None else None
        suspects.append(NamedSuspect(address, one.rank, one.node, round(score, 3), f"logs: {one.why}"))
    job = case.job.job.id if case.job is not None else None
    single = suspects[0].address if len(suspects) == 1 else None
    where = Where(WhereType.GPU, single) if single else Where(WhereType.JOB, job or case.name)
    text = f"In {job or case.name} {sign.summary}"
    evidence = []
    if sign.value is not None and np.isfinite(sign.value):
        evidence.append(Evidence("its value", sign.value, sign.expected))
    if ratio is not None:
        evidence.append(Evidence("length of steps in the flows, after to before", ratio, 1))
        if ratio <= case.rules.slowness.usual_length:
            text += "; steps go on at their usual length: data, numbers or memory, not slow hardware"
    finding = Finding(
        FindingKind.DIVERGED, job, where, when or case.report.window.start_ns, None, 0.0, sign.confidence, 0.0, text,
        tuple(evidence),
    )  # fmt: skip
    cause = case.diagnosis.cause
    rank = sign.suspects[0].rank if len(sign.suspects) == 1 else None
    verdict = Verdict(
        Source.LOGS if ratio is None else Source.BOTH, cause, owner_of(cause.cause_class), rank, None, sign.iteration,
        case.number, tuple(suspects),
    )  # fmt: skip
    return Judged(finding, verdict)


def _begin(case: JobCase, sign: Sign) -> int | None:
    """When it began, in flow time: by the line's time, else by the step of the iteration."""
    if sign.time_ns:
        return case.flow_time(sign.time_ns)
    if sign.iteration is not None and case.fit is not None and case.job is not None:
        step = int(case.fit.step_of(np.array([sign.iteration]))[0])
        if 0 <= step < case.job.timeline.steps.count:
            return int(case.job.timeline.steps.end_ns[step])
    return None


def _step_ratio(case: JobCase, when: int | None) -> float | None:
    """The length of steps after a moment over that before it; None where the flows do not show both."""
    rules = case.rules.slowness
    if case.job is None or when is None or case.job.timeline.steps.count < rules.change_steps:
        return None
    ends = case.job.timeline.steps.end_ns
    after = ends[1:] > when
    if min(after.sum(), (~after).sum()) < rules.change_sides:
        return None
    lengths = np.diff(ends)
    return round(float(np.median(lengths[after]) / max(np.median(lengths[~after]), 1)), 3)
