"""Views and reports that tests of the verdict put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.logs.view import JobView, RankView
from llmprism.model.log import Cause, CauseClass, LogDiagnosis, LogInput, Outcome, Stage, Symptom
from llmprism.model.timeline import Steps

SECOND = 1_000_000_000
START = 1_800_000_000 * SECOND

QUIET = LogDiagnosis(
    LogInput(1, 10, 1, 1), Outcome.RUNNING, Symptom.NONE, Stage.TRAIN, 40, Cause(CauseClass.NONE, None, 0.7)
)


def step_ends(count: int = 40, *, seed: int = 1, jitter: float = 0.1, step_s: float = 0.5) -> np.ndarray:
    """Ends of steps whose lengths vary by `jitter`."""
    random = np.random.default_rng(seed)
    lengths = step_s * (1 + jitter * random.standard_normal(count))
    return START + (np.cumsum(lengths) * SECOND).astype(np.int64)


def steps_of(ends: np.ndarray) -> Steps:
    starts = np.append(ends[0] - SECOND // 2, ends[:-1])
    return Steps(starts, ends, np.zeros(ends.size, dtype=np.bool_))


def rank_view(
    rank: int | None,
    ends: np.ndarray,
    *,
    first: int = 1,
    offset_ns: int = 0,
    unit_ns: int = SECOND,
    printed: bool = True,
    **more: object,
) -> RankView:
    """A rank that prints iteration `first + k` when step `k` ends, by a clock that is `offset_ns` ahead."""
    times = (ends + offset_ns) // unit_ns * unit_ns
    seconds = np.append(np.nan, np.diff(ends) / SECOND) if printed else np.full(ends.size, np.nan)
    numbers = np.arange(first, first + ends.size)
    last = int(times[-1]) if times.size else 0
    view = RankView(rank, None, (), ends.size, last, int(numbers[-1]), numbers, times, seconds)
    return replace(view, **more)  # type: ignore[arg-type]


def job_view(ranks: Sequence[RankView], diagnosis: LogDiagnosis = QUIET, **more: object) -> JobView:
    view = JobView(tuple(ranks), SECOND // 2, max(rank.last_ns for rank in ranks), diagnosis)
    return replace(view, **more)  # type: ignore[arg-type]
