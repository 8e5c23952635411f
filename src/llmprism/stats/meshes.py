"""All-to-all meshes in a graph of links, and what runs over their links in addition.

*Which links.* In an all-to-all every member sends to every other one that it cannot reach inside its server. So the
peers of one end of a link are peers of the other end's peers: a mesh is a complete graph, or a complete graph between
servers (two servers give a bipartite one, without a single triangle). Rings, trees, pipelines and grids of them have
next to none of these squares. And an all-to-all answers: both directions of its links carry about as much.

*What else they carry.* What one member sends another is uneven, but what is uneven belongs to the sender (its tokens)
or to the receiver (its popular experts). A pair that carries more than sender and receiver explain carries something
else too: a hop of a ring. A transfer of such a pair is the all-to-all's when the sender's other pairs send at about the
same time and theirs are not much smaller; the rest is the ring's.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, UInt64
from llmprism.kernel import kernel
from llmprism.stats.all_to_alls import OTHER_AMOUNT, all_to_all_parts
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.integer_order import stable_order
from llmprism.stats.robust import MAD_TO_SIGMA, segment_medians

__all__ = ["MeshPairs", "mesh_pairs", "mesh_rows"]

MIN_PEERS: Final = 3
"""Peers that a member of a mesh has at least: four servers whose all-to-alls keep to their rails."""

SQUARES: Final = 0.6
"""Share of the other end's engaged peers that an engaged peer of one end of a link reaches. A complete graph between
four servers has 0.8; in rings, trees, pipelines and grids of them no peer reaches two, so none is engaged."""

ANSWERED: Final = 0.2
"""Share of a link's greater direction that comes back on a quarter of a mesh's links at least. Rings send one way, but
the largest mesh that they may run over for the most part has four members."""

TRICKLE: Final = 0.02
"""And on nine links of ten at least this share: acknowledgements are below it. A ring next to a tree of four members
joins everyone to everyone, but the ring's links send one way."""

NINE_OF_TEN: Final = 0.9
"""Share of the links that must answer alike: the rest is for what a collector lost."""

EXCESS: Final = 1.08
"""Bytes relative to what sender and receiver explain, from which a pair carries something else too..."""

EXCESS_SPREADS: Final = 6.0
"""...if it is this many robust spreads above the others."""

MOST_AMOUNTS: Final = 5
"""Amounts of an even all-to-all with rings over it: none, one, two or three of them over a pair. Uneven ones of a few
members have more, those of many members no gaps."""

LEAST_PURE: Final = 1.0 / 8.0
"""Share of the pairs of the least amount at least: rings in three orders leave two pairs of twelve."""

PASSED_ON: Final = 0.75
"""Share of the ends of such pairs that both send and receive outside the mesh: rings and trees pass on what they
get."""

SAMPLED_PEERS: Final = 16
"""Peers of one end that are looked at for theirs: a share needs no more."""

SWEEPS: Final = 4
"""Rounds of the median polish that finds what sender and receiver explain."""

MAX_NODES: Final = 20_000
"""Nodes up to which peers are compared by a table of bits (50 MB)."""

NEAR: Final = 0.25
"""Share of the usual silence between two all-to-alls of a sender within which a transfer belongs to one of them."""

LARGER: Final = 2.1
"""Times the large (95 %) transfers of the mesh, or what one peer gets in a large burst, from which a transfer cannot be
one of them: collectors fuse two now and then, seldom three."""

STRAYS: Final = 0.05
"""Share of a pair's remaining bytes below which transfers like the mesh's, but apart from it, are late ones of it."""


@dataclass(frozen=True, slots=True)
class MeshPairs:
    """Per directed pair: the number of its mesh (-1: none), and whether it carries more than the mesh."""

    mesh: Int64
    surplus: Bool

    @property
    def pure(self) -> Bool:
        """Pairs that carry nothing but their mesh's all-to-alls."""
        return (self.mesh >= 0) & ~self.surplus


