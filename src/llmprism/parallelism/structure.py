"""Groups and pipelines from the kinds of links: components, ring order, paths."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["data_parallel_groups", "in_two", "joined_by", "only_pairs", "pairs_inside", "pipeline_paths"]


def data_parallel_groups(links: Links, kinds: LinkKinds, features: PairFeatures) -> tuple[Group, ...]:
    """Connected components of the data-parallel links, in ring order where one-way links close a ring."""
    chosen = np.flatnonzero(kinds.kind == PairKind.DP)
    if not chosen.size:
        return ()
    ends = np.concatenate([links.low[chosen], links.high[chosen]])
    members, index = np.unique(ends, return_inverse=True)
    labels = component_labels(members.size, index[: chosen.size], index[chosen.size :])
    successor = _successors(links, kinds, features, chosen)
    groups = []
    for label in range(int(labels.max()) + 1):
        group = [int(m) for m in members[labels == label]]
        ring = _follow(group[0], successor, len(group))
        groups.append(Group(PairKind.DP, tuple(ring or group), ring=ring is not None))
    return tuple(sorted(groups, key=lambda group: min(group.members)))


def only_pairs(links: Links, kinds: LinkKinds, wanted: Bool) -> tuple[Links, LinkKinds]:
    """The links either of whose directions is wanted."""
    chosen = ((links.there >= 0) & wanted[links.there]) | ((links.back >= 0) & wanted[links.back])
    return links.only(chosen), kinds.only(chosen)


def joined_by(groups: tuple[Group, ...], communicators: tuple[Group, ...]) -> tuple[Group, ...]:
    """The groups, those that meet in one of the communicators joined.

    Experts and contexts are spread over ranks that hold the same dense weights: the rails that their gradients take
    belong to one group.
    """
    group_of = {member: index for index, group in enumerate(groups) for member in group.members}
    left, right = [], []
    for communicator in communicators:
        met = sorted({group_of[member] for member in communicator.members if member in group_of})
        left += met[:-1]
        right += met[1:]
    labels = component_labels(len(groups), left, right)
    joined = [[groups[i] for i in np.flatnonzero(labels == label)] for label in range(int(labels.max(initial=-1)) + 1)]
    return tuple(parts[0] if len(parts) == 1 else _one_group(parts) for parts in joined)


def _one_group(parts: list[Group]) -> Group:
    return Group(parts[0].kind, tuple(sorted(member for part in parts for member in part.members)), ring=False)


def _successors(links: Links, kinds: LinkKinds, features: PairFeatures, chosen: Int64) -> dict[int, int]:
    """For each member the one it sends most to, over one-way links."""
    one_way = links.only(chosen[kinds.one_way[chosen]])
    sent = np.where(one_way.there >= 0, features.total_bytes[one_way.there], 0.0)
    received = np.where(one_way.back >= 0, features.total_bytes[one_way.back], 0.0)
    upward, amount = sent >= received, np.maximum(sent, received)
    src, dst = np.where(upward, one_way.low, one_way.high), np.where(upward, one_way.high, one_way.low)
    order = np.lexsort((-amount, src))  # stable: of two that carry as much, the first
    order = order[amount[order] > 0.0]
    member, best = np.unique(src[order], return_index=True)
    return dict(zip(member.tolist(), dst[order][best].tolist(), strict=True))


def _follow(first: int, successor: dict[int, int], count: int) -> list[int] | None:
    """The ring that starts at `first`, if following the successors visits all `count` members and comes back."""
    if count == 2:
        return [first, successor[first]] if first in successor else None
    ring, here = [first], successor.get(first)
    while here is not None and here != first and len(ring) < count:
        ring.append(here)
        here = successor.get(here)
    return ring if here == first and len(set(ring)) == count else None


def pipeline_paths(links: Links, kinds: LinkKinds, features: PairFeatures) -> tuple[tuple[tuple[int, ...], ...], bool]:
    """The pipelines as paths of members, either way round, and whether any of them was a ring.

    Interleaved stages close a pipeline to a ring; the link from the last stage back to the first carries one virtual
    stage less than the others, and perhaps tied embeddings besides, so the ring is cut at the link that carries
    something else than all others. Components of another shape are left out.
    """
    neighbours: dict[int, list[tuple[int, float]]] = {}
    for link in np.flatnonzero(kinds.kind == PairKind.PP):
        low, high = int(links.low[link]), int(links.high[link])
        there, back = int(links.there[link]), int(links.back[link])
        amount = sum(float(features.step_bytes[pair]) for pair in (there, back) if pair >= 0)
        neighbours.setdefault(low, []).append((high, amount))
        neighbours.setdefault(high, []).append((low, amount))
    paths, rings, seen = [], False, set[int]()
    for member in sorted(neighbours, key=lambda m: (len(neighbours[m]) != 1, m)):
        if member in seen:
            continue
        path = _walk(member, neighbours)
        seen.update(path)
        if path is not None and len(neighbours[path[0]]) == 2 and len(path) > 2:
            path, rings = _cut_ring(path, neighbours), True
        if _is_path(path, neighbours):
            paths.append(tuple(path))
    return tuple(sorted(paths)), rings


def _walk(first: int, neighbours: dict[int, list[tuple[int, float]]]) -> list[int]:
    path, here = [first], first
    visited = {first}
    while True:
        ahead = [n for n, _ in neighbours[here] if n not in visited]
        if not ahead:
            return path
        here = ahead[0]
        path.append(here)
        visited.add(here)


def _cut_ring(path: list[int], neighbours: dict[int, list[tuple[int, float]]]) -> list[int]:
    carried = [
        dict(neighbours[a])[b] for a, b in zip(path, [*path[1:], path[0]], strict=True) if b in dict(neighbours[a])
    ]
    if len(carried) != len(path):
        return path
    amounts = np.maximum(np.array(carried), 1.0)
    cut = int(np.argmax(np.abs(np.log(amounts / np.median(amounts))))) + 1
    return path[cut:] + path[:cut]


def _is_path(path: list[int], neighbours: dict[int, list[tuple[int, float]]]) -> bool:
    return len(path) > 1 and all(len(neighbours[m]) <= 2 for m in path)


def pairs_inside(transfers: TransferTable, groups: tuple[Group, ...]) -> Bool:
    """Pairs within one group, small messages included: the tail of a synchronisation often takes other routes."""
    group_of = np.full(len(transfers.addresses), -1, dtype=np.int64)
    for index, group in enumerate(groups):
        group_of[list(group.members)] = index
    src, dst = group_of[transfers.pair_src], group_of[transfers.pair_dst]
    inside: Bool = (src >= 0) & (src == dst)
    return inside


def in_two(groups: tuple[Group, ...]) -> bool:
    """Is a member in two of these groups?"""
    members = [member for group in groups for member in group.members]
    return len(members) > len(set(members))
