"""Hybrid sharding: the parameters are sharded over a few servers, the shards are replicated over many.

Every member is then in two rings at once: one that gathers and scatters all layers within the shard group, and one that
reduces the member's own shard over the replicas, which is many times smaller. As links alone they make one large
component. They come apart by their bytes per step: the heavier links form the shard groups, the lighter ones the
replica groups, and the two cross like rows and columns: a row and a column never share two members.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.layout import PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.stats.disjoint_sets import component_labels

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["shard_links"]

MIN_RATIO: Final = 1.5
"""Bytes of a gathering link relative to a replica's: three passes over a ring of n against one n-th of two passes, so
2.25 and more for shards of two members."""


def shard_links(links: Links, kinds: LinkKinds, features: PairFeatures) -> Bool | None:
    """The data-parallel links that would be inside shard groups, one value per link; None where nothing crosses."""
    chosen = np.flatnonzero(kinds.kind == PairKind.DP)
    if chosen.size < 4:
        return None
    amount = _amount(links, features)[chosen]
    heavy = _heavy(amount)
    if heavy is None:
        return None
    _, ends = np.unique(np.concatenate([links.low[chosen], links.high[chosen]]), return_inverse=True)
    low, high = ends[: chosen.size].astype(np.int64), ends[chosen.size :].astype(np.int64)
    if not _crossing(low, high, heavy):
        return None
    result = np.zeros(links.low.size, dtype=np.bool_)
    result[chosen[heavy]] = True
    return result


def _amount(links: Links, features: PairFeatures) -> Float64:
    there = np.where(links.there >= 0, features.step_bytes[links.there], 0.0)
    back = np.where(links.back >= 0, features.step_bytes[links.back], 0.0)
    return np.maximum(there, back)


def _heavy(amount: Float64) -> Bool | None:
    """The links above the widest gap in the order of amounts, where it is wide enough."""
    ordered = np.sort(amount)
    if ordered[0] <= 0:
        return None
    ratio = ordered[1:] / ordered[:-1]
    widest = int(np.argmax(ratio))
    return amount > ordered[widest] if ratio[widest] >= MIN_RATIO else None


def _crossing(low: Int64, high: Int64, heavy: Bool) -> bool:
    """Is every member in one component of each sort, and do no two components share two members?"""
    members = int(max(low.max(), high.max())) + 1
    rows = component_labels(members, low[heavy], high[heavy])
    columns = component_labels(members, low[~heavy], high[~heavy])
    if min(np.bincount(rows).min(), np.bincount(columns).min()) < 2:
        return False
    cells = rows * (int(columns.max()) + 1) + columns
    return np.unique(cells).size == members
