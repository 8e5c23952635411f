"""One look at some records: a report, over which length it was made, and what it is worth for judging a job.

The base look covers all records of a window; others cover the records of slow jobs over longer spans. All looks of one
round end at the same time. A look shows a job *clearly* when it holds several steps, those fill the time since they
began, and almost all of the job's traffic flows in each of them. A window that is shorter than a step fails one of
the three: it shows no step, or the ticks of one burst, or micro-batches while the gradients stay away.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int64
from llmprism.model.finding import Finding
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Window
from llmprism.model.report import JobReport, Report
from llmprism.service.rules import RULES, LiveRules

__all__ = [
    "Look",
    "is_clear",
    "last_active",
    "longest_pause",
    "member_names",
    "usual_steps",
]


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


def is_clear(job: JobReport, since_ns: int, window: Window, rules: LiveRules = RULES) -> bool:
    """Does this look show the steps of the job since this time clearly enough to believe them?"""
    steps = job.timeline.steps
    chosen = ~steps.setup & (steps.start_ns >= since_ns)
    start, end = steps.start_ns[chosen], steps.end_ns[chosen]
    if start.size < rules.runs.clear_steps or (end - start).sum() < rules.runs.filled * (window.end_ns - start[0]):
        return False
    return _steady(job, start, end, rules)


def _steady(job: JobReport, start: Int64, end: Int64, rules: LiveRules) -> bool:
    """Does almost all of the traffic flow in every step?"""
    transfers = job.job.transfers
    step = np.searchsorted(end, transfers.end_ns, side="left")
    rows = np.flatnonzero((transfers.bytes >= MESSAGE_FLOOR_BYTES) & (step < end.size) & (transfers.end_ns > start[0]))
    pair = transfers.pair_of_row[rows]
    if not rows.size:
        return True
    active = np.unique(pair.astype(np.int64) * end.size + step[rows]) // end.size
    often = np.bincount(active, minlength=transfers.pair_count) >= rules.runs.steady_steps * end.size
    size = np.bincount(pair, transfers.bytes[rows].astype(np.float64), minlength=transfers.pair_count)
    return bool(size[often].sum() >= rules.runs.steady_bytes * size.sum())


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
    rows = transfers.bytes >= MESSAGE_FLOOR_BYTES
    if job.job.bulk is not None and transfers.pair_count:
        rows = rows & job.job.bulk[transfers.pair_of_row]
    return rows
