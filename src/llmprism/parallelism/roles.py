"""What every pair and every transfer of a job carries, distinguished from its links, meshes and rings.

A link has one kind; a pair may carry two (a ring of gradients over a mesh, a ring of contexts that also synchronises),
and then has a role for each. The trickle back over a one-way link is no pair of training traffic.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int8, Int32, Int64
from llmprism.model.flows import TransferTable
from llmprism.model.layout import PairKind, PairRoles
from llmprism.parallelism.exchanges import Exchanges
from llmprism.parallelism.features import Links
from llmprism.parallelism.in_step import InStep
from llmprism.parallelism.meshes import Meshes
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = [
    "all_roles",
    "and_carries",
    "collective_pairs",
    "link_roles",
    "pair_kinds_of",
    "pairs_of_kind",
    "row_kinds",
]


def pair_kinds_of(transfers: TransferTable, links: Links, kinds: LinkKinds) -> Int8:
    result = np.zeros(transfers.pair_count, dtype=np.int8)
    for side in (links.there, links.back):
        present = side >= 0
        result[side[present]] = kinds.kind[present]
    return result


def link_roles(transfers: TransferTable, links: Links, kinds: LinkKinds, rules: LayoutRules = RULES) -> PairRoles:
    """Every direction that carries the link's traffic; the trickle back over a one-way link is not a pair."""
    pair, kind, confidence = [], [], []
    size = transfers.pair_bytes
    for there, back in ((links.there, links.back), (links.back, links.there)):
        carries = _carries(size, kinds.one_way, there, back, rules)
        pair.append(there[carries])
        kind.append(kinds.kind[carries])
        confidence.append(kinds.confidence[carries])
    pairs = np.concatenate(pair)
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    return PairRoles(
        transfers.pair_src[pairs],
        transfers.pair_dst[pairs],
        np.concatenate(kind)[order],
        np.concatenate(confidence)[order],
    )


def _carries(size: Int64, one_way: Bool, there: Int32, back: Int32, rules: LayoutRules) -> Bool:
    """Directions that carry the link's traffic: all but the trickle back over one-way links."""
    carries: Bool = (there >= 0) & (
        ~one_way | (size[there] >= rules.kinds.trickle * np.where(back >= 0, size[back], 0))
    )
    return carries


def pairs_of_kind(transfers: TransferTable, links: Links, kinds: LinkKinds, kind: PairKind) -> Bool:
    """The pairs of links of this kind, either direction."""
    result = np.zeros(transfers.pair_count, dtype=np.bool_)
    for side in (links.there, links.back):
        result[side[(side >= 0) & (kinds.kind == kind)]] = True
    return result


def collective_pairs(transfers: TransferTable, links: Links, kinds: LinkKinds, rules: LayoutRules = RULES) -> Bool:
    """Pairs of collectives, without the trickle back over one-way links."""
    size = transfers.pair_bytes
    result = np.zeros(transfers.pair_count, dtype=np.bool_)
    for there, back in ((links.there, links.back), (links.back, links.there)):
        result[there[_carries(size, kinds.one_way, there, back, rules) & (kinds.kind == PairKind.DP)]] = True
    return result


def all_roles(
    transfers: TransferTable,
    known: PairRoles,
    meshes: Meshes,
    in_step: InStep,
    exchanges: Exchanges,
    rules: LayoutRules = RULES,
) -> PairRoles:
    """Roles of the links, of the meshes, of exchanges and rings inside the forward pass; a pair may have two."""
    pair = transfers.pairs_between(known.src.astype(np.int64), known.dst.astype(np.int64))
    ring = in_step.inside[pair] if pair.size else np.zeros(0, dtype=np.bool_)
    keep = ~ring | in_step.gradients[pair] if pair.size else ring
    mesh = np.concatenate([np.flatnonzero(meshes.pairs), np.flatnonzero(exchanges.pairs)])
    mesh_kind = np.where(np.arange(mesh.size) < meshes.pairs.sum(), PairKind.EP, exchanges.kind)
    ring_kind = np.where(in_step.tensor[pair[ring]], PairKind.TP, in_step.kind)
    src = np.concatenate([known.src[keep], known.src[ring], transfers.pair_src[mesh]])
    dst = np.concatenate([known.dst[keep], known.dst[ring], transfers.pair_dst[mesh]])
    kind = np.concatenate([
        known.kind[keep], ring_kind, mesh_kind
    ]).astype(np.int8)  # fmt: skip
    confidence = np.concatenate(
        [known.confidence[keep], known.confidence[ring], np.full(mesh.size, rules.kinds.mesh_confidence)]
    )
    order = np.lexsort((kind, dst, src))
    return PairRoles(src[order], dst[order], kind[order], confidence[order])


def and_carries(
    transfers: TransferTable, known: PairRoles, pairs: Bool, kind: PairKind, rules: LayoutRules = RULES
) -> PairRoles:
    """The same, and these pairs carry this kind besides."""
    own = np.flatnonzero(pairs)
    src = np.concatenate([known.src, transfers.pair_src[own]])
    dst = np.concatenate([known.dst, transfers.pair_dst[own]])
    kinds = np.concatenate([known.kind, np.full(own.size, kind, dtype=np.int8)])
    sure = np.concatenate([known.confidence, np.full(own.size, rules.kinds.mesh_confidence)])
    order = np.lexsort((kinds, dst, src))
    return PairRoles(src[order], dst[order], kinds[order], sure[order])


def row_kinds(transfers: TransferTable, pair_kind: Int8, meshes: Meshes, in_step: InStep, exchanges: Exchanges) -> Int8:
    rows = np.repeat(pair_kind, np.diff(transfers.pair_offsets))
    in_ring = transfers.rows_of(in_step.inside) & ~in_step.gradient_row
    rows[in_ring] = np.where(transfers.rows_of(in_step.tensor), PairKind.TP, in_step.kind)[in_ring]
    rows[meshes.rows] = PairKind.EP
    rows[exchanges.rows] = exchanges.kind
    return rows
