"""Is a dense graph of links an all-to-all, several of them that rings join, or only rings in several orders?

*Complete.* In an all-to-all every member exchanges with every other one that it cannot reach inside its server. So two
members that do not exchange are on one server and have the same peers. Several channels of one collective go round the
same members in several orders: their union is dense too, but members that do not exchange have different peers.

*Joined.* Rings of gradients may join several all-to-alls. All links of an all-to-all answer with about the same bytes;
what joins two of them carries other amounts. Without those links each one is complete.

*Rings that make a complete graph.* Few members in several orders meet all of each other. Then amounts decide: rings
carry whole multiples of one amount. That an all-to-all and what runs over it do so as well is a coincidence, which
costs bits; so do the orders of the rings. The cheaper explanation stands.
"""

from __future__ import annotations

from math import lgamma, log
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["OTHER_AMOUNT", "all_to_all_parts", "has_same_peers", "rings_are_cheaper"]

SAME_PEERS: Final = 0.8
"""Mean share of their peers that members which do not exchange have in common: 1 in an all-to-all, 0.2 to 0.5 where
rings of eight and more go round in two orders; the rest is for links that a collector lost."""

SAMPLED: Final = 256
"""Members whose peers are compared: a mean needs no more."""

OTHER_AMOUNT: Final = 0.3
"""Difference of the logarithms of what two links answer, from which they are not of one all-to-all: uneven routing
stays below it from one link to the next."""

LEAST_MEMBERS: Final = 4
"""Members of an all-to-all that shows by its shape; three or two make rings and pairs."""

WHOLE: Final = 0.12
"""Distance from a whole multiple of the least amount, as a share of it, within which an amount counts as one: the
set-up and steps that the window cuts are in the totals."""


def all_to_all_parts(low: Int64, high: Int64, carried: Float64) -> Int64:
    """For each link of one connected component the number of its all-to-all, or -1; `carried` holds the bytes of both
    directions."""
    whole = np.zeros(low.size, dtype=np.int64)
    if has_same_peers(low, high):
        return whole - 1 if rings_are_cheaper(low, high, carried) else whole
    answered = np.log(np.maximum(carried.min(axis=0), 1.0))
    order = np.argsort(answered, kind="stable")
    cuts = np.flatnonzero(np.diff(answered[order]) > OTHER_AMOUNT) + 1
    alike = np.sort(max(np.split(order, cuts), key=len))
    parts = whole - 1
    members, ends = np.unique(np.concatenate([low[alike], high[alike]]), return_inverse=True)
    if members.size < np.union1d(low, high).size:
        return parts
    part = component_labels(members.size, ends[: alike.size], ends[alike.size :])[ends[: alike.size]]
    for number in range(int(part.max()) + 1):
        own = alike[part == number]
        size = np.union1d(low[own], high[own]).size
        if size < LEAST_MEMBERS or not has_same_peers(low[own], high[own]):
            return whole - 1
    parts[alike] = part
    return parts


def has_same_peers(low: Int64, high: Int64) -> bool:
    """Do members that are not joined by a link have the same peers?"""
    members, ends = np.unique(np.concatenate([low, high]), return_inverse=True)
    sampled = evenly_spread(members.size, SAMPLED)
    rank = np.full(members.size, -1)
    rank[sampled] = np.arange(sampled.size)
    peers = np.zeros((sampled.size, members.size), dtype=np.float32)
    for here, there in ((ends[: low.size], ends[low.size :]), (ends[low.size :], ends[: low.size])):
        known = rank[here] >= 0
        peers[rank[here[known]], there[known]] = 1.0
    common = peers @ peers.T
    count = peers.sum(axis=1)
    share = common / np.maximum(count[:, None] + count[None, :] - common, 1.0)
    apart = peers[:, sampled] == 0.0
    np.fill_diagonal(apart, val=False)
    return not apart.any() or float(share[apart].mean()) >= SAME_PEERS


def rings_are_cheaper(low: Int64, high: Int64, carried: Float64) -> bool:
    """Do rings in several orders explain a complete graph and its amounts with fewer bits than an all-to-all?"""
    amount = carried[carried > 0.0]
    ordered = np.sort(amount)
    first = np.flatnonzero(np.diff(ordered) > 0.5 * ordered[0])
    least = float(np.median(ordered[: int(first[0]) + 1])) if first.size else 0.0
    if least <= 0.0:
        return False  # all alike: one all-to-all is the least that can be said
    times = np.rint(carried / least)
    if (np.abs(carried / least - times) > WHOLE * np.maximum(times, 1.0)).any() or not _balanced(low, high, times):
        return False
    members = np.union1d(low, high).size
    rings = float(times.sum()) / members
    order = lgamma(members) / log(2.0)
    both_ways = 0.5 * rings * (order + 1.0)
    more = times > 1.0
    coincidence = -log(2.0 * WHOLE) / log(2.0)
    which = (lgamma(amount.size + 1) - lgamma(more.sum() + 1) - lgamma(amount.size - more.sum() + 1)) / log(2.0)
    return both_ways < coincidence + (order + 1.0 if _is_one_ring(low, high, more, members) else which)


def _balanced(low: Int64, high: Int64, times: Float64) -> bool:
    """Does every member send and receive the same number of rings?"""
    members, ends = np.unique(np.concatenate([low, high]), return_inverse=True)
    sent = np.bincount(ends, times.ravel(), minlength=members.size)
    received = np.bincount(ends, times[::-1].ravel(), minlength=members.size)
    return bool((sent == sent[0]).all() and (received == sent[0]).all())


def _is_one_ring(low: Int64, high: Int64, chosen: Bool, members: int) -> bool:
    """Do the chosen directions of the links (low to high, high to low) make one ring through all, one or both ways?"""
    used, both_used = chosen[0] | chosen[1], chosen[0] & chosen[1]
    both = both_used[used]
    nodes, ends = np.unique(np.concatenate([low[used], high[used]]), return_inverse=True)
    one_component = int(component_labels(nodes.size, ends[: used.sum()], ends[used.sum() :]).max(initial=-1)) == 0
    round_about = nodes.size == members == used.sum() and bool((np.bincount(ends) == 2).all())
    return round_about and one_component and (bool(both.all()) or not both.any())
