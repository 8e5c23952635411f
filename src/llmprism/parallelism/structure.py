"""Groups and pipelines from the kinds of links: components, ring order, stage order."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.stats.disjoint_sets import component_labels

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["data_parallel_groups", "forward_links", "pipelines_of"]


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


def _successors(links: Links, kinds: LinkKinds, features: PairFeatures, chosen: Int64) -> dict[int, int]:
    """For each member the one it sends most to, over one-way links."""
    best: dict[int, tuple[float, int]] = {}
    for link in chosen[kinds.one_way[chosen]]:
        there, back = links.there[link], links.back[link]
        sent = float(features.total_bytes[there]) if there >= 0 else 0.0
        received = float(features.total_bytes[back]) if back >= 0 else 0.0
        low, high = int(links.low[link]), int(links.high[link])
        src, dst, amount = (low, high, sent) if sent >= received else (high, low, received)
        if amount > best.get(src, (0.0, -1))[0]:
            best[src] = (amount, dst)
    return {src: dst for src, (_, dst) in best.items()}


def _follow(first: int, successor: dict[int, int], count: int) -> list[int] | None:
    """The ring that starts at `first`, if following the successors visits all `count` members and comes back."""
    if count == 2:
        return [first, successor[first]] if first in successor else None
    ring, here = [first], successor.get(first)
    while here is not None and here != first and len(ring) < count:
        ring.append(here)
        here = successor.get(here)
    return ring if here == first and len(set(ring)) == count else None


def forward_links(links: Links, kinds: LinkKinds, features: PairFeatures) -> list[tuple[int, int, int, int]]:
    """Pipeline links as (earlier stage, later stage, forward pair, backward pair): activations flow before gradients."""
    slots = np.arange(features.profile.shape[1])
    centre = features.profile @ slots
    result = []
    for link in np.flatnonzero(kinds.kind == PairKind.PP):
        there, back = int(links.there[link]), int(links.back[link])
        low, high = int(links.low[link]), int(links.high[link])
        if there >= 0 and (back < 0 or centre[there] <= centre[back]):
            result.append((low, high, there, back))
        else:
            result.append((high, low, back, there))
    return result


def pipelines_of(forward: list[tuple[int, int, int, int]]) -> tuple[tuple[int, ...], ...]:
    """Chains of forward links from a first stage to a last one; a cycle (interleaved stages) is cut at its weakest
    point, which is not decided here: such chains are left out."""
    after: dict[int, list[int]] = {}
    before: dict[int, list[int]] = {}
    for early, late, _, _ in forward:
        after.setdefault(early, []).append(late)
        before.setdefault(late, []).append(early)
    chains = []
    for first in sorted(after):
        if first in before:
            continue
        chain, here = [first], first
        while len(after.get(here, ())) == 1 and len(before.get(after[here][0], ())) == 1:
            here = after[here][0]
            chain.append(here)
        chains.append(tuple(chain))
    return tuple(chains)
