"""Who holds the others up: members that have got what they need and do not pass it on.

Rings, trees and sharded layers exchange many times per step, and everybody waits for the slowest again and again, so
all of them are late together. But those that wait send as soon as they have been sent something; the one that holds
them up has long got it. For every point of its bytes sent in a step, a member has usually been sent so many bytes: what
it takes longer from having them to sending on is the time that it holds. Compared are a job's slower steps with its
others; the phase of the clock does not matter.

*Kept by its receiver.* Some transports (gloo) send only when the receiver has said that it is ready. Then the member
before the late one holds, too, until a small message of the late one, its first after a long silence, releases it
(`released_by`).
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import ByteCurve, curves_of, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.timeline import Steps

__all__ = ["held_ns", "released_by"]


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


def released_by(job: Job, steps: Steps, row: int, affected: Bool, late_ns: float, rules: FaultRules = RULES) -> int:
    """The member (row) whose first message after a silence ends most of the pauses of this one that the affected steps
    lengthen, by `late_ns` as a rule, because its next message goes there; -1 where there is none."""
    pauses = _pauses(job, row)
    if not pauses.size:
        return -1
    step, length = steps.at(pauses[:, 1]), pauses[:, 1] - pauses[:, 0]
    longest = np.zeros(steps.count)
    np.maximum.at(longest, step[step >= 0], length[step >= 0])
    usual = float(np.median(longest[~affected])) if not affected.all() else 0.0
    pauses = pauses[(step >= 0) & affected[step] & (length >= usual + rules.members.released_silence * late_ns)]
    released = np.array([_wakes(job.transfers, a, b, to, rules) for a, b, to in pauses.tolist()], dtype=np.bool_)
    if not released.any():
        return -1
    by = pauses[released, 2]
    most = int(np.bincount(by).argmax())
    enough = np.count_nonzero(by == most) >= rules.members.released * released.size
    return job.members.index(most) if enough and most in job.members else -1


def _pauses(job: Job, row: int) -> Int64:
    """Pauses between the training messages that a member sends: begin, end, receiver of the message that ends it."""
    transfers = job.transfers
    own = np.flatnonzero(training_messages(job))
    own = own[transfers.pair_src[transfers.pair_of_row[own]] == job.members[row]]
    own = own[np.argsort(transfers.start_ns[own], kind="stable")]
    if own.size < 2:
        return np.zeros((0, 3), dtype=np.int64)
    begin, end = np.maximum.accumulate(transfers.end_ns[own])[:-1], transfers.start_ns[own][1:]
    receiver = transfers.pair_dst[transfers.pair_of_row[own[1:]]].astype(np.int64)
    return np.asarray(np.stack([begin, end, receiver], axis=1)[end > begin])


def _wakes(transfers: TransferTable, begin: int, end: int, receiver: int, rules: FaultRules) -> bool:
    """Is the receiver silent for most of the pause and heard right before its end?"""
    heard = [
        transfers.start_ns[first:after][
            (transfers.start_ns[first:after] > begin) & (transfers.start_ns[first:after] <= end)
        ]
        for first, after in (
            transfers.pair_offsets[pair : pair + 2].tolist()
            for pair in np.flatnonzero(transfers.pair_src == receiver).tolist()
        )
    ]
    moments = np.sort(np.concatenate([np.array([begin], dtype=np.int64), *heard]))
    silence = np.diff(moments)
    if not silence.size:
        return False
    longest = int(np.argmax(silence))
    woke = int(moments[longest + 1])
    return bool(
        silence[longest] >= rules.members.released_silence * (end - begin) and end - woke <= rules.members.released_ns
    )