def mesh_pairs(src: Int64, dst: Int64, size: Float64) -> MeshPairs:
    """The meshes among directed pairs (each at most once) that carry these bytes."""
    members, ends = np.unique(np.concatenate([src, dst]), return_inverse=True)
    src, dst = ends[: src.size].astype(np.int64), ends[src.size :].astype(np.int64)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    key, link = np.unique(low * members.size + high, return_inverse=True)
    carried = np.zeros((2, key.size))
    np.add.at(carried, ((src > dst).astype(np.int64), link), size)
    mesh = _mesh_of_links(key // max(members.size, 1), key % max(members.size, 1), carried)[link]
    surplus = np.zeros(src.size, dtype=np.bool_)
    outside = (src[mesh < 0], dst[mesh < 0])
    for number in range(int(mesh.max(initial=-1)) + 1):
        own = mesh == number
        surplus[own] = _surplus_pairs(src[own], dst[own], size[own], outside)
    return MeshPairs(mesh, surplus)


def _mesh_of_links(low: Int64, high: Int64, carried: Float64) -> Int64:
    """For each link between two nodes the number of its mesh, or -1; `carried` holds the bytes of both directions."""
    nodes = int(high.max(initial=-1)) + 1
    mesh = np.full(low.size, -1, dtype=np.int64)
    if nodes > MAX_NODES:
        return mesh
    inside = np.flatnonzero(_in_squares(low, high, nodes))
    if not inside.size:
        return mesh
    labels = component_labels(nodes, low[inside], high[inside])[low[inside]]
    answered = carried.min(axis=0) / np.maximum(carried.max(axis=0), 1.0)
    for label in np.unique(labels):
        links = inside[labels == label]
        if np.quantile(answered[links], 0.75) >= ANSWERED and _all_answer(carried[:, links]):
            parts = all_to_all_parts(low[links], high[links], carried[:, links])
            for part in range(int(parts.max()) + 1):
                mesh[_all_among(low, high, carried, links[parts == part])] = mesh.max() + 1
    return mesh


def _all_answer(carried: Float64) -> bool:
    """Do nine links in ten answer more than acknowledgements, or as much as the links that carry the same both ways?

    A ring may carry a hundred times what an all-to-all over the same links does; but what comes back over its links is
    then the all-to-all's, as large as on all others, and not a share of the ring's.
    """
    less, more = carried.min(axis=0), np.maximum(carried.max(axis=0), 1.0)
    if np.quantile(less / more, 0.1) >= TRICKLE:
        return True
    even = less >= 0.5 * more
    if not even.any() or not (less > 0.0).all():
        return False
    alike = np.abs(np.log(less) - np.median(np.log(less[even]))) <= OTHER_AMOUNT
    return bool(alike.mean() >= NINE_OF_TEN)


def _all_among(low: Int64, high: Int64, carried: Float64, links: Int64) -> Int64:
    """The links of an all-to-all: also those among its members that few squares show, where they answer as much."""
    among = np.zeros(int(high.max()) + 1, dtype=np.bool_)
    among[low[links]] = among[high[links]] = True
    answered = np.log(np.maximum(carried.min(axis=0), 1.0))
    alike = np.abs(answered - np.median(answered[links])) <= OTHER_AMOUNT
    alike[links] = True
    return np.flatnonzero(among[low] & among[high] & alike)


def _in_squares(low: Int64, high: Int64, nodes: int) -> Bool:
    """Links most of whose possible squares and triangles are closed; computed only for ends with enough peers."""
    ends, peers = np.concatenate([low, high]), np.concatenate([high, low])
    degree = np.bincount(ends, minlength=nodes)
    inside = np.zeros(low.size, dtype=np.bool_)
    eligible = np.flatnonzero((degree[low] >= MIN_PEERS) & (degree[high] >= MIN_PEERS))
    if eligible.size:
        order = np.lexsort((peers, ends))
        offsets = np.concatenate([[0], np.cumsum(degree)])
        bits = np.zeros((nodes, nodes // 64 + 1), dtype=np.uint64)
        np.bitwise_or.at(bits, (ends, peers >> 6), np.uint64(1) << (peers & 63).astype(np.uint64))
        inside[eligible] = _closed_share(low[eligible], high[eligible], offsets, peers[order], bits) >= SQUARES
    return inside


def _common_by_arrays(a: UInt64, b: UInt64) -> int:
    return int(np.bitwise_count(a & b).sum())


@kernel(small=_common_by_arrays)
def _common(a: UInt64, b: UInt64) -> int:
    """Bits that two rows have in common."""
    count = 0
    for word in range(a.size):
        rest = a[word] & b[word]
        while rest:
            rest &= rest - np.uint64(1)
            count += 1
    return count


@kernel
def _engaged(a: int, b: int, offsets: Int64, peers: Int64, bits: UInt64) -> tuple[float, float]:
    """Peers of `a` that reach two or more of the peers of `b` (one may be the peer itself), and how many they reach."""
    count = offsets[a + 1] - offsets[a]
    sampled, engaged, reached = 0, 0, 0
    for k in range(0, count, max(1, count // SAMPLED_PEERS)):
        peer = peers[offsets[a] + k]
        if peer == b:
            continue
        itself = int((bits[b, peer >> 6] >> np.uint64(peer & 63)) & np.uint64(1))
        found = _common(bits[peer], bits[b]) - 1 + itself  # `a` is a peer of both
        sampled += 1
        if found >= 2:
            engaged += 1
            reached += found
    if not engaged:
        return 0.0, 0.0
    return engaged / sampled * (count - 1), reached / engaged


@kernel
def _closed_share(low: Int64, high: Int64, offsets: Int64, peers: Int64, bits: UInt64) -> Float64:
    """How completely the engaged peers of both ends of each link reach each other; neighbouring stages are not."""
    result = np.zeros(low.size)
    for link in range(low.size):
        of_low, reach_low = _engaged(low[link], high[link], offsets, peers, bits)
        of_high, reach_high = _engaged(high[link], low[link], offsets, peers, bits)
        if of_low >= MIN_PEERS - 1 and of_high >= MIN_PEERS - 1:
            result[link] = min(reach_low / of_high, reach_high / of_low)
    return result


def _surplus_pairs(src: Int64, dst: Int64, size: Float64, outside: tuple[Int64, Int64]) -> Bool:
    """Which directed pairs of one mesh carry more than their sender and receiver explain.

    None does when the ends of such pairs do not pass on what they get, over one of them or over the pairs `outside` the
    mesh (their senders, their receivers).
    """
    large = _above_the_least(size)
    if large is None:
        rest = np.log(np.maximum(size, 1.0))
        for _ in range(SWEEPS):
            for end in (src, dst):
                rest = rest - _medians(end, rest)
        spread = MAD_TO_SIGMA * float(np.median(np.abs(rest)))
        large = rest > max(float(np.log(EXCESS)), EXCESS_SPREADS * spread)
    either = np.union1d(src[large], dst[large])
    sends = np.isin(either, src[large]) | np.isin(either, outside[0])
    receives = np.isin(either, dst[large]) | np.isin(either, outside[1])
    return large if (sends & receives).sum() >= PASSED_ON * either.size else np.zeros(src.size, dtype=np.bool_)


def _above_the_least(size: Float64) -> Bool | None:
    """The pairs that carry more than the least amount, where all are of a few amounts clearly apart; None where not.

    An even all-to-all carries one amount; each ring over it adds its own to the pairs of its hops, be they few or most.
    """
    level = np.log(np.maximum(size, 1.0))
    order = np.argsort(level, kind="stable")
    cuts = np.flatnonzero(np.diff(level[order]) > np.log(EXCESS)) + 1
    if not 1 <= cuts.size < MOST_AMOUNTS or cuts[0] < max(2.0, LEAST_PURE * size.size):
        return None
    large = np.ones(size.size, dtype=np.bool_)
    large[order[: cuts[0]]] = False
    return large


def _medians(group: Int64, value: Float64) -> Float64:
    """For each value the median of its group."""
    order = np.argsort(group, kind="stable")
    names, first = np.unique(group[order], return_index=True)
    median = segment_medians(value[order], np.append(first, group.size))
    return median[np.searchsorted(names, group)]


def mesh_rows(pairs: MeshPairs, src: Int64, offsets: Int64, start: Int64, end: Int64, size: Int64) -> Bool:
    """The transfers that are the meshes' own: all of the pure pairs, of the others those in bursts with pure ones.

    The transfers of pair `p`, which `src[p]` sends, are `offsets[p]:offsets[p + 1]`. Where all pairs of a sender carry
    more, the pure pairs of the others show the bursts: all members take part in each.
    """
    result: Bool = np.repeat(pairs.pure, np.diff(offsets))
    pure_of, mixed_of = (_by_sender(src, chosen) for chosen in (pairs.pure, pairs.surplus & (pairs.mesh >= 0)))
    mesh_of = {int(src[pair]): int(pairs.mesh[pair]) for pair in np.flatnonzero(pairs.mesh >= 0)}
    for member, mixed in mixed_of.items():
        others = pure_of.get(member) or np.flatnonzero(pairs.pure & (pairs.mesh == mesh_of[member])).tolist()
        pure, shared = _rows_of(others, offsets), _rows_of(mixed, offsets)
        pure = pure[stable_order(start[pure])]
        shown = (start[pure], end[pure], size[pure])
        result[shared] = _in_bursts(shown, start[shared], end[shared], size[shared], len(others))
    return result


def _by_sender(src: Int64, chosen: Bool) -> dict[int, list[int]]:
    """The chosen pairs of each sender."""
    pairs_of: dict[int, list[int]] = {}
    for pair in np.flatnonzero(chosen).tolist():
        pairs_of.setdefault(int(src[pair]), []).append(pair)
    return pairs_of


def _rows_of(pairs: list[int], offsets: Int64) -> Int64:
    return np.concatenate([np.arange(0), *(np.arange(offsets[pair], offsets[pair + 1]) for pair in pairs)])


def _in_bursts(pure: tuple[Int64, Int64, Int64], start: Int64, end: Int64, size: Int64, peers: int) -> Bool:
    """Which transfers of one sender belong to the all-to-alls that its pure transfers (start, end, size) show."""
    if not pure[0].size:
        return np.zeros(start.size, dtype=np.bool_)
    horizon = np.maximum.accumulate(pure[1])
    silence = pure[0][1:] - horizon[:-1]
    apart = NEAR * float(np.quantile(silence, 1.0 - 0.5 / max(peers, 1))) if silence.size else 0.0
    after = np.searchsorted(pure[0], start, side="right")
    far = np.iinfo(np.int64).max
    since = np.where(after > 0, start - horizon[np.maximum(after - 1, 0)], far)
    until = np.where(after < pure[0].size, pure[0][np.minimum(after, pure[0].size - 1)] - end, far)
    near: Bool = np.minimum(since, until) <= max(apart, 0.0)
    burst = np.concatenate([[0], np.cumsum(silence > max(apart, 0.0))])
    to_one_peer = np.bincount(burst, pure[2]) / max(peers, 1)
    alike: Bool = size <= LARGER * max(float(np.quantile(pure[2], 0.95)), float(np.quantile(to_one_peer, 0.95)))
    stray = size[alike & ~near].sum() < STRAYS * size[~(alike & near)].sum()
    result: Bool = alike & (near | bool(stray))
    return result
