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

from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.stats.disjoint_sets import component_labels

Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

__all__ = ["Meshes", "find_meshes"]

MIN_PEERS: Final = 4
"""Peers that a member of a mesh has at least; rings and pipelines together give up to four."""

SHARED_PEERS: Final = 0.6
"""Share of the peers of the less connected end that the other end has too."""

EXCESS: Final = 3.0
"""A link of a mesh that carries this many times the usual of its ends carries something else too."""

MAX_MEMBERS: Final = 20_000
"""Members up to which peers are compared by a table of bits (50 MB)."""


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
    if not asked.size or members.size > MAX_MEMBERS:
        return Meshes(none, none, ())
    inside = none.copy()
    inside[asked] = _share_peers(low, high, asked, members.size)
    if not inside.any():
        return Meshes(none, none, ())
    return Meshes(inside, inside & _more(links, features, low, high, inside), _groups(members, low, high, inside))


def _share_peers(low: Int64, high: Int64, asked: Int64, nodes: int) -> Bool:
    peers = np.zeros((nodes, nodes), dtype=np.bool_)
    peers[low, high] = peers[high, low] = True
    bits = np.packbits(peers, axis=1)
    shared = np.bitwise_count(bits[low[asked]] & bits[high[asked]]).sum(axis=1)
    fewest = np.minimum(peers[low[asked]].sum(axis=1), peers[high[asked]].sum(axis=1)) - 1
    result: Bool = shared >= np.maximum(SHARED_PEERS * fewest, MIN_PEERS - 1)
    return result


def _more(links: Links, features: PairFeatures, low: Int64, high: Int64, inside: Bool) -> Bool:
    """Links with far more bytes than the median of the mesh's links at both ends."""
    amount = np.maximum(
        np.where(links.there >= 0, features.step_bytes[links.there], 0.0),
        np.where(links.back >= 0, features.step_bytes[links.back], 0.0),
    )
    usual = np.zeros(max(int(low.max()), int(high.max())) + 1)
    for node in np.unique(np.concatenate([low[inside], high[inside]])):
        usual[node] = np.median(amount[inside & ((low == node) | (high == node))])
    result: Bool = amount > EXCESS * np.maximum(usual[low], usual[high])
    return result


def _groups(members: NDArray[np.int32], low: Int64, high: Int64, inside: Bool) -> tuple[Group, ...]:
    labels = component_labels(members.size, low[inside], high[inside])
    sizes = np.bincount(labels)
    return tuple(
        Group(PairKind.EP, tuple(int(m) for m in members[labels == label])) for label in np.flatnonzero(sizes > 1)
    )
