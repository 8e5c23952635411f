"""Figures that every form of the report shows, computed once: step times, order of findings, who is sick."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Int64
from llmprism.model.finding import Finding, FindingKind
from llmprism.model.layout import Layout
from llmprism.model.report import JobReport, Report
from llmprism.model.timeline import Steps
from llmprism.report.text import percent, plural

__all__ = [
    "StepTimes",
    "alternative_texts",
    "degrees",
    "notes_without_job",
    "ranked_findings",
    "sick_addresses",
    "step_times",
    "training_times",
]

_JOB_IS_DOWN: Final = frozenset({FindingKind.CRASH, FindingKind.HANG})
"""Kinds that stop a job: they come first whatever their cost so far."""


@dataclass(frozen=True, slots=True)
class StepTimes:
    """Step times of a job without the set-up step. `low_ns` and `high_ns` bound the middle 80 % of the steps.

    The time of a step is the interval from the end of the step before it to its own end: the first traffic of a step
    can come later than its work, and the ends are what the records show best.
    """

    count: int
    median_ns: float
    low_ns: float
    high_ns: float
    setup_ns: int | None


def training_times(steps: Steps) -> Int64:
    """Times of the steps that are not the set-up step, in order.

    The first step of the records has no end before it: it is left out, unless it is the only one.
    """
    if steps.count < 2:
        return steps.duration_ns[~steps.setup]
    return np.diff(steps.end_ns)[~steps.setup[1:]]


def step_times(steps: Steps) -> StepTimes | None:
    """None where no step was seen."""
    if not steps.count:
        return None
    setup = steps.duration_ns[steps.setup]
    times = training_times(steps)
    if not times.size:
        return StepTimes(0, float(setup[0]), float(setup[0]), float(setup[0]), int(setup[0]))
    low, median, high = np.percentile(times, (10, 50, 90))
    count = int((~steps.setup).sum())
    return StepTimes(count, float(median), float(low), float(high), int(setup[0]) if setup.size else None)


def degrees(job: JobReport) -> str:
    """`tp 2 x pp 4 x dp 2`; degrees that the evidence does not decide are left out, `unknown` when all are."""
    return _degrees(job.layout.layout)


def alternative_texts(job: JobReport) -> list[str]:
    """What else the layout might be, each with how likely it is and under which condition."""
    said = job.layout.layout
    return [f"{_difference(said, one.layout)} ({percent(one.confidence)}) {one.why}" for one in job.layout.alternatives]


def _difference(said: Layout, other: Layout) -> str:
    """The degrees of the other layout where they differ, else what does."""
    if _degrees(said) != _degrees(other):
        return _degrees(other)
    if said.micro_batches != other.micro_batches:
        if other.micro_batches is None:
            return "another number of micro-batches"
        return plural(other.micro_batches, "micro-batch", "micro-batches")
    return f"sharding {other.sharding.value}, schedule {other.schedule.value}"


def _degrees(layout: Layout) -> str:
    known = (("tp", layout.tp), ("pp", layout.pp), ("cp", layout.cp), ("ep", layout.ep), ("dp", layout.dp))
    parts = [f"{name} {degree}" for name, degree in known if degree is not None]
    return " x ".join(parts) or "unknown"


def notes_without_job(report: Report) -> tuple[str, ...]:
    """Notes of the report that no job of it shows already."""
    shown = {f"{job.job.id}: {note}" for job in report.jobs for note in (*job.layout.notes, *job.timeline.notes)}
    return tuple(note for note in report.notes if note not in shown)


def ranked_findings(report: Report) -> tuple[Finding, ...]:
    """Jobs that are down first, then what costs most."""
    return tuple(
        sorted(
            report.findings,
            key=lambda finding: (
                finding.kind not in _JOB_IS_DOWN,
                -finding.lost_gpu_seconds,
                -finding.severity,
                finding.start_ns,
                finding.kind,
                str(finding.where.id),
            ),
        )
    )


def sick_addresses(report: Report) -> frozenset[str]:
    """Every name that a finding points at; switch and job names among them."""
    named: set[str] = set()
    for finding in report.findings:
        place = finding.where.id
        named.update((place,) if isinstance(place, str) else place)
    return frozenset(named)
