"""Clusters: what the bulk traffic connects.

Disjoint sets over the two ends of every bulk pair, except that an address that serves one job after another is a node
of its own in each *epoch*: when all of its pairs fall silent for good and other ones begin, a new epoch begins.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int32, Int64
from llmprism.recognize.bulk import PairEnds, PairTraffic
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.stats.bursts import running_max
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["cluster_pairs"]


def cluster_pairs(
    transfers: PairEnds, traffic: PairTraffic, bulk: Bool, rules: RecognitionRules = RULES
) -> list[Int32]:
    """The bulk pairs of each cluster, ascending; clusters in the order of their first pair."""
    pairs = np.flatnonzero(bulk)
    if not pairs.size:
        return []
    ends = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]]).astype(np.int64)
    first = np.tile(traffic.first_ns[pairs], 2)
    last = np.tile(traffic.last_ns[pairs], 2)
    node = _epoch_nodes(ends, first, last, rules)
    labels = component_labels(int(node.max()) + 1, node[: pairs.size], node[pairs.size :])[node[: pairs.size]]
    order = np.argsort(labels, kind="stable")
    cuts = np.flatnonzero(np.diff(labels[order])) + 1
    return [part.astype(np.int32) for part in np.split(pairs[order], cuts)]


def _epoch_nodes(ends: Int64, first: Int64, last: Int64, rules: RecognitionRules) -> Int64:
    """A node number for each pair end: the same for ends of one address in one epoch."""
    order = np.lexsort((first, ends))
    sorted_ends, sorted_first = ends[order], first[order]
    horizon = _running_max_by(sorted_ends, last[order])
    new_address = np.diff(sorted_ends, prepend=-1) != 0
    late = np.zeros(order.size, dtype=np.bool_)
    late[1:] = sorted_first[1:] > horizon[:-1] + rules.job_gap_ns
    node = np.empty(order.size, dtype=np.int64)
    node[order] = np.cumsum(new_address | late) - 1
    return node


def _running_max_by(group: Int64, value: Int64) -> Int64:
    """Running maximum of `value` within each run of equal `group`."""
    offsets = np.concatenate([[0], np.flatnonzero(np.diff(group)) + 1, [group.size]])
    return running_max(value, offsets)
