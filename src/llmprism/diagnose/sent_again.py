"""Bytes that are sent again: the trace that lost packets leave in flow records.

A pair moves the same bytes in every step of a job. What its transport sends again is counted by the exporter like the
rest, so a pair that moves a little more than that, step after step, loses packets on its way; the pauses of
retransmission themselves fall between records and are not seen. The cells (pairs x steps) in which a pair sends more
are explained by places as slow cells are (`slow_cells`, `tally`).

Says nothing of pairs whose bytes vary (experts, sampled or lost records), and nothing of steps in which most pairs move
more: that is the job's own doing, an evaluation or a metric. A message that falls into the step after its own lacks in
the one before; the two cancel.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.flows import MESSAGE_FLOOR_BYTES

__all__ = ["resent_cells"]


def resent_cells(evidence: JobEvidence, rules: FaultRules = RULES) -> tuple[Bool, Bool, Float64]:
    """Pairs x steps: where bytes were sent again, where that could have been seen, and bytes over the pair's usual
    ones."""
    moved = _bytes_per_step(evidence)
    counted = evidence.counted
    usual = np.median(moved[:, counted], axis=1) if counted.any() else np.zeros(moved.shape[0])
    share = _settled(moved / np.maximum(usual, 1.0)[:, None] - 1.0)
    share[:, ~counted] = 0.0
    rule = rules.evidence
    near = np.abs(share) <= rule.resent_share
    exact = _exact(share[:, counted], usual >= MESSAGE_FLOOR_BYTES, rules)
    more = exact[:, None] & (share > rule.resent_share)
    known = np.broadcast_to(exact[:, None] & counted[None, :], share.shape).copy()
    less = exact[:, None] & counted[None, :] & (share < -rule.resent_share)
    if less.sum() >= rule.as_often_less * more.sum():  # what is sent again adds bytes, a collector loses them
        more[:] = False
    known &= more.sum(axis=0) <= rule.most_resending * max(int(exact.sum()), 1)
    sick = more & known & (share <= rule.most_resent)
    sick[_all_alike(share, sick, rules)] = False
    return sick, known & (near | sick), 1.0 + share


def _exact(share: Float64, large: Bool, rules: FaultRules) -> Bool:
    """Pairs that move the same bytes in most steps; none where too many pairs do not: then the steps of the job, or its
    records, are not exact."""
    if not share.shape[1] or not large.any():
        return np.zeros_like(large)
    rule = rules.evidence
    exact = large & ((np.abs(share) <= rule.resent_share).mean(axis=1) >= rule.exact_steps)
    return exact if exact.sum() >= rule.exact_pairs * large.sum() else np.zeros_like(large)


def _all_alike(share: Float64, sick: Bool, rules: FaultRules) -> Bool:
    """Pairs that move the same bytes more every time: a message of the job's own, where losses differ."""
    count = sick.sum(axis=1)
    high, low = (reduce(np.where(sick, share, fill), axis=1) for reduce, fill in ((np.max, -np.inf), (np.min, np.inf)))
    alike = np.where(count > 0, high - low, np.inf) <= rules.evidence.alike_share * np.where(count > 0, low, 0.0)
    return np.asarray((count >= rules.evidence.alike_steps) & alike)


def _bytes_per_step(evidence: JobEvidence) -> Float64:
    transfers, steps = evidence.job.transfers, evidence.timeline.steps
    return _sums_of_cells(transfers.pair_offsets, transfers.start_ns, transfers.bytes, steps.start_ns, steps.end_ns)


def _sums_by_arrays(offsets: Int64, start: Int64, size: Int64, begin: Int64, finish: Int64) -> Float64:
    """The kernel below without a loop."""
    step = np.searchsorted(finish, start, side="right")
    inside = start >= np.append(begin, np.iinfo(np.int64).max)[step]
    pair = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    cell = pair[inside] * begin.size + step[inside]
    total = np.bincount(cell, size[inside], minlength=(offsets.size - 1) * begin.size)
    return np.asarray(total, dtype=np.float64).reshape(offsets.size - 1, begin.size)


@kernel(by_arrays=_sums_by_arrays)
def _sums_of_cells(offsets: Int64, start: Int64, size: Int64, begin: Int64, finish: Int64) -> Float64:
    """Bytes of the rows of each pair that start in each step; the rows of a pair ascend by start."""
    total = np.zeros((offsets.size - 1, begin.size))
    for pair in range(offsets.size - 1):
        step = 0
        for row in range(offsets[pair], offsets[pair + 1]):
            while step < begin.size and finish[step] <= start[row]:
                step += 1
            if step < begin.size and start[row] >= begin[step]:
                total[pair, step] += size[row]
    return total


def _settled(share: Float64) -> Float64:
    """With what a step lacks taken off what the one before or after it has too much."""
    settled = share.copy()
    for step in range(1, settled.shape[1]):
        before, here = settled[:, step - 1], settled[:, step]
        moved = np.where(before * here < 0.0, np.sign(before) * np.minimum(np.abs(before), np.abs(here)), 0.0)
        settled[:, step - 1] = before - moved
        settled[:, step] = here + moved
    return settled
