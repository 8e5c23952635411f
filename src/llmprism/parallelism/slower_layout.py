"""Of a clock and a slower one that explains the pauses nearly as well: the one with which the layout explains more.

A clock of micro-batches or layers predicts most pauses of a job as well as that of its steps does, with fewer places to
know. What it does not explain is the rest: gradients that come once a step are silent in most of its ticks, the bytes
of its ticks vary, pipelines have no rest in which nothing is outstanding, and kinds of links that follow from all that
contradict each other. These are terms of the layout's confidence. So where a slower clock is behind by no more than the
margin that it has to lead by, the layout is read with either clock, and the surer one stands.

So it is with a slower rhythm that stands out (`standing_out`), whatever its lead, where the faster clock may be that of
steps too: checkpoints and evaluations have such a rhythm.

Two steps taken together explain a layout as well as one. Where the slower clock tells the same with so many times the
micro-batches, the faster one stands.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.parallelism.fitted_confidence import FITTED
from llmprism.parallelism.rival_clocks import BestClock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.standing_out import standing_out

__all__ = ["slower_rivals", "surer_layout"]

_OF_MICRO_BATCHES: Final = ("micro_batch_bits", "open_micro_batches", "no_schedule", "no_moments", "like_chance")


def slower_rivals(job: Job, best: BestClock, rules: LayoutRules = RULES) -> list[BestClock]:
    """The slower clocks with which the layout decides: one that is close to the best, and one that stands out; none
    where the clock is settled."""
    found = [] if best.settled else [_close(best, rules), _standing_out(job, best, rules)]
    return [one for one in found if one is not None]


def _close(best: BestClock, rules: LayoutRules) -> BestClock | None:
    """The slower clock that is so close to the best one that the layout decides; None where there is none."""
    rival, rule = best.rival, rules.clock
    if rival is None or best.lead >= rule.margin_bits or rival.clock.steps < rule.least_steps:
        return None
    return rival if rival.clock.period_ns >= rule.slower * best.clock.period_ns else None


def _standing_out(job: Job, best: BestClock, rules: LayoutRules) -> BestClock | None:
    """The slower rhythm that stands out; None where there is none, or nothing competes with the best clock."""
    clock = None if best.rival is None else standing_out(job, best.clock, rules)
    if clock is None:
        return None
    rival = BestClock.of(clock, best.clock, 0.0)
    return replace(rival, step_bytes=int(best.step_bytes / max(rival.rival_period, 1e-9)))


def surer_layout(fast: JobLayout, slow: JobLayout, rules: LayoutRules = RULES) -> JobLayout:
    """The layout with the slower clock where it is surer, also as a whole, and does not tell the same of several steps
    together."""
    surer = _odds(slow) - _odds(fast) > rules.clock.slower_nats and slow.confidence >= fast.confidence
    return slow if surer and not _several_steps(fast, slow, rules) else fast


def _odds(layout: JobLayout) -> float:
    """Log odds of a layout whose micro-batches are left out: their number depends on the clock."""
    return sum(FITTED.weight(name) * value for name, value in layout.evidence if name not in _OF_MICRO_BATCHES)


def _several_steps(fast: JobLayout, slow: JobLayout, rules: LayoutRules) -> bool:
    """Does the slower clock tell the same of each step of the faster one?"""
    same = _members(fast) == _members(slow) and set(fast.pipelines) == set(slow.pipelines)
    if not same or fast.clock is None or slow.clock is None:
        return False
    one, several = fast.layout.micro_batches, slow.layout.micro_batches
    if one is None or several is None:
        return one is several
    times = slow.clock.period_ns / max(fast.clock.period_ns, 1.0)
    return abs(several / (one * times) - 1.0) <= rules.clock.same_batches


def _members(layout: JobLayout) -> set[tuple[PairKind, frozenset[int]]]:
    return {(group.kind, frozenset(group.members)) for group in layout.groups}
