"""Gradient accumulation in sharded training: several passes over all layers make one step.

Every micro-batch gathers and reduces all layers, so its traffic repeats exactly and each pass looks like a step. But
only the last pass of a step is followed by the optimizer, before which no layer can be gathered again. Between passes
the links rest no longer than inside them; after every m-th pass they do. A pause longer than half a pass is no
optimizer: it is a checkpoint or an evaluation after every m-th step, and joins nothing.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable
from llmprism.parallelism.phase import rests_after
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["accumulated"]


def accumulated(
    transfers: TransferTable, gradient: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> tuple[StepClock, int]:
    """The clock with its ticks joined to whole steps, and how many make one; 1 where every tick is a step."""
    if clock.period_ns <= 0.0:
        return clock, 1
    number = np.concatenate([[0], np.cumsum(np.maximum(1, np.rint(np.diff(clock.boundary_ns) / clock.period_ns)))])
    rest = rests_after(transfers, gradient, clock.boundary_ns)
    for passes in range(2, rules.sharding.most_passes + 1):
        phase = _last_pass(number.astype(np.int64), rest, passes, clock.period_ns, rules)
        if phase is not None:
            return _joined(clock, number.astype(np.int64), passes, phase), passes
    return clock, 1


def _last_pass(number: Int64, rest: Int64, passes: int, period_ns: float, rules: LayoutRules) -> int | None:
    """Which pass of `passes` is followed by the optimizer; None where no one stands out."""
    rule = rules.sharding
    known = rest >= 0
    by_pass = [rest[known & (number % passes == phase)] for phase in range(passes)]
    if min(part.size for part in by_pass) < rule.accumulated_steps:
        return None
    usual = np.array([np.median(part) for part in by_pass])
    phase = int(np.argmax(usual))
    others = np.delete(usual, phase)
    if usual[phase] > rule.longest_optimizer * period_ns or usual[phase] < rule.last_pass_longer * max(
        float(others.max()), 1.0
    ):
        return None
    above = by_pass[phase] > float(others.max())
    below = np.concatenate([part for p, part in enumerate(by_pass) if p != phase]) < usual[phase]
    return phase if min(above.mean(), below.mean()) >= rule.last_pass_longest else None


def _joined(clock: StepClock, number: Int64, passes: int, phase: int) -> StepClock:
    chosen = np.flatnonzero(number % passes == phase)
    whole = np.diff(number[chosen]) == passes
    regular = np.array([clock.regular[a:b].all() for a, b in pairwise(chosen)], dtype=np.bool_)
    return StepClock(clock.boundary_ns[chosen], whole & regular, clock.dominance)
