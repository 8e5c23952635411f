"""Timeline by the published rule: a GPU's step ends where a burst of its DP flows ends.

Per GPU the starts of its DP flows (sent or received) are cut into bursts by change-point detection on their gaps; the
last end within a burst is the end of the GPU's step, and whatever lies between two communications is compute. The
paper draws timelines per GPU only. For the steps of the job, the GPUs that agree on the most common number of steps are
taken, and step k ends when the last of them ends its k-th. A step begins where the one before it ended; nothing marks
set-up.

Where it breaks is described in docs/explanation/paper-baseline.md.
Reference: LLMPrism, arXiv 2505.00342 (DSN'25), timeline reconstruction.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int8, Int32, Int64
from llmprism.model import EventKind, Events, Job, JobLayout, PairKind, Steps, Timeline
from llmprism.stats.bursts import burst_labels, running_max

__all__ = ["timeline_paper"]


@dataclass(frozen=True, slots=True)
class _Ends:
    """Every flow seen from both of its ends, sorted by (member, start); `member` indexes `Job.members`."""

    member: Int64
    kind: Int8
    start_ns: Int64
    end_ns: Int64
    peer: Int32
    bytes: Int64
    offsets: Int64

    def rows(self, rows: Int64, members: int) -> _Ends:
        member = self.member[rows]
        offsets = np.searchsorted(member, np.arange(members + 1))
        return _Ends(
            member,
            self.kind[rows],
            self.start_ns[rows],
            self.end_ns[rows],
            self.peer[rows],
            self.bytes[rows],
            offsets.astype(np.int64),
        )


def timeline_paper(job: Job, layout: JobLayout) -> Timeline:
    """Steps and events of a job whose transfers have one row per record."""
    ends = _both_ends(job, layout)
    dp = ends.rows(np.flatnonzero(ends.kind == EventKind.DP), len(job.members))
    member_ends = _step_ends_per_member(dp)
    agreed = _agreed_step_count(member_ends)
    if not agreed:
        return Timeline(Steps.empty(), np.zeros((len(job.members), 0), dtype=np.int64), _events(job, ends, None))
    member_end_ns = np.full((len(job.members), agreed), -1, dtype=np.int64)
    for member, times in enumerate(member_ends):
        if times.size == agreed:
            member_end_ns[member] = times
    end_ns = member_end_ns.max(axis=0)
    start_ns = np.concatenate(([job.transfers.start_ns.min()], end_ns[:-1]))
    steps = Steps(start_ns, end_ns, np.zeros(agreed, dtype=np.bool_))
    agreement = float((member_end_ns[:, 0] >= 0).mean())
    return Timeline(steps, member_end_ns, _events(job, ends, end_ns), confidence=agreement)


def _both_ends(job: Job, layout: JobLayout) -> _Ends:
    flows = job.transfers
    is_dp = layout.transfer_kind == PairKind.DP
    kept = np.flatnonzero(is_dp | (layout.transfer_kind == PairKind.PP))
    pair = flows.pair_of_row[kept]
    src, dst = flows.pair_src[pair], flows.pair_dst[pair]
    sent = np.where(is_dp[kept], EventKind.DP, EventKind.PP_SEND).astype(np.int8)
    received = np.where(is_dp[kept], EventKind.DP, EventKind.PP_RECV).astype(np.int8)
    member = np.searchsorted(np.array(job.members, dtype=np.int64), np.concatenate((src, dst)))
    twice = np.concatenate((kept, kept))
    both = _Ends(
        member,
        np.concatenate((sent, received)),
        flows.start_ns[twice],
        flows.end_ns[twice],
        np.concatenate((dst, src)),
        flows.bytes[twice],
        np.zeros(0, dtype=np.int64),
    )
    return both.rows(np.lexsort((both.start_ns, member)), len(job.members))


def _step_ends_per_member(dp: _Ends) -> list[Int64]:
    """Ends of the bursts of each member, ascending; a burst inside an earlier, longer one ends no step of its own."""
    burst = burst_labels(dp.start_ns, dp.offsets)
    last_end = running_max(dp.end_ns, dp.offsets)
    closes = np.ones(burst.size, dtype=np.bool_)
    closes[:-1] = (burst[1:] != burst[:-1]) | (dp.member[1:] != dp.member[:-1])
    rows = np.flatnonzero(closes)
    cuts = np.searchsorted(dp.member[rows], np.arange(1, dp.offsets.size - 1))
    return [np.unique(part) for part in np.split(last_end[rows], cuts)]


def _agreed_step_count(member_ends: list[Int64]) -> int:
    """The most common number of steps, 0 aside; of two equally common ones the larger."""
    counts = np.bincount([times.size for times in member_ends])
    counts[0] = 0
    return int(counts.size - 1 - np.argmax(counts[::-1])) if counts.any() else 0


def _events(job: Job, ends: _Ends, step_end_ns: Int64 | None) -> Events:
    """Every communication, and compute wherever a GPU takes part in none between its first and its last."""
    covered = running_max(ends.end_ns, ends.offsets)
    same = ends.member[1:] == ends.member[:-1]
    before = np.flatnonzero(same & (ends.start_ns[1:] > covered[:-1]))
    count = before.size
    member = np.concatenate((ends.member, ends.member[before]))
    start_ns = np.concatenate((ends.start_ns, covered[before]))
    end_ns = np.concatenate((ends.end_ns, ends.start_ns[before + 1]))
    order = np.lexsort((start_ns, member))
    step = np.full(member.size, -1, dtype=np.int32)
    if step_end_ns is not None:
        step[:] = np.searchsorted(step_end_ns, end_ns)
        step[step == step_end_ns.size] = -1
    compute = np.full(count, EventKind.COMPUTE, dtype=np.int8)
    return Events(
        address=np.array(job.members, dtype=np.int32)[member][order],
        step=step[order],
        kind=np.concatenate((ends.kind, compute))[order],
        start_ns=start_ns[order],
        end_ns=end_ns[order],
        peer=np.concatenate((ends.peer, np.full(count, -1, dtype=np.int32)))[order],
        bytes=np.concatenate((ends.bytes, np.zeros(count, dtype=np.int64)))[order],
    )
