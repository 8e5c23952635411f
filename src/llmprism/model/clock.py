"""The step clock of a job or of a part of it: when one step's traffic gave way to the next one's."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int64, median

__all__ = ["OUTER_STEPS", "ClockCandidate", "StepClock"]

OUTER_STEPS: Final = 0.2
"""Share of a job's steps on either side, by their bytes, that may carry anything: faults, checkpoints, cut windows.
Less than a quarter, so that one tick in four is seen. The rules of the stages start from it."""


@dataclass(frozen=True)
class StepClock:
    """Between `boundary_ns[k]` and `boundary_ns[k + 1]` lies one step where `regular[k]`, else something that is not.

    `dominance` (0..1) is the share of steps whose ends are their longest silences: how clearly the steps show. What is
    asked thousands of times while clocks are compared, how many steps there are and how long, is found out once.
    `complete`: the last tick is the end of the job, and of a step.
    """

    boundary_ns: Int64
    regular: Bool
    dominance: float
    complete: bool = False

    @cached_property
    def steps(self) -> int:
        return int(self.regular.sum())

    def step_at(self, when_ns: Int64) -> Int64:
        """The step (an index into `regular`) in which each moment lies, -1 outside all."""
        step = np.searchsorted(self.boundary_ns, when_ns, side="right") - 1
        return np.where(step < self.regular.size, step, -1)

    @property
    def whole(self) -> Bool:
        """The regular steps that are seen from their beginning on.

        All but the first where that is shorter than half of the others: a step whose gradients are all there ends as
        the others do, but it began before the window.
        """
        whole = self.regular.copy()
        if whole.any():
            whole[0] &= bool(2.0 * (self.boundary_ns[1] - self.boundary_ns[0]) >= self.period_ns)
        return whole

    @property
    def unevenness(self) -> float:
        """Median deviation of the steps' lengths from their median, relative to it."""
        length = np.diff(self.boundary_ns).astype(np.float64)
        if not length.size:
            return 0.0
        usual = max(float(median(length)), 1.0)
        return float(median(np.abs(length - usual))) / usual

    @cached_property
    def period_ns(self) -> float:
        """Median duration of a step; 0 without any."""
        durations = np.diff(self.boundary_ns)[self.regular]
        return float(median(durations)) if durations.size else 0.0


@dataclass(frozen=True, slots=True)
class ClockCandidate:
    """One rhythm that the traffic shows and that may be the step's; `score` (0..1) is how much of the traffic it
    explains and how clearly: the share of bytes on its chain of equal steps times its dominance."""

    clock: StepClock
    score: float
