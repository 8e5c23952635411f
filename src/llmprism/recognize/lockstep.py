"""Do two clusters step together?

Tensor-parallel peers exchange nothing over the network, so each rail of a job is a cluster of its own. Their steps end
together, step after step, however ragged the steps are; those of two different jobs drift through each other. Two
measures:

* *tether*: the k-th boundaries of two unrelated clocks drift apart like a random walk, whose spread follows from the
  jitter of the steps; those of one job stay tethered, however loosely. The tether is one minus the ratio of the spread
  seen to the spread of that walk; or one minus the share of the jitter that is each clock's own, which a slow rail (it
  shifts against the others, then keeps its distance) does not touch. It decides where there are enough steps and they
  vary.
* *concentration*: how sharply the boundaries of one clock sit at one phase of the other's steps. It speaks only where
  the tether cannot, because two jobs of the same configuration keep almost the same pace: with 2 % jitter they hold one
  phase for hundreds of steps.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock

Float64 = NDArray[np.float64]

__all__ = ["lockstep", "subdivides", "without_holes"]

MIN_COMMON_STEPS: Final = 3
"""Below this nothing can be said from timing."""

MIN_TETHER_STEPS: Final = 12
"""A shorter random walk stays close by chance too often."""

MIN_JITTER: Final = 0.002
"""Share of a step: steps that vary less are as exact as their boundaries are measured, and leave no walk to see."""

CLIP_SPREADS: Final = 4.0
"""Steps further from the median than this many robust spreads count as that far: set-up, checkpoints, stalls."""

EDGE_BOUNDARIES: Final = 1.0
"""Boundaries that may be missing or too many because the two clocks begin and end at different times."""

ONE_EACH: Final = 0.95
"""Smallest ratio of the numbers of steps that the two clocks count in the time that both saw."""

HOLE: Final = 3.0
"""A step this many times the median holds a pause, or several steps that were not seen."""

OVERLAP: Final = 0.5
"""The common time must be at least this share of the longer clock: two runs one after the other are two jobs."""


def lockstep(a: StepClock, b: StepClock) -> float:
    """How surely two clocks (`without_holes`) belong to one job, 0..1; 0 where they have too little in common."""
    start = max(a.boundary_ns[0], b.boundary_ns[0])
    end = min(a.boundary_ns[-1], b.boundary_ns[-1])
    longer = max(a.boundary_ns[-1] - a.boundary_ns[0], b.boundary_ns[-1] - b.boundary_ns[0])
    if end - start < OVERLAP * longer:
        return 0.0
    share = min(_one_each(a, b), _one_each(b, a))
    if share < ONE_EACH:
        return 0.0
    tether = _tether(a, b)
    return tether if tether is not None else min(_concentration(a, b), _concentration(b, a))


def without_holes(clock: StepClock) -> StepClock:
    """The clock with its very long steps marked irregular: an exporter may have been dark and the bytes went on."""
    usual = np.diff(clock.boundary_ns) <= HOLE * clock.period_ns
    return StepClock(clock.boundary_ns, clock.regular & usual, clock.dominance)


def _shared_steps(a: StepClock, b: StepClock) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Regular steps of `b` within the steps that `a` saw, and how many of a's boundaries each holds."""
    first, last = b.boundary_ns[:-1][b.regular], b.boundary_ns[1:][b.regular]
    slot = np.searchsorted(a.boundary_ns, (first + last) // 2, side="right") - 1
    seen = (slot >= 0) & (slot < a.regular.size)
    seen[seen] = a.regular[slot[seen]]
    held = np.searchsorted(a.boundary_ns, last, side="right") - np.searchsorted(a.boundary_ns, first, side="right")
    return np.flatnonzero(b.regular)[seen], held[seen].astype(np.float64)


def _one_each(a: StepClock, b: StepClock) -> float:
    """How nearly `a` has one boundary per step of `b`, those at the edges aside; 0 without enough steps."""
    _, held = _shared_steps(a, b)
    if held.size < MIN_COMMON_STEPS:
        return 0.0
    surplus = max(abs(float(held.sum()) - held.size) - EDGE_BOUNDARIES, 0.0)
    return 1.0 - surplus / held.size


def _concentration(a: StepClock, b: StepClock) -> float:
    """Length of the mean phase vector of the boundaries of `a` within the regular steps of `b`."""
    slot = np.searchsorted(b.boundary_ns, a.boundary_ns, side="right") - 1
    inside = (slot >= 0) & (slot < b.regular.size)
    inside[inside] = b.regular[slot[inside]]
    when, slot = a.boundary_ns[inside], slot[inside]
    if when.size < MIN_COMMON_STEPS:
        return 0.0
    phase = (when - b.boundary_ns[slot]) / np.maximum(b.boundary_ns[slot + 1] - b.boundary_ns[slot], 1)
    return float(np.abs(np.exp(2j * np.pi * phase).mean()))


def _tether(a: StepClock, b: StepClock) -> float | None:
    """None where the steps are too few or too even to tell."""
    first, second, joined = _matched(a, b)
    if joined.sum() < MIN_TETHER_STEPS:
        return None
    jitter = _clipped_variance(np.diff(first)[joined]) + _clipped_variance(np.diff(second)[joined])
    if jitter <= 2.0 * (MIN_JITTER * np.median(np.diff(first)[joined])) ** 2:
        return None
    walk = jitter * first.size / 6.0  # variance of a random walk around its own mean
    drift = np.sqrt(np.var(first - second) / walk)
    alone = np.sqrt(_clipped_variance(np.diff(first - second)[joined]) / jitter)
    return float(max(0.0, 1.0 - min(drift, alone)))


def _matched(a: StepClock, b: StepClock) -> tuple[Float64, Float64, NDArray[np.bool_]]:
    """The k-th boundaries of both clocks, counted on where one of them missed some, and which neighbours are one step.

    Counting starts at the two boundaries nearest to each other at the beginning of the common time. Where one clock has
    a hole, the count goes on at the boundary nearest to the distance that the two clocks kept before it.
    """
    first, second = a.boundary_ns, b.boundary_ns
    if first[0] < second[0]:
        first, second, a, b = second, first, b, a
    i, j = 0, int(np.argmin(np.abs(second - first[0])))
    left, right, joined = [], [], []
    whole = True
    while i < first.size and j < second.size:
        left.append(float(first[i]))
        right.append(float(second[j]))
        joined.append(whole)
        if i + 1 >= first.size or j + 1 >= second.size:
            break
        whole = bool(a.regular[i] and b.regular[j])
        apart = second[j] - first[i]
        if whole or (not a.regular[i] and not b.regular[j]):
            i, j = i + 1, j + 1
        elif a.regular[i]:
            j += 1
            i = max(i + 1, int(np.argmin(np.abs(first + apart - second[j]))))
        else:
            i += 1
            j = max(j + 1, int(np.argmin(np.abs(second - apart - first[i]))))
    return np.array(left), np.array(right), np.array(joined[1:], dtype=np.bool_)


def _clipped_variance(values: NDArray[np.float64]) -> float:
    """Variance without the far outliers: the long set-up step that all jobs have is no jitter."""
    middle = np.median(values)
    reach = CLIP_SPREADS * 1.4826 * np.median(np.abs(values - middle))
    return float(np.var(np.clip(values, middle - reach, middle + reach)))


def subdivides(fine: StepClock, coarse: StepClock) -> bool:
    """Does one clock tick the same number of times, at least twice, within every step of the other?

    Both are `without_holes`. A rail of few or lossy records may show its micro-batches more plainly than its steps.
    """
    _, held = _shared_steps(fine, coarse)
    if held.size < MIN_TETHER_STEPS:
        return False
    usual = float(np.median(held))
    return usual >= 2 and float(np.mean(np.abs(held - usual) <= 1.0)) >= ONE_EACH
