"""Collectives that no pipeline can look like: rings in several orders over one group, trees and other branching links.

*Channels.* Libraries send one collective over several rings, each in an order of its own. The links of such a group are
one-way here and two-way there, and carry one, two or three times the same bytes; link by link they look like pipelines
now and like rings then. But the bytes of all of them are whole multiples of what one ring carries, and every member
sends and receives the same number of these. Each ring leaves any two members at least once, so a link carries no more
than that number in both directions together. Where pipelines happen to do the same, their links still join groups that
nothing else joins. So rings in several orders are meant where no sort of links could be a pipeline's.

*Branches.* A stage has two neighbours at most. Where a member exchanges exactly the same bytes with three and more
others, none of these links is a pipeline's.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import step_bytes
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["Amounts", "amounts_of", "branching_links", "channel_links"]


@dataclass(frozen=True, slots=True)
class Amounts:
    """Per link the bytes per step of both directions, and the share of them by which they may be off."""

    there: Float64
    back: Float64
    error: Float64


def amounts_of(links: Links, features: PairFeatures, rules: LayoutRules = RULES) -> Amounts:
    rule = rules.kinds
    spread = np.zeros(links.low.size)
    for side in (links.there, links.back):
        spread = np.maximum(spread, np.where(side >= 0, features.step_spread[side], 0.0))
    there, back = step_bytes(features, links.there), step_bytes(features, links.back)
    return Amounts(there, back, np.clip(rule.amount_spreads * spread, rule.same_amount, rule.blurred_amount))


def channel_links(links: Links, amounts: Amounts, rules: LayoutRules = RULES) -> Bool:
    """Links of groups that rings in several orders explain."""
    found = np.zeros(links.low.size, dtype=np.bool_)
    _, low, high = links.numbered_ends()
    for one in _frequent(np.concatenate([amounts.there, amounts.back]), rules):
        there, back = np.rint(amounts.there / one), np.rint(amounts.back / one)
        fits = np.maximum(there, back) >= 1
        for times, size in ((there, amounts.there), (back, amounts.back)):
            fits &= (np.abs(size - times * one) <= amounts.error * np.maximum(times, 1.0) * one) & (
                times <= rules.kinds.most_orders
            )
        own = np.flatnonzero(fits)
        if own.size >= rules.kinds.least_rings and not found[own].all():
            found[own] |= _balanced(low[own], high[own], there[own], back[own], rules)
    return found


def _frequent(amount: Float64, rules: LayoutRules) -> Float64:
    """The amounts that occur several times."""
    ordered = np.sort(amount[amount > 1.0])
    if not ordered.size:
        return ordered
    first = np.concatenate([[0], np.flatnonzero(np.diff(np.log(ordered)) > rules.kinds.same_amount) + 1])
    size = np.diff(np.append(first, ordered.size))
    often = np.argsort(-size, kind="stable")[: rules.kinds.most_amounts]
    often = often[size[often] > 1]
    return np.array([np.median(ordered[first[k] : first[k] + size[k]]) for k in often])


def _balanced(low: Int64, high: Int64, there: Float64, back: Float64, rules: LayoutRules) -> Bool:
    """Links of the components in which everybody sends and receives the same number of rings, three and more, no link
    carries more than that in both directions together, and no sort of links could be a pipeline's."""
    members = int(max(low.max(), high.max())) + 1
    sent = np.bincount(low, there, minlength=members) + np.bincount(high, back, minlength=members)
    received = np.bincount(high, there, minlength=members) + np.bincount(low, back, minlength=members)
    label = component_labels(members, low, high)
    least, most = np.full(members, np.inf), np.zeros(members)
    for count in (sent, received):
        np.minimum.at(least, label, count)
        np.maximum.at(most, label, count)
    np.maximum.at(most, label[low], there + back)
    even = (least == most) & (least >= rules.kinds.least_rings)
    for times in np.unique(there[there == back]):
        even[_pipelines_between(low, high, (there == times) & (back == times), label)] = False
    result: Bool = even[label[low]]
    return result


def _pipelines_between(low: Int64, high: Int64, chosen: Bool, label: Int64) -> Int64:
    """The components in which the `chosen` links could be pipelines: nobody has more than two of them, some members
    have one (the ends), and each joins members that the other links do not join."""
    groups = component_labels(label.size, low[~chosen], high[~chosen])
    a, b = low[chosen], high[chosen]
    count = np.bincount(np.concatenate([a, b]), minlength=label.size)
    wrong = np.concatenate([label[count > 2], label[a[groups[a] == groups[b]]]])
    return np.setdiff1d(label[count == 1], wrong)


def branching_links(links: Links, amounts: Amounts, sort: Int64) -> Bool:
    """Two-way links that are joined to a member with three and more such links of the same sort and exactly the same
    bytes."""
    amount = np.maximum(amounts.there, amounts.back)
    two_way = np.flatnonzero((np.abs(amounts.there - amounts.back) <= amounts.error * amount) & (amount > 1.0))
    found = np.zeros(links.low.size, dtype=np.bool_)
    if not two_way.size:
        return found
    members, low, high = links.numbered_ends()
    order = two_way[np.lexsort((amount[two_way], sort[two_way]))]
    new = (np.abs(np.diff(np.log(amount[order]))) > amounts.error[order[1:]]) | (np.diff(sort[order]) != 0)
    same = np.concatenate([[0], np.cumsum(new)])
    ends = np.concatenate([same * members + low[order], same * members + high[order]])
    nodes, index = np.unique(ends, return_inverse=True)
    label = component_labels(nodes.size, index[: order.size], index[order.size :])
    branches = np.zeros(int(label.max()) + 1, dtype=np.bool_)
    branches[label[np.bincount(index) > 2]] = True
    found[order] = branches[label[index[: order.size]]]
    return found
