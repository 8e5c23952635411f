"""Long steps that are slow for a part of their time: the rates of that part.

The rate of a cell is that of its median byte. A fault that begins and ends within one long step slows fewer than half
of its bytes, since the others pass as fast as ever in the rest of the time, and the cell looks healthy. So does a slow
uplink whose queue takes in most of a step's messages. Cut into parts of equal time of at most half of what the step
takes longer, one part lies wholly in that: four of a step of twice the usual length, six of one and a half.

Rates differ from one part of a step to another (experts and gradients share pairs), and vary where a part holds one
message. So a pair is slow in a part if it is as much slower than in nearly all parts of usual steps as a sick cell is
than a healthy one. The part that stands for its step is the one in which rates fall most, over all pairs; pairs that
are not slow then, or so much less that they explain next to nothing, keep the rate of the whole step. A part in which
most pairs are slow shows a job that waits, for a slow GPU or for anything else: its few messages hold the pauses.

Judged are steps that are slow all along (`throughout`): an evaluation or a checkpoint has other messages.
"""

from __future__ import annotations

from math import exp

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.rates import pair_rates
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.throughout import slow_throughout
from llmprism.model.layout import PairKind
from llmprism.model.timeline import Steps

__all__ = ["rates_of_slow_parts"]


def rates_of_slow_parts(evidence: JobEvidence, rules: FaultRules = RULES) -> Float64:
    """Pairs x steps: the rates of the evidence; in long steps, for pairs that are slow in a part, those of the part."""
    usual = usual_steps(evidence, rules)
    warm = np.cumsum(usual) >= rules.places.sick_steps  # before that a job becomes faster by itself
    long = slow_throughout(evidence, warm & evidence.counted, usual, rules.places.part_slowdown, rules)
    if not long.any():
        return evidence.rate
    rate, excess = evidence.rate.copy(), np.maximum(evidence.duration_ns - evidence.normal_ns, 1.0)
    count = 2 * np.ceil(evidence.duration_ns / excess).astype(np.int64)
    for parts in np.unique(count[long]).tolist():
        _replace(rate, evidence, usual, np.flatnonzero(long & (count == parts)), parts, rules)
    return rate


def _replace(rate: Float64, evidence: JobEvidence, usual: Bool, steps: Int64, count: int, rules: FaultRules) -> None:
    """Write the rates of the slowest of `count` parts of these steps into `rate`."""
    usual_parts = _of_parts(evidence, np.flatnonzero(usual), count, rules)
    lowest = np.array([_low(each, rules.places.part_lowest) for each in usual_parts])
    parts = _of_parts(evidence, steps, count, rules).reshape(rate.shape[0], steps.size, count)
    limit = exp(-rules.places.drop) * lowest[:, None, None]
    slow = (parts < limit) & (parts > 0.0)
    slow &= slow.sum(axis=0) <= rules.places.part_most * np.isfinite(parts).sum(axis=0)  # else all wait, for anything
    fall = np.log(np.where(slow, limit / np.where(slow, parts, 1.0), 1.0))
    worst = np.argmax(fall.sum(axis=0), axis=1)
    for column, (step, part) in enumerate(zip(steps.tolist(), worst.tolist(), strict=True)):
        now = np.where(slow[:, column, part], parts[:, column, part], np.inf)
        rows = np.isfinite(now) & (rules.places.loss * now < now.min(initial=np.inf))
        rate[rows, step] = np.fmin(rate[rows, step], now[rows])


def _of_parts(evidence: JobEvidence, which: Int64, count: int, rules: FaultRules) -> Float64:
    """Pairs x parts of these steps, one step after the other: how fast each moved data in it."""
    steps, shares = evidence.timeline.steps, np.arange(count + 1) / count
    bounds = steps.start_ns[which, None] + ((steps.end_ns - steps.start_ns)[which, None] * shares).astype(np.int64)
    parts = Steps(bounds[:, :-1].ravel(), bounds[:, 1:].ravel(), np.zeros(which.size * count, dtype=np.bool_))
    return pair_rates(evidence.job.transfers, parts, evidence.pair_kind != PairKind.UNKNOWN, rules)


def _low(rates: Float64, quantile: float) -> float:
    known = rates[np.isfinite(rates)]
    return float(np.quantile(known, quantile)) if known.size else 0.0
