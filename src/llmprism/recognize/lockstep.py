"""Do two clusters step together?

Tensor-parallel peers exchange nothing over the network, so each rail of a job is a cluster of its own. Their steps end
together, step after step, however ragged the steps are; those of two different jobs drift through each other. Two
measures, and the better one counts:

* *concentration*: how sharply the boundaries of one clock sit at one phase of the other's steps;
* *tether*: the k-th boundaries of two unrelated clocks drift apart like a random walk, whose spread follows from the
  jitter of the steps; those of one job stay tethered, however loosely. The tether is one minus the ratio of the spread
  seen to the spread of that walk.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock

__all__ = ["lockstep"]

MIN_COMMON_STEPS: Final = 3
"""Below this nothing can be said from timing."""

MIN_TETHER_STEPS: Final = 12
"""A shorter random walk stays close by chance too often."""

SAME_COUNT: Final = 0.03
"""Relative difference allowed between the numbers of steps in the common time (plus one step at the edge)."""

OVERLAP: Final = 0.5
"""The common time must be at least this share of the longer clock: two runs one after the other are two jobs."""


def lockstep(a: StepClock, b: StepClock) -> float:
    """How surely two clocks belong to one job, 0..1; 0 where the clocks have too little in common."""
    start = max(a.boundary_ns[0], b.boundary_ns[0])
    end = min(a.boundary_ns[-1], b.boundary_ns[-1])
    longer = max(a.boundary_ns[-1] - a.boundary_ns[0], b.boundary_ns[-1] - b.boundary_ns[0])
    if end - start < OVERLAP * longer:
        return 0.0
    margin = 0.5 * max(a.period_ns, b.period_ns)
    inner_a = _inside(a.boundary_ns, start - margin, end + margin)
    inner_b = _inside(b.boundary_ns, start - margin, end + margin)
    if min(inner_a.size, inner_b.size) <= MIN_COMMON_STEPS:
        return 0.0
    if abs(inner_a.size - inner_b.size) > 1 + SAME_COUNT * max(inner_a.size, inner_b.size):
        return 0.0
    concentration = min(_concentration(inner_a, inner_b), _concentration(inner_b, inner_a))
    return max(concentration, _tether(inner_a, inner_b))


def _tether(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    shift = int(np.argmin(np.abs(b - a[0])))
    count = min(a.size, b.size - shift)
    if count < MIN_TETHER_STEPS:
        return 0.0
    first, second = a[:count], b[shift : shift + count]
    jitter = np.var(np.diff(first)) + np.var(np.diff(second))
    walk = jitter * count / 6.0  # variance of a random walk around its own mean
    return float(max(0.0, 1.0 - np.sqrt(np.var(first - second) / walk))) if walk > 0 else 0.0


def _inside(boundary: NDArray[np.int64], start: float, end: float) -> NDArray[np.float64]:
    return boundary[(boundary >= start) & (boundary <= end)].astype(np.float64)


def _concentration(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Length of the mean phase vector of the boundaries `a` within the steps of `b`."""
    slot = np.clip(np.searchsorted(b, a, side="right") - 1, 0, b.size - 2)
    phase = (a - b[slot]) / np.maximum(b[slot + 1] - b[slot], 1.0)
    return float(np.abs(np.exp(2j * np.pi * phase).mean()))
