"""Rival meanings of the sorts of links: what the links show, and what the whole graph could be, in one currency.

Each sort of links has log odds of its own (`pair_kinds`): are these links a collective's or a pipeline's? Alone that
is not enough. A pipeline whose passes take a tenth of a network-bound step looks like a burst of gradients, and a tree
of three members takes turns as stages do. But not every answer makes a layout. Pipelines are paths of equal length
between groups that nothing else joins; a collective of two-way links is a pair, a closed ring or a tree, and a chain
of sixteen links is none of these. So the meanings of all doubtful sorts are tried together. Each choice is paid in log
odds: what its links show, given that the collectives of this choice take their part of the step, less a price for the
share of its links that no layout explains. The best choice stands, and how far the next one is behind is its
confidence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import product

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.parallelism.features import Links
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["Choice", "choose_collectives"]

Odds = Callable[[Bool], Float64]
"""Log odds per link that it is a collective's, when the marked links are taken for rings."""


@dataclass(frozen=True, slots=True)
class Choice:
    """Per link: is it a collective's, by how much (log odds) is that meaning of its sort ahead of the other one, and is
    it part of any layout at all: where even the best choice leaves most links of a sort unexplained, nobody knows what
    they are."""

    collective: Bool
    margin: Float64
    fits: Bool


@dataclass(frozen=True, slots=True)
class _Graph:
    """The links by the numbers of their ends, and which of them surely are collectives."""

    members: int
    low: Int64
    high: Int64
    sure: Bool


def choose_collectives(links: Links, sort: Int64, sure: Bool, odds_of: Odds, rules: LayoutRules = RULES) -> Choice:
    """The best meaning of all sorts together; `sure` links are collectives in every choice."""
    members, low, high = links.numbered_ends()
    graph = _Graph(members, low, high, sure)
    doubtful = np.unique(sort[~sure])
    start = odds_of(sure)
    if not doubtful.size:
        return Choice(sure.copy(), start, np.ones_like(sure))
    place = np.searchsorted(doubtful, np.where(sure, doubtful[0], sort))
    scores: dict[tuple[bool, ...], float] = {}

    def score(choice: tuple[bool, ...]) -> float:
        if choice not in scores:
            collective = sure | np.array(choice)[place]
            scores[choice] = _score(graph, place, collective, odds_of(collective), rules)
        return scores[choice]

    first = tuple(bool(start[~sure & (place == i)][0] > 0) for i in range(doubtful.size))
    best = _best(first, score, rules.kinds.most_sorts)
    ahead = [score(best) - max(value for choice, value in scores.items() if choice[i] != best[i])
             for i in range(doubtful.size)]  # fmt: skip
    sign = np.where(best, 1.0, -1.0)
    margin = np.where(sure, start, (sign * np.maximum(ahead, 0.0))[place])
    chosen = sure | np.array(best)[place]
    lost = _false_stages(graph, chosen) + _false_rings(graph, place, chosen, rules.kinds.tree_chain)
    share = np.bincount(place[~sure], lost[~sure]) / np.bincount(place[~sure])
    return Choice(chosen, margin, sure | (share <= rules.kinds.fits_nothing)[place])


def _best(first: tuple[bool, ...], score: Callable[[tuple[bool, ...]], float], most: int) -> tuple[bool, ...]:
    """The choice of the highest score: among all of them, or from the first one on by changing one sort at a time."""
    if len(first) <= most:
        return max(product((False, True), repeat=len(first)), key=lambda choice: (score(choice), choice == first))
    best = first
    while True:
        others = [(*best[:i], not best[i], *best[i + 1 :]) for i in range(len(best))]
        better = max(others, key=score)
        if score(better) <= score(best):
            return best
        best = better


def _score(graph: _Graph, place: Int64, collective: Bool, odds: Float64, rules: LayoutRules) -> float:
    """Log odds of a choice: half of what its sorts show for or against, less what no layout explains."""
    shown = 0.0
    for number in range(int(place.max()) + 1):
        own = np.flatnonzero(~graph.sure & (place == number))
        shown += 0.5 * float(np.where(collective[own[0]], odds[own[0]], -odds[own[0]]))
    stages, chains = _false_stages(graph, collective), _false_rings(graph, place, collective, rules.kinds.tree_chain)
    unexplained = float(stages[~collective].mean()) if not collective.all() else 0.0
    for number in range(int(place.max()) + 1):
        unexplained += float(chains[~graph.sure & (place == number)].mean())
    return shown - rules.kinds.impossible * unexplained


def _false_stages(graph: _Graph, collective: Bool) -> Float64:
    """1 for each link called a pipeline's that cannot be: it branches, joins members of one group, or makes a pipeline
    of a length that few others have; 0 for all others."""
    result = np.zeros(graph.low.size)
    staged_links = np.flatnonzero(~collective)
    if not staged_links.size:
        return result
    low, high = graph.low[staged_links], graph.high[staged_links]
    group = component_labels(graph.members, graph.low[collective], graph.high[collective])
    pipeline = component_labels(graph.members, low, high)
    degree = np.bincount(np.concatenate([low, high]), minlength=graph.members)
    wrong = np.zeros(graph.members, dtype=np.bool_)
    wrong[pipeline[degree > 2]] = True
    wrong[pipeline[low[group[low] == group[high]]]] = True
    staged = degree > 0
    stages, all_of_them = (np.bincount(group, weight, graph.members)[group] for weight in (staged, None))
    wrong[pipeline[staged & (stages < all_of_them)]] = True  # some of its replicas are in no pipeline
    size = np.bincount(pipeline, minlength=graph.members)
    lengths = np.bincount(size[np.unique(pipeline[low])])
    wrong |= (size > 1) & (size != int(np.argmax(lengths * np.arange(lengths.size))))
    result[staged_links] = wrong[pipeline[low]]
    return result


def _false_rings(graph: _Graph, place: Int64, collective: Bool, tree: int) -> Float64:
    """For each link of a doubtful sort called a collective's how much of it makes chains which no collective takes. A
    chain of `tree` links may be a tree, and so may as many links of a longer one."""
    result = np.zeros(graph.low.size)
    for number in range(int(place.max()) + 1):
        own = np.flatnonzero(~graph.sure & (place == number))
        if not collective[own[0]]:
            continue
        low, high = graph.low[own], graph.high[own]
        label = component_labels(graph.members, low, high)
        degree = np.bincount(np.concatenate([low, high]), minlength=graph.members)
        size, edges = np.bincount(label, minlength=graph.members), np.bincount(label[low], minlength=graph.members)
        branches = np.zeros(graph.members, dtype=np.bool_)
        branches[label[degree > 2]] = True
        chain = ~branches & (edges == size - 1) & (edges >= tree)
        result[own] = np.where(chain, 1.0 - tree / np.maximum(edges, 1), 0.0)[label[low]]
    return result
