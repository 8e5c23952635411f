"""One look at some records: a report, over which length it was made, and what it is worth for judging a job.

The base look covers all records of a window; others cover the records of slow jobs over longer spans. All looks of one
round end at the same time. A look shows a job *clearly* when it holds several steps, those fill the time since they
began, and almost all of the job's traffic flows in each of them. A window that is shorter than a step fails one of
the three: it shows no step, or the ticks of one burst, or micro-batches while the gradients stay away.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.model.finding import Finding
from llmprism.model.flows import Int64, Window
from llmprism.model.report import JobReport, Report

__all__ = [
    "CLEAR_STEPS",
    "TRAINING_BYTES",
    "Look",
    "is_clear",
    "last_active",
    "longest_pause",
    "member_names",
    "usual_steps",
]

CLEAR_STEPS: Final = 5
"""Steps that a look must show: the fewest of which a median and a spread mean something."""

FILLED: Final = 0.5
"""Share of the time since the first of them that the steps must fill: a burst of ticks after which nothing comes is
no sequence of steps."""

STEADY_STEPS: Final = 0.6
"""Share of the steps in which a pair must be active to belong to every step: collectors lose records."""

STEADY_BYTES: Final = 0.9
"""Share of the job's bytes on such pairs. Where micro-batches are taken for steps the gradients are missing in most,
and those are a tenth of the traffic at least."""

TRAINING_BYTES: Final = 1_000
"""Smaller messages are heartbeats; they do not count as activity."""


@dataclass(frozen=True, slots=True)
class Look:
    """`reach_ns` is the length of the look; `runs` those it was made for (None: everybody). `withdrawn` are findings
    of the flows that the jobs' logs explain away, each with the reason."""

    report: Report
    reach_ns: int
    runs: frozenset[str] | None = None
    withdrawn: tuple[tuple[Finding, str], ...] = ()

    @property
    def window(self) -> Window:
        return self.report.window


def member_names(look: Look, job: JobReport) -> tuple[str, ...]:
    return tuple(look.report.addresses[member] for member in job.job.members)


def usual_steps(job: JobReport, since_ns: int) -> Int64:
    """Durations of the steps that began after this time, without the set-up."""
    steps = job.timeline.steps
    return steps.duration_ns[~steps.setup & (steps.start_ns >= since_ns)]


def is_clear(job: JobReport, since_ns: int, window: Window) -> bool:
    """Does this look show the steps of the job since this time plainly enough to believe them?"""
    steps = job.timeline.steps
    chosen = ~steps.setup & (steps.start_ns >= since_ns)
    start, end = steps.start_ns[chosen], steps.end_ns[chosen]
    if start.size < CLEAR_STEPS or (end - start).sum() < FILLED * (window.end_ns - start[0]):
        return False
    return _steady(job, start, end)


def _steady(job: JobReport, start: Int64, end: Int64) -> bool:
    """Does almost all of the traffic flow in every step?"""
    transfers = job.job.transfers
    step = np.searchsorted(end, transfers.end_ns, side="left")
    rows = np.flatnonzero((transfers.bytes >= TRAINING_BYTES) & (step < end.size) & (transfers.end_ns > start[0]))
    pair = transfers.pair_of_row[rows]
    if not rows.size:
        return True
    active = np.unique(pair.astype(np.int64) * end.size + step[rows]) // end.size
    often = np.bincount(active, minlength=transfers.pair_count) >= STEADY_STEPS * end.size
    size = np.bincount(pair, transfers.bytes[rows].astype(np.float64), minlength=transfers.pair_count)
    return bool(size[often].sum() >= STEADY_BYTES * size.sum())


def last_active(job: JobReport) -> int:
    """End of the job's last training message."""
    ends = job.job.transfers.end_ns[_training(job)]
    return int(ends.max()) if ends.size else 0


def longest_pause(job: JobReport, since_ns: int) -> int:
    """The longest time in which no training message of the job flowed, after this time and before its last message."""
    transfers = job.job.transfers
    rows = np.flatnonzero(_training(job) & (transfers.start_ns >= since_ns))
    if rows.size < 2:
        return 0
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    horizon = np.maximum.accumulate(transfers.end_ns[rows])
    return max(0, int((transfers.start_ns[rows][1:] - horizon[:-1]).max()))


def _training(job: JobReport) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    transfers = job.job.transfers
    rows = transfers.bytes >= TRAINING_BYTES
    if job.job.bulk is not None and transfers.pair_count:
        rows = rows & job.job.bulk[transfers.pair_of_row]
    return rows
