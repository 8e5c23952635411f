"""Pauses that a member ends by itself: it neither sends nor receives, and what comes next is a message of its own.

Whoever waits for others goes on when it is sent something, so its pauses end with a message that it receives. Whoever
computes, or cannot get rid of what it sends, ends its pause by sending. So of all members that stand still together in
a step that takes long, the one whose own pauses grew is the one that the others waited for; how many exchanges a step
has, which collective runs and what the transport does matter little. Stamps of several members need not agree: each
one's pauses are taken from what it sends and is sent.

*A slow hop behind the exporter.* Records are stamped where the sender's traffic enters the network, and a queue behind
that point takes in pieces as fast as ever. Both ends of the hop show it: the sender pauses until there is room again,
the receiver goes on long after it was sent its piece. The lesser of the two is how long a hop holds pieces back
(`kept_by_hops_ns`): a slow GPU makes one of its hops slow at the sending end only, and the other at the receiving end
only.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final
from weakref import ref

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.evidence import JobEvidence
from llmprism.kernel import kernel
from llmprism.model.job import Job
from llmprism.model.layout import PairKind
from llmprism.model.timeline import Steps
from llmprism.stats.integer_order import grouped_order

__all__ = [
    "OwnPauses",
    "in_collectives",
    "kept_by_hops_ns",
    "kept_by_own_hop_ns",
    "own_pauses",
    "paused_beyond_usual_ns",
]


@dataclass(frozen=True, slots=True)
class OwnPauses:
    """One entry per pause: whose (row of the job's members), in which step it ends, how long it lasts within that step,
    the pair of the message that ends it, and that of the last message received before it (-1: none)."""

    member: Int64
    step: Int64
    length_ns: Float64
    sent: Int64
    received: Int64

    def of_members(self, members: int, steps: int) -> Float64:
        """Members x steps: the time of all own pauses."""
        return _sums(self.member, self.step, self.length_ns, (members, steps))

    def of_hops(self, pairs: int, longest_ns: Float64) -> tuple[Float64, Float64]:
        """Pairs x steps: the time of pauses that end with a message of the pair, and that follow one, at its receiver.
        Only those that last no longer than `longest_ns` of their step count."""
        short = self.length_ns <= longest_ns[self.step]
        after = short & (self.received >= 0)
        shape = (pairs, longest_ns.size)
        return (
            _sums(self.sent[short], self.step[short], self.length_ns[short], shape),
            _sums(self.received[after], self.step[after], self.length_ns[after], shape),
        )


def _sums(row: Int64, step: Int64, length_ns: Float64, shape: tuple[int, int]) -> Float64:
    sums: Float64 = np.zeros(shape)
    np.add.at(sums, (row, step), length_ns)
    return sums


def kept_by_hops_ns(pauses: OwnPauses, pairs: int, longest_ns: Float64, usual: Bool) -> Float64:
    """Pairs x steps: how long each hop holds pieces back, beyond its `usual` steps: see the module."""
    ends = pauses.of_hops(pairs, longest_ns)
    grown = [values - np.median(values[:, usual], axis=1)[:, None] for values in ends]
    return np.maximum(np.minimum(*grown), 0.0)


def kept_by_own_hop_ns(evidence: JobEvidence, usual: Bool) -> Float64:
    """Members x steps: how long the hop out of each member keeps pieces back: one that cannot get rid of them holds,
    too."""
    transfers, members = evidence.job.transfers, np.array(evidence.job.members)
    pauses = own_pauses(evidence.job, evidence.timeline.steps)
    by_hops = kept_by_hops_ns(pauses, transfers.pair_count, np.full(evidence.steps, np.inf), usual)
    kept = np.zeros((members.size, evidence.steps))
    np.maximum.at(kept, np.searchsorted(members, transfers.pair_src), by_hops)
    return kept


def in_collectives(evidence: JobEvidence) -> Bool:
    """Pairs whose receivers pass on what they get at once. Between the stages of a pipeline they compute first, and a
    slow one keeps both of its neighbours waiting."""
    return ~np.isin(evidence.pair_kind, (PairKind.UNKNOWN, PairKind.PP))


def paused_beyond_usual_ns(evidence: JobEvidence, usual: Bool) -> Float64:
    """Members x steps: by how much its own pauses exceed those of the `usual` steps, less what one of its hops holds
    back. Several detectors ask for the same, one after the other: the last answer is kept."""
    known = None if _last.evidence is None else _last.evidence()
    if known is not evidence or not np.array_equal(_last.usual, usual):
        paused = _paused_beyond_usual_ns(evidence, usual)
        paused.flags.writeable = False
        _last.evidence, _last.usual, _last.paused = ref(evidence), usual, paused
    return _last.paused


class _Last(threading.local):
    """What was asked last in this thread, and the answer."""

    evidence: ref[JobEvidence] | None = None
    usual: Bool = np.zeros(0, dtype=np.bool_)
    paused: Float64 = np.zeros((0, 0))


_last: Final = _Last()


def _paused_beyond_usual_ns(evidence: JobEvidence, usual: Bool) -> Float64:
    transfers, members, steps = evidence.job.transfers, np.array(evidence.job.members), evidence.steps
    pauses = own_pauses(evidence.job, evidence.timeline.steps)
    paused = pauses.of_members(members.size, steps)
    paused -= np.median(paused[:, usual], axis=1)[:, None]
    kept = kept_by_hops_ns(pauses, transfers.pair_count, np.full(steps, np.inf), usual)
    kept[~in_collectives(evidence)] = 0.0
    by_hop = np.zeros(paused.shape)
    for ends in (transfers.pair_src, transfers.pair_dst):
        np.maximum.at(by_hop, np.searchsorted(members, ends), kept)
    return paused - by_hop


def own_pauses(job: Job, steps: Steps) -> OwnPauses:
    """The pauses of all members that end in a step."""
    transfers = job.transfers
    rows = np.flatnonzero(training_messages(job))
    pair = transfers.pair_of_row[rows].astype(np.int64)
    ends = np.concatenate([transfers.pair_src[pair], transfers.pair_dst[pair]])
    member = np.searchsorted(np.array(job.members), ends).astype(np.int64)
    start, end = (np.tile(values[rows], 2) for values in (transfers.start_ns, transfers.end_ns))
    sends = np.repeat(np.array([True, False]), rows.size)
    order = grouped_order(member, start)
    start, pair = start[order], np.tile(pair, 2)[order]
    whose, last, until, since = _ended_by_sending(member[order], start, end[order], sends[order], pair)
    step = steps.at(start[until])
    inside = step >= 0
    whose, last, until, since, step = (values[inside] for values in (whose, last, until, since, step))
    length = start[until] - np.maximum(since, steps.start_ns[step])
    return OwnPauses(whose, step.astype(np.int64), length.astype(np.float64), pair[until], last)


@kernel
def _ended_by_sending(
    member: Int64, start: Int64, end: Int64, sends: Bool, pair: Int64
) -> tuple[Int64, Int64, Int64, Int64]:
    """Of rows sorted by member and start: whose each pause is, the pair that was last received, the row that ends the
    pause, and when it began."""
    whose, last = np.empty(member.size, dtype=np.int64), np.empty(member.size, dtype=np.int64)
    until, since = np.empty(member.size, dtype=np.int64), np.empty(member.size, dtype=np.int64)
    count, horizon, received = 0, 0, -1
    for row in range(member.size):
        if row == 0 or member[row] != member[row - 1]:
            horizon, received = end[row], -1
        elif sends[row] and start[row] > horizon:
            whose[count], last[count], until[count], since[count] = member[row], received, row, horizon
            count += 1
        horizon = max(horizon, end[row])
        if not sends[row]:
            received = pair[row]
    return whose[:count], last[:count], until[:count], since[:count]
