"""Whether the small messages of a job come with the messages of its training, or at any time.

Some transports talk with every message (gloo announces each one, and each is answered), so that what a member says, and
when it was last spoken to, tells how far it is. Heartbeats, stores and watchdogs talk as much in long steps, but at any
time: who happened to be heard last is chance there. How often words are said does not tell the two apart; how near they
are to messages between the same two members does.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job

__all__ = ["come_with_messages"]


def come_with_messages(job: Job, since_ns: float, until_ns: int, rules: FaultRules = RULES) -> bool:
    """Are the words between members that train with each other nearer to the begin or end of one of their messages than
    moments by chance are? False where there are none."""
    transfers, rule, small = job.transfers, rules.endings, ~training_messages(job)
    rows = np.flatnonzero((transfers.start_ns >= since_ns) & (transfers.start_ns <= until_ns))
    two = _two_members(job)[transfers.pair_of_row[rows]]
    small, start, end = small[rows], transfers.start_ns[rows], transfers.end_ns[rows]
    edge, of = np.concatenate([start[~small], end[~small]]), np.concatenate([two[~small]] * 2)
    word, by = start[small], two[small]
    trained = np.unique(of)
    known = np.isin(by, trained)
    if not known.any():
        return False
    of, by, word = np.searchsorted(trained, of), np.searchsorted(trained, by[known]), word[known]
    order = np.lexsort((edge, of))
    of, edge = of[order], edge[order]
    gap = np.where(np.diff(of) == 0, np.diff(edge), 0).astype(np.float64)
    squares, sums = (np.bincount(of[1:], weights, trained.size) for weights in (gap**2, gap))
    chance = (0.5 * squares / np.maximum(2.0 * sums, 1.0))[by]  # a moment in a pause is off by a quarter of it
    near = np.minimum(_distance(edge, of, word, by), rule.far_word * chance)
    return bool(near.sum() <= rule.near_word * chance.sum())


def _two_members(job: Job) -> Int64:
    """A number for each pair, the same for both directions."""
    source, target = (ends.astype(np.int64) for ends in (job.transfers.pair_src, job.transfers.pair_dst))
    return np.asarray(np.minimum(source, target) * len(job.transfers.addresses) + np.maximum(source, target))


def _distance(edge: Int64, of: Int64, word: Int64, by: Int64) -> Int64:
    """From each word to the nearest edge of the same two members; both are sorted by these, then by time."""
    order = np.lexsort((np.repeat([0, 1], [edge.size, word.size]), np.append(edge, word), np.append(of, by)))
    is_edge = order < edge.size
    passed = np.empty(order.size, dtype=np.int64)
    passed[order] = np.cumsum(is_edge)
    after = passed[edge.size :]
    far = np.iinfo(np.int64).max
    distance = np.full(word.size, far)
    for index in (after - 1, after):
        inside = np.clip(index, 0, edge.size - 1)
        same = (index >= 0) & (index < edge.size) & (of[inside] == by)
        distance = np.where(same, np.minimum(distance, np.abs(edge[inside] - word)), distance)
    return np.asarray(distance)
