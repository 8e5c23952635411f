"""Who holds the others up: members that have got what they need and do not pass it on.

Rings, trees and sharded layers exchange many times per step, and everybody waits for the slowest again and again, so
all of them are late together. But those that wait send as soon as they have been sent something; the one that holds
them up has long got it. For every point of its bytes sent in a step, a member has usually been sent so many bytes: what
it takes longer from having them to sending on is the time that it holds. Compared are a job's slower steps with its
others; the phase of the clock does not matter.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.byte_curves import ByteCurve, curves_of, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.model.timeline import Steps

__all__ = ["held_ns"]


def held_ns(job: Job, steps: Steps, usual: Bool, rules: FaultRules = RULES) -> Float64:
    """Members x steps: how much longer each one holds at its worst points than in the `usual` steps; NaN: not seen."""
    held = np.full((len(job.members), steps.count), np.nan)
    transfers = job.transfers
    rows = training_messages(job)
    if steps.count < 2 or not usual.any():
        return held
    bounds = np.stack([steps.start_ns, steps.end_ns]).astype(np.float64)
    sent, got = (curves_of(job, rows, end, rules) for end in (transfers.pair_src, transfers.pair_dst))
    for member, (out, into) in enumerate(zip(sent, got, strict=True)):
        if out is not None and into is not None:
            held[member] = _held(out, into, bounds, usual, rules)
    return held


def _held(out: ByteCurve, into: ByteCurve, bounds: Float64, usual: Bool, rules: FaultRules) -> Float64:
    point = (np.arange(rules.members.held_points) + 0.5) / rules.members.held_points
    first, total = out.at(bounds[0]), np.diff(out.at(bounds), axis=0)[0]
    went_on = out.moments(first[:, None] + point[None, :] * total[:, None])
    begun, received = into.at(bounds[0]), np.diff(into.at(bounds), axis=0)[0]
    share = (into.at(went_on) - begun[:, None]) / np.maximum(received, 1.0)[:, None]
    needed = np.median(share[usual], axis=0)
    had = into.moments(begun[:, None] + needed[None, :] * received[:, None])
    time = went_on - had
    return np.asarray(np.quantile(time - np.median(time[usual], axis=0)[None, :], rules.members.held_quantile, axis=1))
