"""Findings by the published rule: whatever lies three standard deviations off the mean.

Three comparisons: the durations of a job's steps; within each step the DP durations of its DP groups; between switches,
over all jobs, the mean bandwidth of the DP flows through them and how many they carry at once
(`published_switch_rules`). Each value that is off is one finding: the rule says what differs and names no cause.

It is quiet with fewer than 11 values to compare and shouts at every long step, the set-up step included: see
docs/explanation/paper-baseline.md. Reference: LLMPrism, arXiv 2505.00342 (DSN'25), diagnosis.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from llmprism.arrays import Float64
from llmprism.diagnose.published_switch_rules import abnormal_switches
from llmprism.model import EventKind, Job, JobLayout, PairKind, Timeline, Topology
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.stats.sigma_rule import beyond_sigmas

__all__ = ["diagnose_paper"]


def diagnose_paper(jobs: Sequence[tuple[Job, JobLayout, Timeline]], topology: Topology | None) -> tuple[Finding, ...]:
    """Findings of every job, then of the switches that their DP flows pass."""
    findings: list[Finding] = []
    for job, layout, timeline in jobs:
        findings.extend(_slow_steps(job, timeline))
        findings.extend(_slow_groups(job, layout, timeline))
    findings.extend(abnormal_switches([(job, layout) for job, layout, _ in jobs], topology))
    return tuple(findings)


def _slow_steps(job: Job, timeline: Timeline) -> Iterator[Finding]:
    seconds = timeline.steps.duration_ns / 1e9
    for step in np.flatnonzero(beyond_sigmas(seconds)).tolist():
        evidence = Evidence("step duration in seconds", float(seconds[step]), float(seconds.mean()))
        yield _longer(
            FindingKind.SLOW_STEP, Where(WhereType.JOB, job.id), job, timeline, step, evidence, len(job.members)
        )


def _slow_groups(job: Job, layout: JobLayout, timeline: Timeline) -> Iterator[Finding]:
    groups = [group.members for group in layout.groups if group.kind == PairKind.DP]
    seconds = _dp_seconds(len(job.transfers.addresses), groups, timeline)
    for step in range(timeline.steps.count):
        present = np.flatnonzero(seconds[:, step] >= 0.0)
        values = seconds[present, step]
        for group in present[beyond_sigmas(values)].tolist():
            members = tuple(job.transfers.addresses[member] for member in groups[group])
            evidence = Evidence("DP duration in seconds", float(seconds[group, step]), float(values.mean()))
            where = Where(WhereType.GROUP, members)
            yield _longer(FindingKind.SLOW_GROUP, where, job, timeline, step, evidence, len(members))


def _dp_seconds(addresses: int, groups: list[tuple[int, ...]], timeline: Timeline) -> Float64:
    """From the first start to the last end of each group's DP flows in each step; -1 where it has none."""
    group_of = np.full(addresses, -1, dtype=np.int64)
    for number, members in enumerate(groups):
        group_of[list(members)] = number
    events, steps = timeline.events, timeline.steps.count
    rows = np.flatnonzero((events.kind == EventKind.DP) & (events.step >= 0) & (group_of[events.address] >= 0))
    cell = group_of[events.address[rows]] * steps + events.step[rows]
    first = np.full(len(groups) * steps, np.iinfo(np.int64).max, dtype=np.int64)
    last = np.full(len(groups) * steps, -1, dtype=np.int64)
    np.minimum.at(first, cell, events.start_ns[rows])
    np.maximum.at(last, cell, events.end_ns[rows])
    seconds = np.where(last >= 0, (last - np.minimum(first, last)) / 1e9, -1.0)
    return seconds.reshape(len(groups), steps)


def _longer(
    kind: FindingKind, where: Where, job: Job, timeline: Timeline, step: int, evidence: Evidence, gpus: int
) -> Finding:
    expected = evidence.expected or 0.0
    what = "a DP group" if kind is FindingKind.SLOW_GROUP else "the job"
    return Finding(
        kind=kind,
        job=job.id,
        where=where,
        start_ns=int(timeline.steps.start_ns[step]),
        end_ns=int(timeline.steps.end_ns[step]),
        severity=1.0 - expected / evidence.value,
        confidence=1.0,  # the rule knows no doubt
        lost_gpu_seconds=(evidence.value - expected) * gpus,
        summary=f"step {step}: {what} took {evidence.value:.3g} s, beyond the mean of {expected:.3g} s + 3 sigma",
        evidence=(evidence,),
    )
