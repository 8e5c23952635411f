"""Steps that the clock left out although the job trained: what is slow there must be looked at too.

A clock that finds no regular step for a while, because everything takes several times as long, leaves a hole. If bytes
of some steps flow in it, steps were made: the hole is cut where as many bytes have passed as a step has. The cuts may
lie anywhere in the true steps, which does not matter for rates. What follows the last step is such a hole too, up to
the last message: a job may be slow until the window ends. There the last step may not be whole, and is left out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Int64
from llmprism.diagnose.byte_curves import ByteCurve, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.model.timeline import Steps, Timeline

__all__ = ["with_unseen_steps"]


def with_unseen_steps(job: Job, timeline: Timeline, rules: FaultRules = RULES) -> Timeline:
    """The timeline with the holes between and after its steps cut into steps; the same where there are none."""
    steps = timeline.steps
    if steps.count < 3:
        return timeline
    period = float(np.median(steps.duration_ns))
    transfers, rows = job.transfers, training_messages(job)
    if np.count_nonzero(rows) < 2:
        return timeline
    last = int(transfers.end_ns[rows].max())
    holes = np.flatnonzero(steps.start_ns[1:] - steps.end_ns[:-1] > rules.evidence.hole_steps * period)
    goes_on = last - int(steps.end_ns[-1]) > rules.evidence.tail_steps * period
    if not holes.size and not goes_on:
        return timeline
    curve = ByteCurve.of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows])
    bounds = np.stack([steps.start_ns, steps.end_ns]).astype(np.float64)
    usual = float(np.median(np.diff(curve.at(bounds), axis=0)))
    cuts = [_cut(curve, float(steps.end_ns[k]), float(steps.start_ns[k + 1]), usual, rules) for k in holes.tolist()]
    if goes_on:
        cuts.append(_cut(curve, float(steps.end_ns[-1]), float(last), usual, rules, whole=True))
    found = [cut for cut in cuts if cut is not None]
    return _inserted(timeline, found) if found else timeline


def _cut(
    curve: ByteCurve, first: float, last: float, usual: float, rules: FaultRules, *, whole: bool = False
) -> Int64 | None:
    """The bounds of the steps in a hole; None where there are none. `whole`: what is left after as many bytes as whole
    steps have is no step."""
    before, after = curve.at(np.array([first, last]))
    amount = float(after - before)
    inside = (curve.when_ns > first) & (curve.when_ns < last)
    moments = np.concatenate([[first], curve.when_ns[inside], [last]])
    quiet = np.diff(curve.at(moments)) <= 0.0
    longest = float(np.max(np.where(quiet, np.diff(moments), 0.0)))
    if amount < rules.evidence.hole_bytes * usual or longest > rules.evidence.hole_silence * (last - first):
        return None
    if whole:
        count = int(amount / usual)
        return curve.moments(before + usual * np.arange(count + 1)).astype(np.int64) if count else None
    count = max(1, round(amount / usual))
    inner = curve.moments(before + amount * np.arange(1, count) / count)
    return np.concatenate([[first], inner, [last]]).astype(np.int64)


def _inserted(timeline: Timeline, cuts: list[Int64]) -> Timeline:
    """The timeline with these steps among its own; nothing is known of their ends on the members."""
    steps = timeline.steps
    start = np.concatenate([steps.start_ns, *(cut[:-1] for cut in cuts)])
    end = np.concatenate([steps.end_ns, *(cut[1:] for cut in cuts)])
    new = start.size - steps.count
    order = np.argsort(start, kind="stable")
    setup = np.concatenate([steps.setup, np.zeros(new, dtype=np.bool_)])
    unknown = np.full((timeline.member_end_ns.shape[0], new), -1, dtype=np.int64)
    member_end = np.concatenate([timeline.member_end_ns, unknown], axis=1)
    return replace(timeline, steps=Steps(start[order], end[order], setup[order]), member_end_ns=member_end[:, order])
