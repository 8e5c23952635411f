"""When the optimizer is done, of which nothing is sent: where in the rest after the last gradient a step ends.

The rest lasts from the last gradient to the next step's first message. What that message is says how much of the rest
is the optimizer's:

* *A gather of sharded parameters.* Nothing is computed before it, so the optimizer takes the whole rest. Ranks are done
  one after the other, and each begins to gather then: the first one begins the next step, the last one ends this.
* *An activation* (or tokens for experts). The first stage (layer) has computed before it: about half of the rest.
* *A gradient.* The whole forward pass is silent, and most of the rest is its.
* The optimizer's time does not grow with what else is in the rest: it has no more than a usual share of the step.
* Where parameters are gathered after the optimizer (ZeRO), the end was seen.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind, Sharding
from llmprism.stats.by_moment import NEVER
from llmprism.timeline.member_begins import member_begins
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["last_done", "with_optimizer"]


def with_optimizer(layout: JobLayout, boundary: Int64, first: Int64, rules: TimelineRules = RULES) -> Int64:
    """The boundaries, moved on by the optimizer. `first` is when the first message after each but the last is sent."""
    if not layout.groups:  # the end was not seen and has been estimated already
        return boundary
    rest = np.maximum(first - boundary[:-1], 0).astype(np.float64)
    usual, step = float(median(rest)), float(median(np.diff(boundary)))
    if _in_passes(layout):
        taken = np.minimum(rest, min(rules.optimizer_share * step, rules.optimizer_and_forward * usual))
    elif layout.layout.sharding is Sharding.ZERO:
        return boundary
    elif _gathers(layout, usual, step, rules):
        taken = _unless_paused(rest, step, rules)
    else:
        taken = np.minimum(rest, min(rules.optimizer_share * step, rules.optimizer_and_pass * usual))
    return boundary + np.append(taken, median(taken)).astype(np.int64)


def last_done(job: Job, layout: JobLayout, boundary: Int64, first: Int64, rules: TimelineRules = RULES) -> Int64 | None:
    """When the last member begins to gather after each boundary: its optimizer is done. None where nobody gathers."""
    step, rest = float(median(np.diff(boundary))), np.maximum(first - boundary[:-1], 0)
    if not layout.groups or not _gathers(layout, float(median(rest)), step, rules):
        return None
    begins = member_begins(job, boundary, job.transfers.bytes >= MESSAGE_FLOOR_BYTES, rules)
    latest = np.where(begins < NEVER, begins, boundary[:-1]).max(axis=0)
    taken = _unless_paused((latest - boundary[:-1]).astype(np.float64), step, rules)
    return boundary + np.append(taken, median(taken)).astype(np.int64)


def _in_passes(layout: JobLayout) -> bool:
    """Is anything sent in forward passes, so that the rest ends with an activation or tokens?"""
    return bool(layout.pipelines) or any(group.kind in (PairKind.EP, PairKind.CP) for group in layout.groups)


def _gathers(layout: JobLayout, usual_rest: float, step: float, rules: TimelineRules) -> bool:
    """Does the rest end with the gathers of sharded parameters, and is it no forward pass?"""
    return (
        not _in_passes(layout)
        and layout.layout.sharding is Sharding.FSDP
        and usual_rest <= rules.longest_optimizer * step
    )


def _unless_paused(taken: Float64, step: float, rules: TimelineRules) -> Float64:
    """Times that the optimizer took, the usual one where a checkpoint or an evaluation came before the next step."""
    usual = float(median(taken))
    return np.where(taken > usual + rules.longest_optimizer * step, usual, taken)
