"""What a fault costs: the time that the affected steps took beyond the job's normal step, for all of its GPUs."""

from __future__ import annotations

from typing import Protocol

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.timeline import Steps

__all__ = ["long_enough_ns", "lost_gpu_seconds", "share_lost"]


class Timed(Protocol):
    """Whoever knows the durations of a job's steps."""

    @property
    def duration_ns(self) -> Float64: ...
    @property
    def normal_ns(self) -> float: ...
    @property
    def gpus(self) -> int: ...


def long_enough_ns(least_ns: float, steps: Steps, rules: FaultRules = RULES) -> float:
    """How long a fault must last at least: `least_ns`, or a good part of what was seen where that is less."""
    seen = float(steps.end_ns[-1] - steps.start_ns[0]) if steps.count else 0.0
    return min(least_ns, rules.trust.short_share * seen)


def lost_gpu_seconds(evidence: Timed, steps: Bool) -> float:
    excess = np.maximum(evidence.duration_ns[steps] - evidence.normal_ns, 0.0)
    return float(excess.sum()) / 1e9 * evidence.gpus


def share_lost(evidence: Timed, steps: Bool) -> float:
    """Share of the job's speed that is lost during these steps, 0..1."""
    taken = float(evidence.duration_ns[steps].sum())
    needed = evidence.normal_ns * int(steps.sum())
    return max(0.0, 1.0 - needed / taken) if taken > 0 else 0.0
