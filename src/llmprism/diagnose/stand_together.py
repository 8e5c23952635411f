"""Whether the members of a job that has stopped all stand at the same point of a step.

After a step everybody has sent the same share of what it sends in one, wherever the clock of the job cuts its steps:
nobody has begun what another has not. Ranks that are stopped anywhere else are as far apart as while messages flow:
some have begun the next message, some the one after it. So a job that stops while all stand together has most likely
ended, although it rests there in no other step: one that gathers parameters while the next step begins does not gather
any after its last one.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64, median
from llmprism.diagnose.byte_curves import ByteCurve
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["Standing", "how_far_apart", "position", "stand_together"]


def position(curve: ByteCurve, ends: Float64, step_bytes: float) -> float:
    """How many steps of its own bytes a member has sent since the last of these ends, by all of them together; NaN
    where it sends nothing."""
    if step_bytes <= 0.0:
        return float("nan")
    since = (curve.total - curve.at(ends)) / step_bytes - np.arange(ends.size)[::-1]
    since -= np.round(since - since[-1])  # a step that the clock lost or saw twice
    return float(median(since))


@dataclass(frozen=True, slots=True)
class Standing:
    """Where each member stands, in its own steps, its bytes in a step, and half of its usual message in steps; `before`
    (members x moments) is where it stood at moments before, while messages flowed."""

    stands: Float64
    step_bytes: Float64
    half_message: Float64
    before: Float64


def how_far_apart(standing: Standing, rules: FaultRules = RULES, *, lossy: bool = False) -> tuple[float, float]:
    """By how many of their messages members that send as much in a step, and so do the same, are apart: now, and
    usually while messages flow; NaN where nothing is known. Where a collector loses records (`lossy`) some seem to be
    behind: the outer tenths do not count."""
    known = np.flatnonzero(np.isfinite(standing.stands))
    if not known.size or not standing.before.shape[1]:
        return float("nan"), float("nan")
    now, *before = _apart(standing, known, rules, lossy=lossy).tolist()
    return now, float(median(np.array(before)))


def stand_together(now: float, usual: float, rules: FaultRules = RULES) -> bool:
    """Are members that do the same much closer together than while messages flow? Ranks that are stopped anywhere are
    as far apart as at any other moment. Where they always move in lockstep nothing can be told."""
    return usual > rules.endings.lockstep_messages and now <= rules.endings.closer * usual


def _apart(standing: Standing, known: Int64, rules: FaultRules, *, lossy: bool) -> Float64:
    """By how many of their messages members of one role are apart, now and at each moment before; the most of all
    roles."""
    size, where = standing.step_bytes, np.column_stack([standing.stands, standing.before])
    order = known[np.argsort(size[known])]
    another = np.flatnonzero(np.diff(size[order]) > rules.endings.exact * size[order][1:]) + 1
    most = np.zeros(where.shape[1])
    for role in np.split(order, another):
        low, high = np.quantile(where[role], [0.1, 0.9] if lossy else [0.0, 1.0], axis=0)
        most = np.maximum(most, (high - low) / (2.0 * float(median(standing.half_message[role]))))
    return most
