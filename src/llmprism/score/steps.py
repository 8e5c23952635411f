"""Step boundaries and step periods.

The boundary is the end of a step (contract: `end_ns` is scored): the last rank's end of gradient synchronisation, with
the optimizer where it shows. A reported and a true boundary match when each is the other's nearest and they are at
most `TOLERANCE` of the job's median true step time apart. The set-up step's end is a boundary like any other; the end
of a step that began before the window counts neither for nor against.
Periods are the intervals between the ends of consecutive true steps that both matched, compared with the interval
between the two reported ends: a constant delay (an optimizer that sends nothing) does no harm. The total time runs
from the first to the last matched boundary.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64, nearest
from llmprism.score.document import ScoredJob
from llmprism.score.jobs import JobMatch
from llmprism.score.measures import SetScore

__all__ = ["TOLERANCE", "StepsScore", "match_boundaries", "median_step_ns", "score_steps"]

TOLERANCE = 0.10
"""Share of the median true step time: ten times the 1 % that good reports reach, a fifth of what chance needs."""


@dataclass(frozen=True, slots=True)
class StepsScore:
    """Errors are relative (0.003 is 0.3 %); None where fewer than two consecutive boundaries matched.

    `total_time_error` is the mean over the jobs where it could be measured.
    """

    boundaries: SetScore
    periods: int
    period_error_median: float | None
    period_error_p99: float | None
    total_time_error: float | None


def median_step_ns(job: ScoredJob) -> float | None:
    """Median interval between the true step ends, or the only step's own length; None without steps."""
    ends = np.sort(np.array(job.step_end_ns, dtype=np.int64))
    if ends.size > 1:
        return float(np.median(np.diff(ends)))
    return float(job.step_end_ns[0] - job.step_start_ns[0]) if ends.size else None


def match_boundaries(true: Int64, said: Int64, tolerance_ns: float) -> tuple[Int64, Int64]:
    """Indices of matched boundaries in both sorted arrays: mutual nearest neighbours within the tolerance."""
    none = np.zeros(0, dtype=np.int64)
    if not true.size or not said.size:
        return none, none
    nearest_said = nearest(true, said)
    nearest_true = nearest(said, true)
    index = np.arange(true.size)
    close = np.abs(said[nearest_said] - true) <= tolerance_ns
    matched = index[close & (nearest_true[nearest_said] == index)]
    return matched, nearest_said[matched]


def score_steps(truth: tuple[ScoredJob, ...], reported: tuple[ScoredJob, ...], match: JobMatch) -> StepsScore:
    boundaries = SetScore(0, 0, 0)
    errors: list[Float64] = []
    totals: list[float] = []
    matched_ids = {id(found) for found in match.reported_of if found is not None}
    for job, found in zip(truth, match.reported_of, strict=True):
        true = _ends(job)
        said = _ends(found) if found is not None else np.zeros(0, dtype=np.int64)
        at_true, at_said = match_boundaries(true, said, TOLERANCE * (median_step_ns(job) or 0.0))
        optional = np.isin(true, list(job.partial_end_ns))
        free = int(optional[at_true].sum())
        boundaries += SetScore(at_true.size - free, said.size - free, true.size - int(optional.sum()))
        consecutive = np.diff(at_true) == 1
        true_periods = np.diff(true[at_true])
        periods = true_periods[consecutive]
        errors.append(np.abs(np.diff(said[at_said])[consecutive] - periods) / np.maximum(periods, 1))
        if at_true.size > 1:
            whole = int(true_periods.sum())
            totals.append(abs(int(said[at_said[-1]] - said[at_said[0]]) - whole) / max(whole, 1))
    extra = sum(len(found.step_end_ns) for found in reported if id(found) not in matched_ids)
    boundaries += SetScore(0, extra, 0)
    error = np.concatenate(errors) if errors else np.zeros(0)
    return StepsScore(
        boundaries=boundaries,
        periods=int(error.size),
        period_error_median=float(np.median(error)) if error.size else None,
        period_error_p99=float(np.quantile(error, 0.99)) if error.size else None,
        total_time_error=float(np.mean(totals)) if totals else None,
    )


def _ends(job: ScoredJob) -> Int64:
    return np.unique(np.array(job.step_end_ns, dtype=np.int64))
