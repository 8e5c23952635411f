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

__all__ = ["choose_collectives"]

Odds = Callable[[Bool], Float64]
"""Log odds per link that it is a collective's, when the marked links are taken for rings."""


@dataclass(frozen=True, slots=True)
class _Graph:
    """The links by the numbers of their ends, and which of them surely are collectives."""

    members: int
    low: Int64
    high: Int64
    sure: Bool


def choose_collectives(
    links: Links, sort: Int64, sure: Bool, odds_of: Odds, rules: LayoutRules = RULES
) -> tuple[Bool, Float64]:
    """Which links are collectives', and by how much (log odds) that meaning of their sort is ahead of the other one.

    `sure` links are collectives in every choice.
    """
    members, low, high = links.numbered_ends()
    graph = _Graph(members, low, high, sure)
    doubtful = np.unique(sort[~sure])
    start = odds_of(sure)
    if not doubtful.size:
        return sure.copy(), start
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
    return sure | np.array(best)[place], margin


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
    unexplained = _no_pipelines(graph, collective) + _no_collectives(graph, place, collective, rules.kinds.tree_chain)
    return shown - rules.kinds.impossible * unexplained


def _no_pipelines(graph: _Graph, collective: Bool) -> float:
    """Share of the links called a pipeline's that cannot be: they branch, join members of one group, or make pipelines
    of a length that few others have."""
    rest = np.flatnonzero(~collective)
    if not rest.size:
        return 0.0
    low, high = graph.low[rest], graph.high[rest]
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
    return float(wrong[pipeline[low]].mean())


def _no_collectives(graph: _Graph, place: Int64, collective: Bool, tree: int) -> float:
    """Share of the links of each doubtful sort called a collective's that make chains which no collective takes, in
    sum over the sorts. A chain of `tree` links may be a tree, and so may as many links of a longer one."""
    unexplained = 0.0
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
        unexplained += float(np.where(chain, 1.0 - tree / np.maximum(edges, 1), 0.0)[label[low]].mean())
    return unexplained
