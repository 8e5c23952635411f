"""Faults found, named and located; findings that belong to no fault are false alarms.

A finding and a fault are *about the same time* when their intervals, widened by `time_tolerance_ns`, overlap, and
*about the same job* when they name the same job (after job matching) or one names none. Then a fault is

- detected when any finding is about its time and job,
- of the right kind when one of those has its kind,
- located when one of those names its place (an address is one place, whether called gpu or nic, and so are the
  `equivalents` of the truth; a link has the same two ends in either order; a group or stage has the same members; a
  job is the matched job, and in it the rank whose stall the label calls the job's; a switch and its only cable to the
  others, or two cables that all transfers pass one after the other, are one place where the finding says so),
- exact when one finding has both the kind and the place.

A finding is a false alarm when no fault about its time and job has both its kind and its place; a second finding on
the same fault is a repeat, not a false alarm. One that names nothing but the job, because nothing stands out, is true
and no false alarm if a fault inside that job has its kind (for `slow_step`, which says that the cause is not visible:
any kind), but locates nothing. One that names a fault which did next to nothing to the steps (`faint` in the truth) is
neither right nor a false alarm.
"""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median

from llmprism.model import FindingKind, Where, WhereType
from llmprism.score.document import IssueFact, ScoredJob
from llmprism.score.jobs import JobMatch
from llmprism.score.measures import Rate
from llmprism.score.steps import median_step_ns

__all__ = ["FaultsScore", "explained_findings", "score_faults", "time_tolerance_ns"]

TOLERANCE_STEPS = 2.0
"""In steps: a fault shows in the step that it hits and is over when the next step is clean."""

TOLERANCE_FLOOR_NS = 1_000_000_000
"""One second: the labels of real captures are set by a script next to the job."""

ENDPOINTS = (WhereType.GPU, WhereType.NIC)


@dataclass(frozen=True, slots=True)
class FaultsScore:
    """`vague` findings are true and name no more than the job; `unprompted` ones are about no fault's time and job:
    false alarms that come while nothing is wrong. `onset_error_s` is the median distance of the starts over exact
    finds; `job_hours` is the time watched."""

    detected: Rate
    kind_right: Rate
    located: Rate
    exact: Rate
    findings: int
    repeats: int
    false_alarms: int
    job_hours: float
    onset_error_s: float | None
    vague: int = 0
    unprompted: int = 0

    @property
    def false_alarms_per_job_hour(self) -> float | None:
        return self.false_alarms / self.job_hours if self.job_hours else None


def time_tolerance_ns(job: ScoredJob | None) -> float:
    step = median_step_ns(job) if job is not None else None
    return max(TOLERANCE_FLOOR_NS, TOLERANCE_STEPS * (step or 0.0))


def score_faults(
    truth: tuple[ScoredJob, ...],
    faults: tuple[IssueFact, ...],
    findings: tuple[IssueFact, ...],
    match: JobMatch,
    faint: tuple[IssueFact, ...] = (),
) -> FaultsScore:
    true_id = match.true_id_of(truth)
    job_of = {job.id: job for job in truth}
    explained: set[int] = set()
    vague: set[int] = set()
    prompted: set[int] = set()
    repeats = 0
    right = [0, 0, 0, 0]
    onsets: list[float] = []
    for fault in faults:
        tolerance = time_tolerance_ns(job_of.get(fault.job or ""))
        about = [
            (f, *_agrees(finding, fault, true_id))
            for f, finding in enumerate(findings)
            if _same_job(finding, fault, true_id) and _same_time(finding, fault, tolerance)
        ]
        exact = [f for f, kind, place in about if kind and place]
        prompted.update(f for f, *_ in about)
        flags = (bool(about), any(kind for _, kind, _ in about), any(place for *_, place in about), bool(exact))
        right = [count + flag for count, flag in zip(right, flags, strict=True)]
        repeats += len([f for f in exact if f not in explained][1:])
        explained.update(exact)
        vague.update(f for f, *_ in about if _names_no_more_than_the_job(findings[f], fault))
        if exact:
            onsets.append(min(abs(findings[f].start_ns - fault.start_ns) for f in exact) / 1e9)
    unscored = explained_findings(truth, faint, findings, match)
    detected, kind_right, located, exact_share = (Rate(count, len(faults)) for count in right)
    return FaultsScore(
        detected=detected,
        kind_right=kind_right,
        located=located,
        exact=exact_share,
        findings=len(findings),
        repeats=repeats,
        false_alarms=len(findings) - len(explained | vague | unscored),
        job_hours=sum((span[1] - span[0]) / 3.6e12 for job in truth if (span := job.span_ns) is not None),
        onset_error_s=median(onsets) if onsets else None,
        vague=len(vague - explained),
        unprompted=len(findings) - len(prompted | unscored),
    )


def explained_findings(
    truth: tuple[ScoredJob, ...], faults: tuple[IssueFact, ...], findings: tuple[IssueFact, ...], match: JobMatch
) -> set[int]:
    """Indices of the findings that are true of a fault about their time and job: the others are false alarms."""
    true_id = match.true_id_of(truth)
    job_of = {job.id: job for job in truth}
    return {
        f
        for fault in faults
        for f, finding in enumerate(findings)
        if (all(_agrees(finding, fault, true_id)) or _names_no_more_than_the_job(finding, fault))
        and _same_job(finding, fault, true_id)
        and _same_time(finding, fault, time_tolerance_ns(job_of.get(fault.job or "")))
    }


def _agrees(finding: IssueFact, fault: IssueFact, true_id: dict[str, str]) -> tuple[bool, bool]:
    """Whether the finding has the fault's kind, and its place, under one of its names."""
    names = ((finding.kind, finding.where), *finding.other_names)
    agree = [(kind == fault.kind, _same_place(where, fault, true_id)) for kind, where in names]
    return max(agree, key=sum)


def _names_no_more_than_the_job(finding: IssueFact, fault: IssueFact) -> bool:
    """Does it say what happened to the job, and rightly, without saying where?"""
    return finding.where.type is WhereType.JOB and finding.kind in (fault.kind, FindingKind.SLOW_STEP)


def _same_job(finding: IssueFact, fault: IssueFact, true_id: dict[str, str]) -> bool:
    if finding.job is None or fault.job is None:
        return True
    return true_id.get(finding.job) == fault.job


def _same_time(finding: IssueFact, fault: IssueFact, tolerance_ns: float) -> bool:
    ends_before = finding.end_ns is not None and finding.end_ns + tolerance_ns < fault.start_ns
    starts_after = fault.end_ns is not None and finding.start_ns > fault.end_ns + tolerance_ns
    return not (ends_before or starts_after)


def _same_place(said: Where, fault: IssueFact, true_id: dict[str, str]) -> bool:
    true = fault.where
    if said.type in ENDPOINTS and true.type in (*ENDPOINTS, WhereType.JOB):
        return said.id == true.id or said.id in fault.equivalents
    if said.type != true.type:
        return False
    if true.type is WhereType.JOB and isinstance(said.id, str):
        return true_id.get(said.id) == true.id
    if isinstance(said.id, tuple) and isinstance(true.id, tuple):
        return frozenset(said.id) == frozenset(true.id)
    return said.id == true.id
