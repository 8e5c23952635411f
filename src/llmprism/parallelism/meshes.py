"""Expert parallelism: the meshes of all-to-alls, and the hops of gradient rings that run over their links.

How they are distinguished is in `stats.meshes`. A link of a mesh that also carries a ring is in both.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Int32
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links
from llmprism.stats.meshes import MeshPairs, mesh_pairs, mesh_rows

__all__ = ["Meshes", "find_meshes"]


@dataclass(frozen=True, slots=True)
class Meshes:
    """Per link: in a mesh, and carrying more than the mesh. Per directed pair of the table: in a mesh. Per row: a
    transfer of an all-to-all."""

    inside: Bool
    more: Bool
    pairs: Bool
    rows: Bool
    groups: tuple[Group, ...]


def find_meshes(transfers: TransferTable, bulk: Bool, links: Links) -> Meshes:
    """The meshes among the bulk pairs; `links` are their links."""
    chosen = np.flatnonzero(bulk)
    offsets = transfers.pair_offsets
    size = transfers.pair_bytes.astype(np.float64)
    found = mesh_pairs(transfers.pair_src[chosen].astype(np.int64), transfers.pair_dst[chosen].astype(np.int64),
                       size[chosen])  # fmt: skip
    mesh, surplus = np.full(transfers.pair_count, -1), np.zeros(transfers.pair_count, dtype=np.bool_)
    mesh[chosen], surplus[chosen] = found.mesh, found.surplus
    rows = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    if surplus.size and (mesh >= 0).any():
        rows = mesh_rows(
            MeshPairs(mesh, surplus), transfers.pair_src.astype(np.int64), offsets,
            transfers.start_ns, transfers.end_ns, transfers.bytes,
        )  # fmt: skip
    groups = tuple(_group(transfers, mesh == number) for number in range(int(mesh.max(initial=-1)) + 1))
    return Meshes(_either(links, mesh >= 0), _either(links, surplus), mesh >= 0, rows, groups)


def _either(links: Links, flags: Bool) -> Bool:
    """Links either of whose directions is flagged."""
    return _of(flags, links.there) | _of(flags, links.back)


def _of(flags: Bool, pair: Int32) -> Bool:
    return (pair >= 0) & flags[pair]


def _group(transfers: TransferTable, own: Bool) -> Group:
    members = np.union1d(transfers.pair_src[own], transfers.pair_dst[own])
    return Group(PairKind.EP, tuple(int(member) for member in members))
