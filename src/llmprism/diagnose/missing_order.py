"""Whose missing message came first in the steps before.

When a job stops, each pair of its members stands at some point of its step, and lacks the message that comes next.
In the steps before the very same messages were sent, and what waits for another one came after it in every step,
however long that step was and whenever it began. So who lacks the message that was first in step after step has
stopped, or has been left without a receiver. Of the two ends of that message the one that died lacks others as early:
it neither sends nor is sent anything, while its neighbour goes on with the others.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.diagnose.byte_curves import ByteCurve
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.usual_rest import WholeJob, bytes_per_step, same_point
from llmprism.model.job import Job

__all__ = ["MissingOrder", "missing_order"]


@dataclass(frozen=True, slots=True)
class MissingOrder:
    """Members x steps before, in ns after the first missing message of all in that step: when the first one that each
    member lacks to send was sent there (`to_send`), and the first that it was to be sent (`to_get`). Infinite where a
    member never sends, or is never sent anything; no column where too little is known."""

    to_send: Float64
    to_get: Float64


def missing_order(job: Job, whole: WholeJob, rules: FaultRules = RULES) -> MissingOrder:
    """Of the messages of the training that come next after those of `whole`."""
    transfers, members = job.transfers, np.array(job.members)
    rows = np.flatnonzero(whole.rows)
    pair = transfers.pair_of_row[rows]
    bounds = np.append(np.flatnonzero(np.diff(pair, prepend=-1)), pair.size)
    known = np.flatnonzero(np.diff(bounds) >= rules.evidence.curve_messages)
    back = np.arange(1, rules.endings.steps_back + 1, dtype=np.float64)
    if not 0 < known.size <= rules.who_stopped.most_pairs:
        return MissingOrder(np.zeros((members.size, 0)), np.zeros((members.size, 0)))
    next_ns = np.stack([_next_sent(job, rows[bounds[i] : bounds[i + 1]], whole, back, rules) for i in known.tolist()])
    seen = np.isfinite(next_ns).mean(axis=0) >= rules.who_stopped.known_pairs
    next_ns = np.where(np.isfinite(next_ns), next_ns, np.inf)[:, seen]
    ends = pair[bounds[known]]
    to_send, to_get = (
        _first_of(np.searchsorted(members, end[ends]), next_ns, members.size)
        for end in (transfers.pair_src, transfers.pair_dst)
    )
    first = to_send.min(axis=0, initial=np.inf)
    return MissingOrder(to_send - first, to_get - first)


def _next_sent(job: Job, rows: Int64, whole: WholeJob, back: Float64, rules: FaultRules) -> Float64:
    """When a pair sent the message that it lacks now, so many steps before; NaN where that is not known."""
    transfers = job.transfers
    size = transfers.bytes[rows]
    curve = ByteCurve.of(transfers.start_ns[rows], transfers.end_ns[rows], size)
    per_step = bytes_per_step(curve, whole.ends)
    if per_step[0] <= 0.0:
        return np.full(back.size, np.nan)
    return same_point(curve, per_step, back, rules, 0.5 * float(np.median(size)))[1]


def _first_of(member: Int64, moment: Float64, count: int) -> Float64:
    """The earliest moment of each member in each step."""
    first = np.full((count, moment.shape[1]), np.inf)
    np.minimum.at(first, member, moment)
    return first
