"""The clock of a job, moved to the ends of its steps."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, median
from llmprism.model.clock import StepClock
from llmprism.model.job import Job
from llmprism.model.layout import Group
from llmprism.parallelism.dark_pairs import without_dark_pairs
from llmprism.parallelism.features import PairFeatures, pair_features
from llmprism.parallelism.gathers_ahead import before_gathers_ahead
from llmprism.parallelism.kept_steps import with_kept_steps
from llmprism.parallelism.phase import gradient_clock, pipeline_clock, usable_clock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.structure import pairs_inside

__all__ = ["scatters", "step_ends"]


def step_ends(
    job: Job,
    groups: tuple[Group, ...],
    forward: list[tuple[int, int]],
    features: PairFeatures,
    between: Bool,
    rules: LayoutRules = RULES,
) -> StepClock:
    """The job's clock, moved to the end of the gradient synchronisation; the clock it had where that is not seen.

    `between` marks pairs of collectives between the stages of a pipeline (tied embeddings), which synchronise too.
    """
    assert job.clock is not None  # noqa: S101 - checked by the caller
    transfers = job.transfers
    gradient = pairs_inside(transfers, groups) | between
    if forward:
        sign = np.zeros(transfers.pair_count, dtype=np.int8)
        sign[[there for there, _ in forward]] = 1
        sign[[back for _, back in forward]] = -1
        sign[~without_dark_pairs(transfers, sign != 0, job.clock, rules)] = 0
        step_bytes = float(features.step_bytes[sign != 0].sum())
        found = pipeline_clock(transfers, sign, gradient, step_bytes, job.clock, rules)
        if found is None:  # sequences of varying length: their messages can be counted
            counted = transfers.as_messages()
            step_messages = float(pair_features(counted, job.clock, rules).step_bytes[sign != 0].sum())
            found = pipeline_clock(counted, sign, gradient, step_messages, job.clock, rules)
        if found is not None:
            found = before_gathers_ahead(transfers, sign, pairs_inside(transfers, groups), found, rules)
        return with_kept_steps(usable_clock(found, job.clock), job.clock, rules)
    if gradient.any():
        gradient = without_dark_pairs(transfers, gradient, job.clock, rules)
        step_bytes = float(features.step_bytes[gradient].sum())
        found = gradient_clock(transfers, gradient, step_bytes, job.clock, rules)
        return with_kept_steps(usable_clock(found, job.clock), job.clock, rules)
    return job.clock


def scatters(ends: StepClock, clock: StepClock, rules: LayoutRules = RULES) -> bool:
    """Are the ends less even than the clock that they were found by? The ends of steps do not scatter.

    They change their place in the clock's steps where ticks of it are misplaced, and are the more even ones then. Where
    they are the less even ones, some are ends and others turns from forward to backward, each for steps in a row.
    Ends before the clock's first step tell nothing: those are the set-up's, which is as long as it likes.
    """
    began = np.searchsorted(ends.boundary_ns, clock.boundary_ns[0] - 0.5 * clock.period_ns)
    ends = StepClock(ends.boundary_ns[began:], ends.regular[began:], ends.dominance)
    if ends.unevenness > rules.clock.uneven + clock.unevenness:
        return True
    if clock.steps < rules.clock.least_steps or _elsewhere(ends, clock, rules) <= rules.clock.outer_steps:
        return False
    return _mean_unevenness(ends) > rules.ends.scattered * _mean_unevenness(clock)


def _elsewhere(ends: StepClock, clock: StepClock, rules: LayoutRules) -> float:
    """Share of the ends that have another place in the clock's steps than most."""
    step = np.clip(
        np.searchsorted(clock.boundary_ns, ends.boundary_ns, side="right") - 1, 0, clock.boundary_ns.size - 2
    )
    place = (ends.boundary_ns - clock.boundary_ns[step]) / max(clock.period_ns, 1.0)
    off = (place - np.angle(np.exp(2j * np.pi * place).sum()) / (2.0 * np.pi) + 0.5) % 1.0 - 0.5
    return float((np.abs((off - median(off) + 0.5) % 1.0 - 0.5) > rules.clock.uneven).mean())


def _mean_unevenness(clock: StepClock) -> float:
    """Mean difference of a step from the usual one, relative to it. Longer ones (pauses, faults) count as half a step:
    so far an end may be misplaced."""
    length = np.diff(clock.boundary_ns) / max(clock.period_ns, 1.0)
    return float(np.minimum(np.abs(length - 1.0), 0.5).mean())
