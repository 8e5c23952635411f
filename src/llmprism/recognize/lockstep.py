"""Do two clusters step together? What their step clocks say.

Tensor-parallel peers exchange nothing over the network, so each rail of a job is a cluster of its own. Their steps end
together, step after step, however ragged the steps are; those of two different jobs drift through each other like a
random walk, whose spread follows from the jitter of the two clocks. Two explanations of the distances between the k-th
boundaries are compared, in bits (log2 of how much likelier one job makes what is seen):

* a walk of so many steps would have stayed as close together as the two clocks did: the share of walks that do falls
  as exp(-1 / 8e), where e is the spread seen, relative to that of the walk's steps (the small-ball law);
* a rail that is slow for a while shifts against the others and then keeps its distance: what counts is then the jitter
  that is each clock's own, relative to all of it, step by step.

Clocks say nothing against one job: a rail of few or lossy records may have misplaced its boundaries, or tick with its
micro-batches. Where they say too little for it the messages themselves are compared (`rhythm`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.robust import mad

__all__ = ["lockstep_bits", "without_holes"]

SMALL_BALL: Final = 6.0 / 8.0 / np.log(2.0)
"""Bits at the spread of one whole walk (1/6 of its last variance), by exp(-1 / 8e)."""

Z_95: Final = 1.645
"""Standard deviations below which one value in twenty lies: the wander of a clock is at least what it is then."""


def lockstep_bits(a: StepClock, b: StepClock, rules: RecognitionRules = RULES) -> float:
    """Bits for two clocks (`without_holes`) being those of one job; 0 where they have too little in common to tell."""
    start = max(a.boundary_ns[0], b.boundary_ns[0])
    end = min(a.boundary_ns[-1], b.boundary_ns[-1])
    longer = max(a.boundary_ns[-1] - a.boundary_ns[0], b.boundary_ns[-1] - b.boundary_ns[0])
    if end - start < rules.common_time * longer:
        return 0.0
    if min(_one_each(a, b), _one_each(b, a)) < rules.one_step_each:
        return 0.0
    return _tether_bits(a, b, rules)


def without_holes(clock: StepClock, rules: RecognitionRules = RULES) -> StepClock:
    """The clock with its very long steps marked irregular: an exporter may have been dark and the bytes went on."""
    usual = np.diff(clock.boundary_ns) <= rules.hole_steps * clock.period_ns
    return StepClock(clock.boundary_ns, clock.regular & usual, clock.dominance)


def _shared_steps(a: StepClock, b: StepClock) -> tuple[Int64, Float64]:
    """Regular steps of `b` within the steps that `a` saw, and how many of a's boundaries each holds."""
    first, last = b.boundary_ns[:-1][b.regular], b.boundary_ns[1:][b.regular]
    slot = np.searchsorted(a.boundary_ns, (first + last) // 2, side="right") - 1
    seen = (slot >= 0) & (slot < a.regular.size)
    seen[seen] = a.regular[slot[seen]]
    held = np.searchsorted(a.boundary_ns, last, side="right") - np.searchsorted(a.boundary_ns, first, side="right")
    return np.flatnonzero(b.regular)[seen], held[seen].astype(np.float64)


def _one_each(a: StepClock, b: StepClock) -> float:
    """How nearly `a` has one boundary per step of `b`, the one at the edges aside; 0 without any common step."""
    _, held = _shared_steps(a, b)
    if not held.size:
        return 0.0
    surplus = max(abs(float(held.sum()) - held.size) - 1.0, 0.0)
    return 1.0 - surplus / held.size


def _tether_bits(a: StepClock, b: StepClock, rules: RecognitionRules) -> float:
    """0 where the steps are too few or too even to tell."""
    first, second, joined = _matched(a, b)
    steps = int(joined.sum())
    if steps < rules.tether_steps:
        return 0.0
    alone = _spread(np.diff(first)[joined], rules) + _spread(np.diff(second)[joined], rules)
    wander = sum(max(_wander(np.diff(one)[joined], rules.block_steps), 0.0) for one in (first, second))
    if alone <= 2.0 * (rules.least_jitter * median(np.diff(first)[joined])) ** 2:
        return 0.0
    own = max(_spread(np.diff(first - second)[joined], rules) / alone, rules.own_jitter_floor)
    by_jitter = 0.25 * steps * (own - 1.0 - np.log(own)) / np.log(2.0) if own < 1.0 else 0.0
    known = max(1.0 - Z_95 * np.sqrt(2.0 * rules.block_steps / steps), 0.0)  # as well as blocks show a variance
    walk = known * wander * first.size / 6.0  # variance of a random walk around its own mean
    by_drift = (
        SMALL_BALL * (walk / max(float(np.var(first - second)), rules.own_jitter_floor * walk) - 1.0)
        if walk > 0.0
        else 0.0
    )
    return float(min(max(by_drift, by_jitter, 0.0), rules.most_bits))


def _matched(a: StepClock, b: StepClock) -> tuple[Float64, Float64, Bool]:
    """The k-th boundaries of both clocks, counted on where one of them missed some, and which neighbours are one step.

    Counting starts at the two boundaries nearest to each other at the beginning of the common time. Where one clock has
    a hole, the count goes on at the boundary nearest to the distance that the two clocks kept before it.
    """
    first, second = a.boundary_ns, b.boundary_ns
    if first[0] < second[0]:
        first, second, a, b = second, first, b, a
    i, j = 0, int(np.argmin(np.abs(second - first[0])))
    left, right, joined = [], [], []
    of_a, of_b = a.regular.tolist(), b.regular.tolist()  # read one by one
    whole = True
    while i < first.size and j < second.size:
        left.append(i)
        right.append(j)
        joined.append(whole)
        if i + 1 >= first.size or j + 1 >= second.size:
            break
        whole = of_a[i] and of_b[j]
        apart = second[j] - first[i]
        if whole or (not of_a[i] and not of_b[j]):
            i, j = i + 1, j + 1
        elif of_a[i]:
            j += 1
            i = max(i + 1, int(np.argmin(np.abs(first + apart - second[j]))))
        else:
            i += 1
            j = max(j + 1, int(np.argmin(np.abs(second - apart - first[i]))))
    return first[left].astype(np.float64), second[right].astype(np.float64), np.array(joined[1:], dtype=np.bool_)


def _wander(durations: Float64, block: int) -> float:
    """Variance that every step adds to a clock's distance from an even one.

    A boundary that was seen too late makes one step longer and the next shorter: that is spread, but it adds nothing.
    Blocks of steps tell the two apart, because only what adds up grows with their length.
    """
    if durations.size < 4 * block:
        return 0.0
    many, one = (0.5 * mad(_changes(durations, steps)) ** 2 for steps in (block, 1))
    return (many - one) / (block - 1)


def _spread(durations: Float64, rules: RecognitionRules) -> float:
    """Half the variance between steps that follow each other, without the far outliers.

    A switch that gets slow makes the steps of all jobs behind it longer at once: only what changes from one to the next
    is a job's own. And the long set-up step that all jobs have is no jitter.
    """
    change = _changes(durations, 1)
    middle, reach = float(median(change)), rules.clip_spreads * mad(change)
    return float(np.var(np.clip(change, middle - reach, middle + reach)) / 2.0)


def _changes(durations: Float64, block: int) -> Float64:
    """Differences of the durations of blocks of so many steps that follow each other."""
    at = np.concatenate([[0.0], np.cumsum(durations)])
    length = at[block:] - at[:-block]
    return np.asarray(length[block:] - length[:-block])
