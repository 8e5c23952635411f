"""All-to-all meshes: expert parallelism.

Every member of an expert-parallel group sends to every other one. Rings, trees and pipelines have next to no triangles;
a mesh is made of them. So a link whose ends share most of their peers belongs to a mesh. A ring of gradients may run
over some links of a mesh: those carry far more than the mesh's links usually do, and stay collectives as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.robust import segment_medians

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

__all__ = ["Meshes", "find_meshes"]

MIN_PEERS: Final = 4
"""Peers that a member of a mesh has at least; rings and pipelines together give up to four."""

SHARED_PEERS: Final = 0.6
"""Share of the peers of the less connected end that the other end has too."""

EXCESS: Final = 3.0
"""A link of a mesh that carries this many times the usual of its ends carries something else too."""


@dataclass(frozen=True, slots=True)
class Meshes:
    """Per link: in a mesh, and carrying more than the mesh."""

    inside: Bool
    more: Bool
    groups: tuple[Group, ...]


def find_meshes(links: Links, features: PairFeatures) -> Meshes:
    none = np.zeros(links.low.size, dtype=np.bool_)
    members, ends = np.unique(np.concatenate([links.low, links.high]), return_inverse=True)
    low, high = ends[: links.low.size], ends[links.low.size :]
    degree = np.bincount(ends, minlength=members.size)
    asked = np.flatnonzero((degree[low] >= MIN_PEERS) & (degree[high] >= MIN_PEERS))
    if not asked.size:
        return Meshes(none, none, ())
    inside = none.copy()
    inside[asked] = _share_peers(low, high, asked, members.size)
    if not inside.any():
        return Meshes(none, none, ())
    return Meshes(inside, inside & _more(links, features, low, high, inside), _groups(members, low, high, inside))


def _share_peers(low: Int64, high: Int64, asked: Int64, nodes: int) -> Bool:
    ends, peers = np.concatenate([low, high]), np.concatenate([high, low])
    order = np.lexsort((peers, ends))
    degree = np.bincount(ends, minlength=nodes)
    offsets = np.concatenate([[0], np.cumsum(degree)])
    shared = _count_shared(offsets, peers[order], low[asked], high[asked])
    fewest = np.minimum(degree[low[asked]], degree[high[asked]]) - 1
    result: Bool = shared >= np.maximum(SHARED_PEERS * fewest, MIN_PEERS - 1)
    return result


@kernel
def _count_shared(offsets: Int64, peers: Int64, low: Int64, high: Int64) -> Int64:
    """For each link the peers that both of its ends have; the peers of a node are ascending."""
    shared = np.zeros(low.size, dtype=np.int64)
    for link in range(low.size):
        i, j = offsets[low[link]], offsets[high[link]]
        while i < offsets[low[link] + 1] and j < offsets[high[link] + 1]:
            if peers[i] == peers[j]:
                shared[link] += 1
                i += 1
                j += 1
            elif peers[i] < peers[j]:
                i += 1
            else:
                j += 1
    return shared


def _more(links: Links, features: PairFeatures, low: Int64, high: Int64, inside: Bool) -> Bool:
    """Links with far more bytes than the median of the mesh's links at both ends."""
    amount = np.maximum(
        np.where(links.there >= 0, features.step_bytes[links.there], 0.0),
        np.where(links.back >= 0, features.step_bytes[links.back], 0.0),
    )
    ends = np.concatenate([low[inside], high[inside]])
    degree = np.bincount(ends, minlength=max(int(low.max()), int(high.max())) + 1)
    carried = np.tile(amount[inside], 2)[np.argsort(ends, kind="stable")]
    usual = np.nan_to_num(segment_medians(carried, np.concatenate([[0], np.cumsum(degree)])))
    result: Bool = amount > EXCESS * np.maximum(usual[low], usual[high])
    return result


def _groups(members: NDArray[np.int32], low: Int64, high: Int64, inside: Bool) -> tuple[Group, ...]:
    labels = component_labels(members.size, low[inside], high[inside])
    sizes = np.bincount(labels)
    return tuple(
        Group(PairKind.EP, tuple(int(m) for m in members[labels == label])) for label in np.flatnonzero(sizes > 1)
    )
