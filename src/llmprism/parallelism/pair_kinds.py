"""Data-parallel or pipeline? Evidence per link, then one consistent answer for the whole graph.

*One link.* A ring all-reduce (or a sharded gather) of three or more members sends one way only. Where both directions
carry the same bytes, the two are told apart by their profiles over the step: the two directions of a collective flow
together, activations and gradients take turns. Sizes are not used: collectors cut and fuse them.

*The graph.* A pipeline has one member of a data-parallel group, never two. So links are accepted from the surest to
the least sure; a data-parallel link between two members of one pipeline, or a pipeline link inside one group, is
refused and takes the other meaning. One wrong link can therefore not glue two groups together, as it does in the
published refinement, which repairs mistakes of one sort only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numba
import numpy as np
from numpy.typing import NDArray

from llmprism.model.layout import PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.stats.disjoint_sets import component_labels

Float64 = NDArray[np.float64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]
Int8 = NDArray[np.int8]
Bool = NDArray[np.bool_]

__all__ = ["LinkKinds", "judge_links", "reconcile", "without_false_pipelines"]

ONE_WAY: Final = 0.3
"""A link whose lesser direction carries less than this share of the greater one is one-way."""

PROFILE_DISTANCE: Final = 0.06
"""Kolmogorov distance of the two directions' profiles where both kinds are equally likely: collectives reach 0.02,
pipelines start at 0.11 in real captures."""

PROFILE_SCALE: Final = 0.015
"""Distance that changes the odds by a factor e."""

SIMULTANEITY: Final = 0.25
"""Share of time both directions are busy where both kinds are equally likely (collectives 0.33-0.75, pipelines up to
0.17 in real captures); a weaker witness than the profiles because retransmissions and bandwidth change it."""

SIMULTANEITY_SCALE: Final = 0.15

ONE_WAY_ODDS: Final = 4.0
"""Log odds for data parallelism of a one-way link: only unusual traffic is one-way and not a collective."""


@dataclass(frozen=True, slots=True)
class LinkKinds:
    """Per link: its kind, how sure, whether it is one-way, and (pipeline links) whether `there` is forward."""

    kind: Int8
    confidence: Float64
    one_way: Bool
    distance: Float64


def judge_links(links: Links, features: PairFeatures, together: Float64) -> LinkKinds:
    """Each link on its own evidence; `together` is the simultaneity of the two directions."""
    there = _step_bytes(features, links.there)
    back = _step_bytes(features, links.back)
    one_way = np.minimum(there, back) < ONE_WAY * np.maximum(there, back)
    distance = np.abs(_cumulative(features, links.there) - _cumulative(features, links.back)).max(axis=1, initial=0.0)
    odds = (PROFILE_DISTANCE - distance) / PROFILE_SCALE + (together - SIMULTANEITY) / SIMULTANEITY_SCALE
    odds = np.where(one_way, ONE_WAY_ODDS, np.clip(odds, -6.0, 6.0))
    kind = np.where(odds > 0, PairKind.DP, PairKind.PP).astype(np.int8)
    return LinkKinds(kind, 1.0 / (1.0 + np.exp(-np.abs(odds))), one_way, distance)


def _step_bytes(features: PairFeatures, pair: Int32) -> Float64:
    amount = np.where(features.step_bytes > 0, features.step_bytes, features.total_bytes * 1e-9)
    return np.where(pair >= 0, amount[pair], 0.0)


def _cumulative(features: PairFeatures, pair: Int32) -> Float64:
    return np.cumsum(np.where(pair[:, None] >= 0, features.profile[pair], 0.0), axis=1)


@numba.njit(cache=True)
def _root(parent: Int64, node: int) -> int:
    while parent[node] != node:
        parent[node] = parent[parent[node]]
        node = parent[node]
    return node


@numba.njit(cache=True)
def _accept(order: Int64, low: Int64, high: Int64, kind: Int8, nodes: int, dp: int, pp: int, other: int) -> Int8:
    group, pipeline = np.arange(nodes), np.arange(nodes)
    result = kind.copy()
    for link in order:
        a, b = low[link], high[link]
        same_group = _root(group, a) == _root(group, b)
        same_pipeline = _root(pipeline, a) == _root(pipeline, b)
        if kind[link] == dp and same_pipeline:
            result[link] = other
        elif kind[link] == dp:
            group[_root(group, a)] = _root(group, b)
        elif kind[link] == pp and same_group:
            result[link] = dp
        elif kind[link] == pp:
            pipeline[_root(pipeline, a)] = _root(pipeline, b)
    return result


def reconcile(links: Links, judged: LinkKinds) -> LinkKinds:
    """One consistent answer: refused data-parallel links become `other`, refused pipeline links become DP."""
    members, ends = np.unique(np.concatenate([links.low, links.high]), return_inverse=True)
    low, high = ends[: links.low.size], ends[links.low.size :]
    order = np.argsort(-judged.confidence, kind="stable")
    kind = _accept(order, low, high, judged.kind, members.size, int(PairKind.DP), int(PairKind.PP), int(PairKind.OTHER))
    confidence = np.where(kind == judged.kind, judged.confidence, 1.0 - judged.confidence)
    return LinkKinds(kind, confidence, judged.one_way, judged.distance)


def without_false_pipelines(links: Links, kinds: LinkKinds) -> LinkKinds:
    """Pipeline links that cannot be: a stage has two neighbours at most, and the peers of a stage are stages too.

    The branches of a tree all-reduce go up, then down, as activations and gradients do; but trees branch, and some of
    their links are plainly collective. The links of such components are collectives.
    """
    kind = kinds.kind.copy()
    chosen = np.flatnonzero(kind == PairKind.PP)
    if not chosen.size:
        return kinds
    members, ends = np.unique(np.concatenate([links.low, links.high]), return_inverse=True)
    low, high = ends[: links.low.size], ends[links.low.size :]
    component = component_labels(members.size, low[chosen], high[chosen])
    degree = np.bincount(np.concatenate([low[chosen], high[chosen]]), minlength=members.size)
    false = np.zeros(int(component.max()) + 1, dtype=np.bool_)
    false[component[degree > 2]] = True
    collective = np.flatnonzero(kind == PairKind.DP)
    a, b = low[collective], high[collective]
    for here, there in ((a, b), (b, a)):
        false[component[here[(degree[here] > 0) & (degree[there] == 0)]]] = True
    wrong = chosen[false[component[low[chosen]]]]
    kind[wrong] = PairKind.DP
    confidence = kinds.confidence.copy()
    confidence[wrong] = 0.6
    return LinkKinds(kind, confidence, kinds.one_way, kinds.distance)
