"""A clock that was moved to the ends of the steps keeps all steps of the clock that it was moved from.

The ends are found by what every step sends. A step with an evaluation sends more, one whose records were lost less, and
no end is found there; the chain goes on at a later step. But the clock before it, by other pairs or at another place of
the step, may have seen these steps. Both tick once a step, so what lies between two ticks of the one is as far from
those of the other as everywhere else.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import median, nearest
from llmprism.model.clock import StepClock
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["with_kept_steps"]


def with_kept_steps(moved: StepClock, before: StepClock, rules: LayoutRules = RULES) -> StepClock:
    """The moved clock, and where it jumps over steps that the clock `before` has, ticks at their usual place."""
    period, holes = before.period_ns, np.flatnonzero(~moved.regular)
    if moved is before or period <= 0.0 or not holes.size:
        return moved
    tick = nearest(moved.boundary_ns, before.boundary_ns)
    apart = moved.boundary_ns - before.boundary_ns[tick]
    place = float(median(apart))
    in_place = np.abs(apart - place) <= rules.ends.near_phase * period
    if in_place.mean() < rules.ends.ticks_in_phase:
        return moved
    ticks, regular = [moved.boundary_ns[:1]], []
    for k, whole in enumerate(moved.regular.tolist()):
        first, last = int(tick[k]), int(tick[k + 1])
        seen = before.regular[first:last]
        if not whole and in_place[k] and in_place[k + 1] and seen.size > 1 and seen.all():
            ticks.append(before.boundary_ns[first + 1 : last] + np.int64(place))
            regular.append(seen)
        else:
            regular.append(moved.regular[k : k + 1])
        ticks.append(moved.boundary_ns[k + 1 : k + 2])
    return StepClock(np.concatenate(ticks), np.concatenate(regular), moved.dominance)
