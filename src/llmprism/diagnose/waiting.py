"""Who waited, and who was waited for: the part of a step that was a member's own work.

Everybody behind a slow GPU is late, and so is everybody before it once its queue is full. Only the one that took long
itself, from what it was given to what it passed on, did not wait.

*Stage work.* The first micro-batch of a step runs through an empty pipeline and its last gradient drains one, so
nothing but the stage's own computation lies between their arrival and their departure.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.layout import PairKind
from llmprism.stats.robust import known_median, known_median_of_others

__all__ = ["beyond_others", "beyond_peers", "excess_share", "stage_work_ns", "to_second_message_ns"]


def stage_work_ns(evidence: JobEvidence) -> Float64:
    """Members x steps: computation of the first forward and the last backward pass; NaN where they are not seen.

    The first stage's forward pass counts from the start of the step; the last stage turns the batch round, so that its
    first answer holds a forward and a backward pass.
    """
    members, pipelines = evidence.job.members, evidence.layout.pipelines
    work = np.full((len(members), evidence.steps), np.nan)
    if not pipelines or not evidence.steps:
        return work
    bounds = _message_bounds(evidence)
    begin = evidence.timeline.steps.start_ns.astype(np.float64)
    stage = np.array([member for pipeline in pipelines for member in pipeline])
    before = np.array([member for pipeline in pipelines for member in (-1, *pipeline[:-1])])
    after = np.array([member for pipeline in pipelines for member in (*pipeline[1:], -1)])
    arrive = np.where((before < 0)[:, None], begin, bounds.of(bounds.first_end, before, stage))
    depart = bounds.of(bounds.first_start, stage, np.where(after < 0, before, after))
    drained, handed = bounds.of(bounds.last_end, after, stage), bounds.of(bounds.last_start, stage, before)
    forward, backward = depart - arrive, handed - drained
    own = np.where(forward > 0, forward, np.nan) + np.where(backward > 0, backward, 0.0)
    work[np.searchsorted(np.array(members), stage)] = own
    return work


@dataclass(frozen=True, slots=True)
class _Bounds:
    """Start and end of the first and of the last pipeline message of each pair in each step; NaN in those without."""

    ends: Int64
    first_start: Float64
    first_end: Float64
    last_start: Float64
    last_end: Float64

    def of(self, which: Float64, src: Int64, dst: Int64) -> Float64:
        """The bounds of the pairs with these ends (of several the last); NaN where there is none, or an end is -1."""
        if not self.ends.size:
            return np.full((src.size, which.shape[1]), np.nan)
        wanted = np.where((src < 0) | (dst < 0), -1, (src << 32) | dst)
        pair = np.searchsorted(self.ends, wanted, side="right") - 1
        found = np.append(self.ends, -2)[pair] == wanted
        return np.where(found[:, None], which[pair], np.nan)


def _message_bounds(evidence: JobEvidence) -> _Bounds:
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    piped = (evidence.layout.transfer_kind == PairKind.PP) & (transfers.bytes >= MESSAGE_FLOOR_BYTES)
    bounds = _first_and_last(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, piped, steps.start_ns, steps.end_ns
    )
    ends = (transfers.pair_src.astype(np.int64) << 32) | transfers.pair_dst
    seen = np.flatnonzero(~np.isnan(bounds[0]).all(axis=1))
    return _Bounds(ends[seen], *(bound[seen] for bound in bounds))


@kernel
def _first_and_last(
    offsets: Int64, start: Int64, end: Int64, chosen: Bool, begin: Int64, finish: Int64
) -> tuple[Float64, Float64, Float64, Float64]:
    """Least start and end, greatest start and end of the chosen rows of each pair that start in each step; the rows of
    a pair ascend by start."""
    shape = (offsets.size - 1, begin.size)
    first_start, first_end = np.full(shape, np.nan), np.full(shape, np.nan)
    last_start, last_end = np.full(shape, np.nan), np.full(shape, np.nan)
    for pair in range(offsets.size - 1):
        step = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while step < begin.size and finish[step] <= start[row]:
                step += 1
            if step == begin.size:
                break
            if not chosen[row] or start[row] < begin[step]:
                continue
            if np.isnan(first_start[pair, step]):
                first_start[pair, step], first_end[pair, step] = start[row], end[row]
                last_end[pair, step] = end[row]
            last_start[pair, step] = start[row]
            first_end[pair, step] = min(first_end[pair, step], float(end[row]))
            last_end[pair, step] = max(last_end[pair, step], float(end[row]))
    return first_start, first_end, last_start, last_end


def beyond_others(evidence: JobEvidence, work: Float64) -> Float64:
    """What a member's work takes beyond that of those that do the same in the same step; where nobody does, beyond its
    own shorter steps."""
    excess = np.full(work.shape, np.nan)
    row_of = {member: row for row, member in enumerate(evidence.job.members)}
    for group in evidence.layout.groups:
        rows = np.array([row_of[member] for member in group.members])
        if group.kind == PairKind.DP and rows.size > 1:
            excess[rows] = work[rows] - known_median_of_others(work[rows])
    alone = np.isnan(excess).all(axis=1) & np.isfinite(work).any(axis=1)
    for row in np.flatnonzero(alone):
        counted = work[row, evidence.counted]
        if np.isfinite(counted).any():
            excess[row] = work[row] - np.nanquantile(counted, 0.25)
    return excess


def excess_share(evidence: JobEvidence) -> Float64:
    """By what share of it the work of every member exceeds that of its peers, step by step."""
    work = stage_work_ns(evidence)
    excess = beyond_others(evidence, work)
    share: Float64 = excess / np.maximum(work - excess, 1.0)
    return share


def beyond_peers(evidence: JobEvidence, share: Float64, row: int, affected: Bool) -> tuple[list[int], Float64]:
    """Rows of the pipelines of a member, and what share (`excess_share`) each works longer than its peers, as a rule in
    the `affected` steps."""
    row_of = {member: place for place, member in enumerate(evidence.job.members)}
    member = evidence.job.members[row]
    rows = [row_of[m] for pipeline in evidence.layout.pipelines if member in pipeline for m in pipeline]
    return rows, known_median(share[rows][:, affected], axis=1) if rows else np.zeros(0)


def to_second_message_ns(evidence: JobEvidence, member: int, after: int) -> Float64:
    """Of each step: from the first message of a first stage to the next stage until the second one begins, which is one
    pass of computation; NaN where there are no two that follow each other. What a member waits for before the first
    one (its data, an optimizer, a clock that is off) is not in it."""
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    passed = np.full(steps.count, np.nan)
    pair = int(transfers.pairs_between(np.array([member]), np.array([after]))[0])
    if pair < 0:
        return passed
    rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    rows = rows[(evidence.layout.transfer_kind[rows] == PairKind.PP) & (transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES)]
    start, end = transfers.start_ns[rows], transfers.end_ns[rows]
    if not rows.size:
        return passed
    first = np.searchsorted(start, steps.start_ns)
    seen = np.append(start, np.iinfo(np.int64).max)[first] < steps.end_ns
    at = np.minimum(first, rows.size - 1)
    second = np.searchsorted(start, end[at])
    seen &= np.append(start, np.iinfo(np.int64).max)[second] < steps.end_ns
    passed[seen] = start[second[seen]] - start[at[seen]]
    return passed
