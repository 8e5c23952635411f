"""A slower rhythm that stands out: each of its ticks is in the longest silence of its step, and its steps are even.

With dozens of micro-batches or layers a step is one pause in a hundred to the bits of all pauses, and a clock of parts
may be ahead by hundredths of a bit. But parts of a step have no silence of one length after every so many of them.
Either the slower rhythm is the step, or it is what comes after every few steps: checkpoints, evaluations. Then the
faster clock is that of steps, which each end in their own longest silence, a whole number of them between two
checkpoints, and every pair sends as many times the bytes of one. A clock for which one of these is not so ticks within
steps: micro-batches fill and drain a pipeline, a layer is gathered twice and reduced once, gradients come once.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import medians
from llmprism.model.clock import StepClock
from llmprism.model.job import Job
from llmprism.parallelism.clock_score import Pauses, sent_by_ticks
from llmprism.parallelism.compound_steps import ticks_in_steps
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["may_be_steps", "standing_out"]


def standing_out(job: Job, clock: StepClock, rules: LayoutRules = RULES) -> StepClock | None:
    """The fastest of the rhythms that the job was recognised by, slower than the clock, all of whose steps end in their
    longest silence; None where there is none."""
    rule = rules.clock
    slow = [
        one.clock
        for one in job.clock_candidates
        if one.clock.dominance >= rule.stands_out
        and one.clock.steps >= rule.standing_out_steps
        and one.clock.period_ns >= rule.slower * clock.period_ns
        and one.clock.unevenness <= max(rule.standing_out_uneven, clock.unevenness)
    ]
    return min(slow, key=lambda one: one.period_ns, default=None)


def may_be_steps(pauses: Pauses, fast: StepClock, slow: StepClock, rules: LayoutRules = RULES) -> bool:
    """May the ticks of the faster clock be steps, and the slower rhythm, which stands out, something that comes after
    every few of them?"""
    rule = rules.clock
    place = ticks_in_steps(fast.boundary_ns, slow.boundary_ns, rules)
    if place is None or fast.dominance < rule.stands_out:
        return False
    of_fast, of_slow = (
        medians(np.diff(sent_by_ticks(pauses, one.boundary_ns), axis=1).astype(np.float64), axis=1)
        for one in (fast, slow)
    )
    off = np.abs(of_slow / np.maximum((int(place.max()) + 1) * of_fast, 1.0) - 1.0)
    return bool((off <= rule.uneven).mean() >= rule.stands_out)
