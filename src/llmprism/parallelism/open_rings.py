"""Rings of gradients whose hops are shared with something else.

A ring sends one way, and every member passes on what it gets. Where context-parallel or expert-parallel ranks are
neighbours on the ring of their gradients, the hop between them also carries their exchange, both ways and often many
times as much; by itself it looks like a link between two stages. But the other hops of the ring then make open paths: a
member that receives and sends nothing on, another that sends and receives nothing. The link between such two members,
which carries more one way than the other by just what the ring carries, is the missing hop. Nothing in training ends
like this, so all ends of the paths of one ring find each other, or none.

*Both ways.* Rings that go both ways round leave no such ends. But all hops of a ring carry the same; a closed ring in
which every member has one neighbour of less bytes and one of more is a ring of gradients in which every second hop is
shared. Pipelines do not close like this, except two replicas of two stages, and those are left to the evidence of their
links.

A ring and the exchange of its neighbours cannot be a pipeline: members of one ring hold the same weights.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.parallelism.channels import Amounts
from llmprism.parallelism.features import Links
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["SharedHops", "shared_hops"]


@dataclass(frozen=True, slots=True)
class SharedHops:
    """Links that are a hop of a ring and carry an exchange besides; `upward` says that the hop goes from low to high
    (the heavier way, where it goes both), `ring` what it carries of the link's bytes per step, `pure` which links are
    hops and nothing else, `both_ways` that the ring goes round both ways."""

    links: Bool
    upward: Bool
    ring: Float64
    pure: Bool
    both_ways: Bool


def shared_hops(links: Links, amounts: Amounts, one_way: Bool, rules: LayoutRules = RULES) -> SharedHops:
    none = np.zeros(links.low.size, dtype=np.bool_)
    found = SharedHops(none.copy(), none.copy(), np.zeros(links.low.size), none.copy(), none.copy())
    members, low, high = links.numbered_ends()
    hops = np.flatnonzero(one_way)
    level = np.log(np.maximum(np.maximum(amounts.there, amounts.back), 1e-9))
    hops = hops[np.argsort(level[hops], kind="stable")]
    for own in np.split(hops, np.flatnonzero(np.diff(level[hops]) > rules.kinds.same_bytes) + 1):
        if own.size:
            _close(members, low, high, amounts, own, found, rules)
    if not found.links.any():
        _close_both_ways(members, low, high, amounts, np.flatnonzero(~one_way), found, rules)
    return found


def _close_both_ways(
    members: int, low: Int64, high: Int64, amounts: Amounts, two_way: Int64, found: SharedHops, rules: LayoutRules
) -> None:
    """Marks the heavier of the links that close rings in turn with lighter ones."""
    level = np.log(np.maximum(np.maximum(amounts.there, amounts.back), 1e-9))
    order = two_way[np.argsort(level[two_way], kind="stable")]
    sorts = [
        own
        for own in np.split(order, np.flatnonzero(np.diff(level[order]) > rules.kinds.same_bytes) + 1)
        if own.size > 2
    ]
    for light, heavy in combinations(sorts[: rules.kinds.ring_sorts], 2):
        ends = [np.concatenate([low[own], high[own]]) for own in (light, heavy)]
        count = [np.bincount(own, minlength=members) for own in ends]
        if light.size != heavy.size or max(count[0].max(), count[1].max()) > 1 or (count[0] != count[1]).any():
            continue
        both = np.concatenate([light, heavy])
        label = component_labels(members, low[both], high[both])
        if np.bincount(label[low[both]])[label[low[both]]].min() < rules.kinds.least_ring:
            continue
        ring = float(np.median(np.maximum(amounts.there[light], amounts.back[light])))
        found.links[heavy] = found.pure[light] = found.both_ways[both] = True
        found.upward[heavy] = amounts.there[heavy] >= amounts.back[heavy]
        found.ring[heavy] = ring
        return


def _close(
    members: int, low: Int64, high: Int64, amounts: Amounts, own: Int64, found: SharedHops, rules: LayoutRules
) -> None:
    """Marks the shared hops of the rings of these one-way links, if they close all of their open paths."""
    rule = rules.kinds
    upward = amounts.there[own] > amounts.back[own]
    src, dst = np.where(upward, low[own], high[own]), np.where(upward, high[own], low[own])
    sends, receives = np.bincount(src, minlength=members), np.bincount(dst, minlength=members)
    if sends.max() > 1 or receives.max() > 1:
        return  # several rings of one amount
    first, last = (sends == 1) & (receives == 0), (sends == 0) & (receives == 1)
    if not first.any():
        return
    ring = float(np.median(np.maximum(amounts.there[own], amounts.back[own])))
    fits_up = last[low] & first[high] & (amounts.there >= (1.0 - rule.ring_adds) * ring)
    fits_down = last[high] & first[low] & (amounts.back >= (1.0 - rule.ring_adds) * ring)
    more = np.where(fits_up, amounts.there - amounts.back, amounts.back - amounts.there) / ring
    tried = np.flatnonzero((fits_up ^ fits_down) & (np.minimum(amounts.there, amounts.back) > 0.0))
    tried = tried[np.argsort(np.abs(more[tried] - 1.0), kind="stable")]
    chosen, taken = [], set[tuple[str, int]]()
    for link in tried.tolist():  # the nearest to what the ring adds comes first; every end is joined once
        end, start = (low[link], high[link]) if fits_up[link] else (high[link], low[link])
        if ("end", int(end)) not in taken and ("start", int(start)) not in taken:
            taken |= {("end", int(end)), ("start", int(start))}
            chosen.append(link)
    if len(chosen) < rule.joined_ends * first.sum() or len(chosen) < 1 or np.median(more[chosen]) < rule.ring_adds:
        return
    found.links[chosen] = True
    found.upward[chosen] = fits_up[chosen]
    found.ring[chosen] = ring
    found.pure[own] = True
