"""Expert parallelism: the meshes of all-to-alls, and the hops of gradient rings that run over their links.

How they are told apart is in `stats.meshes`. A link of a mesh that also carries a ring is in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import Int32, Int64, TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.meshes import MeshPairs, mesh_pairs, mesh_rows

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

__all__ = ["Meshes", "find_meshes"]


OTHER_AMOUNT: Final = 0.3
"""Difference of the logarithms of what two links answer, from which they are not of one all-to-all."""

NEARLY_ALL: Final = 0.6
"""Share of the pairs of a complete graph that must be seen: those within a server are not."""

SURPLUS: Final = 1.5
"""Bytes of a pair relative to the usual one of its all-to-all, from which a ring runs over it too."""


@dataclass(frozen=True, slots=True)
class Meshes:
    """Per link: in a mesh, and carrying more than the mesh. Per directed pair of the table: in a mesh, carrying more.
    Per row: a transfer of an all-to-all."""

    inside: Bool
    more: Bool
    pairs: Bool
    surplus: Bool
    rows: Bool
    groups: tuple[Group, ...]


def find_meshes(transfers: TransferTable, bulk: Bool, links: Links) -> Meshes:
    """The meshes among the bulk pairs; `links` are their links."""
    asked = np.flatnonzero(bulk)
    offsets = transfers.pair_offsets
    size = transfers.pair_bytes.astype(np.float64)
    found = mesh_pairs(transfers.pair_src[asked].astype(np.int64), transfers.pair_dst[asked].astype(np.int64),
                       size[asked])  # fmt: skip
    found = _taken_apart(transfers, asked, size[asked], found)
    mesh, surplus = np.full(transfers.pair_count, -1), np.zeros(transfers.pair_count, dtype=np.bool_)
    mesh[asked], surplus[asked] = found.mesh, found.surplus
    rows = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    if surplus.size and (mesh >= 0).any():
        rows = mesh_rows(
            MeshPairs(mesh, surplus), transfers.pair_src.astype(np.int64), offsets,
            transfers.start_ns, transfers.end_ns, transfers.bytes,
        )  # fmt: skip
    groups = tuple(_group(transfers, mesh == number) for number in range(int(mesh.max(initial=-1)) + 1))
    return Meshes(_either(links, mesh >= 0), _either(links, surplus), mesh >= 0, surplus, rows, groups)


def _taken_apart(transfers: TransferTable, asked: Int64, size: Float64, found: MeshPairs) -> MeshPairs:
    """The meshes, one that gradient rings and pairs glue together cut into the complete graphs that it consists of.

    All links of an all-to-all answer with about the same bytes; what joins two of them carries other amounts.
    """
    mesh, surplus = found.mesh.copy(), found.surplus.copy()
    src, dst = transfers.pair_src[asked].astype(np.int64), transfers.pair_dst[asked].astype(np.int64)
    back = transfers.pairs_between(dst, src)
    where = np.full(transfers.pair_count + 1, -1, dtype=np.int64)
    where[asked] = np.arange(asked.size)
    other = where[back]
    answered = np.where(other >= 0, np.minimum(size, size[other]), 0.0)
    following = int(found.mesh.max(initial=-1)) + 1
    for number in range(following):
        own = np.flatnonzero(found.mesh == number)
        level = np.log(np.maximum(answered[own], 1.0))
        order = np.argsort(level)
        cuts = np.flatnonzero(np.diff(level[order]) > OTHER_AMOUNT) + 1
        largest = own[max(np.split(order, cuts), key=len)]
        parts = _complete(src[largest], dst[largest])
        members = np.union1d(src[own], dst[own])
        if parts is None or int(parts.max()) < 1 or np.union1d(src[largest], dst[largest]).size < members.size:
            continue
        mesh[own] = -1
        surplus[own] = False
        mesh[largest] = np.where(parts == 0, number, following + parts - 1)
        following += int(parts.max())
        usual = np.median(size[largest])
        surplus[largest] = size[largest] > SURPLUS * usual
    return MeshPairs(mesh, surplus)


def _complete(src: Int64, dst: Int64) -> Int64 | None:
    """The component of each pair, if every member of a component exchanges with nearly all others of it."""
    members, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
    labels = component_labels(members.size, ends[: src.size], ends[src.size :])
    size = np.bincount(labels)
    pairs = np.bincount(labels[ends[: src.size]], minlength=size.size)
    return labels[ends[: src.size]] if (pairs >= NEARLY_ALL * size * (size - 1)).all() else None


def _either(links: Links, flags: Bool) -> Bool:
    """Links either of whose directions is flagged."""
    return _of(flags, links.there) | _of(flags, links.back)


def _of(flags: Bool, pair: Int32) -> Bool:
    return (pair >= 0) & flags[pair]


def _group(transfers: TransferTable, own: Bool) -> Group:
    members = np.union1d(transfers.pair_src[own], transfers.pair_dst[own])
    return Group(PairKind.EP, tuple(int(member) for member in members))
