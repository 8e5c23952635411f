"""Data-parallel or pipeline? Evidence per sort of links, then one consistent answer for the whole graph.

*One sort.* A ring all-reduce (or a sharded gather) of three or more members sends one way only, or both ways over links
that close rings. Where both directions carry the same bytes otherwise, the log odds of the two meanings add up: the two
directions of a pipeline take turns by about a message or more, one of them stays ahead, they are seldom busy together,
and they fill the step; the two directions of a collective do none of these. All of it is measured in messages of the
link itself and put together over all links of the same bytes (`link_evidence`). Sizes of records are not used:
collectors cut and fuse them.

*The graph.* A pipeline has one member of a data-parallel group, never two. So links are accepted from the surest to
the least sure; a data-parallel link between two members of one pipeline, or a pipeline link inside one group, is
refused and takes the other meaning. Before a data-parallel link joins two groups, all links between the two are asked:
where pipelines join them the link is taken for one more pipeline link. One wrong link can therefore not glue two groups
together, as it does in the published refinement, which repairs mistakes of one sort only.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.layout import PairKind
from llmprism.parallelism.channels import amounts_of, branching_links, channel_links
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import LinkEvidence, pooled, profile_of, step_bytes
from llmprism.stats.disjoint_sets import component_labels, root_of

__all__ = ["LinkKinds", "judge_links", "reconcile", "without_false_pipelines"]

TURNS: Final = 0.45
"""Messages by which the profiles of the two directions differ where both kinds are equally likely: at least one
micro-batch is under way in a pipeline (0.65 and more in real captures), collectives stay below 0.3 in the median."""

TURNS_ODDS: Final = 2.0
"""Log odds for each doubling of the turns."""

MOST_TURNS_ODDS: Final = 3.0
"""And at most."""

LEAD: Final = 0.5
"""Messages by which one direction stays ahead where both kinds are equally likely: half a message."""

TOGETHER: Final = 0.25
"""Share of time at which both directions are busy where both kinds are equally likely (collectives 0.33-1.0, pipelines
up to 0.17, or 0.95 where both directions are sent in one batch); a weak witness."""

ONE_WAY_ODDS: Final = 4.0
"""Log odds for data parallelism of a one-way link, or of one in closed two-way rings: only unusual traffic is so and
not a collective."""

BURST: Final = 0.2
"""Share of the step: a link both of whose directions are confined to it is no pipeline's. The passes of real and
simulated pipelines take 0.4 and more, trees that are not overlapped with the backward pass up to 0.15."""

BURST_ODDS: Final = 3.0
"""Log odds for data parallelism of a link that sends in one burst: a pipeline of tiny passes and long synchronisations
could do so too."""

NARROW: Final = 0.45
"""Share of the step from which on the width of a link says nothing; pipelines fill 0.39 and more."""

NARROW_ODDS: Final = 2.0
"""Log odds for data parallelism of a link that is hardly wider than a burst."""

ENDS_TOGETHER: Final = 0.003
"""Share of the time that a link takes, within which its two directions end: collectives 0.0-0.002 where nothing else
disturbs them, pipelines 0.005 and more unless a collective of tied embeddings follows on the same link."""

ENDS_ODDS: Final = 2.0
"""Log odds for data parallelism of a link whose directions end together."""

RINGS_APART: Final = 0.1
"""Kolmogorov distance between the profiles of the one-way rings of a link's two ends where both kinds are equally
likely. Stages synchronise one after the other (0.14 and more in the median of real and simulated pipelines); replicas
of shards do the same at the same time (0.07 and less)."""

RINGS_ODDS: Final = 3.0
"""Log odds for each doubling of that distance, and at most."""

AVOIDED: Final = 1.5
"""How many times more of a link's bytes than by chance pass while the rings of its ends are silent, from which on that
tells. Collectives of all sources stay below 1.4; passes of network-bound jobs, whose rings are busy for most of the
step, reach 4 to 6."""

AVOIDED_ODDS: Final = 3.0
"""Log odds for a pipeline for each doubling of that."""

QUIET: Final = 0.1
"""Share of their mean rate up to which the rings are silent."""


@dataclass(frozen=True, slots=True)
class LinkKinds:
    """Per link: its kind, how sure, whether it is one-way, and (pipeline links) whether `there` is forward."""

    kind: Int8
    confidence: Float64
    one_way: Bool

    def only(self, chosen: Bool) -> LinkKinds:
        return LinkKinds(self.kind[chosen], self.confidence[chosen], self.one_way[chosen])


def judge_links(links: Links, features: PairFeatures, shown: LinkEvidence) -> LinkKinds:
    """Each sort of links on its own evidence."""
    turns = np.clip(TURNS_ODDS * np.log2((shown.turns + 0.02) / TURNS), -MOST_TURNS_ODDS, MOST_TURNS_ODDS)
    lead = np.clip((shown.lead - LEAD) / LEAD, -1.0, 1.0)
    together = np.clip((TOGETHER - shown.together) / TOGETHER, -1.0, 1.0)
    apart = pooled(_rings_apart(features, links, shown.one_way), shown.sort)
    rings = np.where(
        apart > 0, np.clip(RINGS_ODDS * np.log2((apart + 0.005) / RINGS_APART), -RINGS_ODDS, RINGS_ODDS), 0
    )
    avoided, left = (pooled(value, shown.sort) for value in _beside_rings(features, links, shown))
    passes = np.where(avoided >= AVOIDED, np.minimum(AVOIDED_ODDS * np.log2(np.maximum(avoided, 1.0)), 6.0), 0.0)
    width = np.where(avoided >= AVOIDED, shown.width / np.maximum(left, 1e-9), shown.width)
    ended = np.where(shown.ends_apart <= ENDS_TOGETHER, ENDS_ODDS, 0.0)
    narrow = NARROW_ODDS * np.clip((NARROW - width) / (NARROW - BURST), 0.0, 1.0)
    odds = ended + narrow - (turns + lead + together + rings + passes)
    odds = np.where(width <= BURST, np.maximum(odds, BURST_ODDS), odds)
    amounts = amounts_of(links, features)
    collective = shown.one_way | shown.closed | channel_links(links, amounts) | branching_links(links, amounts)
    odds = np.where(collective, ONE_WAY_ODDS, np.clip(odds, -6.0, 6.0))
    kind = np.where(odds > 0, PairKind.DP, PairKind.PP).astype(np.int8)
    return LinkKinds(kind, 1.0 / (1.0 + np.exp(-np.abs(odds))), shown.one_way)


def _rings_apart(features: PairFeatures, links: Links, one_way: Bool) -> Float64:
    """Distance between the profiles of the one-way links at a link's two ends; NaN where either end has none."""
    members, low, high = links.numbered_ends()
    own = _over_the_step(features, links.there) + _over_the_step(features, links.back)
    rings = np.zeros((members, features.profile.shape[1]))
    for end in (low, high):
        np.add.at(rings, end[one_way], own[one_way])
    known = (rings[low].any(axis=1)) & (rings[high].any(axis=1))
    result = np.full(links.low.size, np.nan)
    gap = _distribution(rings[low[known]]) - _distribution(rings[high[known]])
    result[known] = np.abs(gap).max(axis=1, initial=0.0)
    return result


def _beside_rings(features: PairFeatures, links: Links, shown: LinkEvidence) -> tuple[Float64, Float64]:
    """How many times more than by chance of each link's bytes pass while the rings of its two ends are silent, and
    which share of the step that is; NaN where its ends have no rings, which surely are collectives.

    Gradients that fill the step leave the passes of a pipeline little of it, and these keep to what is left.
    """
    members, low, high = links.numbered_ends()
    sure = shown.one_way | shown.closed
    own = _over_the_step(features, links.there) + _over_the_step(features, links.back)
    rings = np.zeros((members, features.profile.shape[1]))
    for end in (low, high):
        np.add.at(rings, end[sure], own[sure])
    both = rings[low] + rings[high]
    silent = both <= QUIET * both.mean(axis=1, keepdims=True)
    left = np.where(both.any(axis=1) & ~sure, silent.mean(axis=1), np.nan)
    share = (own * silent).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-9)
    return share / np.maximum(left, 1.0 / features.profile.shape[1]), left


def _distribution(profile: Float64) -> Float64:
    total = np.cumsum(profile, axis=1)
    return total / np.maximum(total[:, -1:], 1e-9)


def _over_the_step(features: PairFeatures, pair: Int32) -> Float64:
    """Bytes per slot of the step."""
    return profile_of(features, pair) * step_bytes(features, pair)[:, None]


@kernel
def _votes(first: int, peers: int, parent: Int64, following: Int64, vote: Float64, low: Int64, high: Int64,
           offsets: Int64, incident: Int64) -> float:  # fmt: skip
    """Sum of the votes of all links between the set that holds `first` and the one whose root is `peers`."""
    total, node = 0.0, first
    while True:
        for link in incident[offsets[node] : offsets[node + 1]]:
            if root_of(parent, low[link] + high[link] - node) == peers:
                total += vote[link]
        node = following[node]
        if node == first:
            return total


@kernel
def _accept(order: Int64, low: Int64, high: Int64, kind: Int8, vote: Float64, offsets: Int64, incident: Int64,
            dp: int, pp: int, other: int) -> Int8:  # fmt: skip
    """The kinds that stand. `vote` is the log odds for data parallelism; `following` runs round a set."""
    nodes = offsets.size - 1
    group, pipeline, following = np.arange(nodes), np.arange(nodes), np.arange(nodes)
    result, refused = kind.copy(), np.empty(order.size, dtype=np.int64)
    count = 0
    for link in order:
        a, b = low[link], high[link]
        group_a, group_b = root_of(group, a), root_of(group, b)
        same_pipeline = root_of(pipeline, a) == root_of(pipeline, b)
        if kind[link] == dp and same_pipeline:
            result[link] = other
        elif kind[link] == dp and group_a != group_b:
            if _votes(a, group_b, group, following, vote, low, high, offsets, incident) > 0.0:
                group[group_a] = group_b
                following[a], following[b] = following[b], following[a]
            else:
                refused[count] = link
                count += 1
        elif kind[link] == pp and group_a == group_b:
            result[link] = dp
        elif kind[link] == pp:
            pipeline[root_of(pipeline, a)] = root_of(pipeline, b)
    for link in refused[:count]:  # others may have joined the two groups meanwhile
        if root_of(group, low[link]) != root_of(group, high[link]):
            result[link] = pp
            pipeline[root_of(pipeline, low[link])] = root_of(pipeline, high[link])
    for link in order:  # the pipeline may have been joined after the link was accepted
        if result[link] == dp and kind[link] == dp and root_of(pipeline, low[link]) == root_of(pipeline, high[link]):
            result[link] = other
    return result


def reconcile(links: Links, judged: LinkKinds) -> LinkKinds:
    """One consistent answer: data-parallel links refused inside a pipeline become `other`, between groups pipeline
    links; refused pipeline links become data-parallel."""
    members, low, high = links.numbered_ends()
    order = np.argsort(-judged.confidence, kind="stable")
    doubt = np.maximum(1.0 - judged.confidence, 1e-9)
    vote = np.log(judged.confidence / doubt) * np.where(judged.kind == PairKind.DP, 1.0, -1.0)
    ends = np.concatenate([low, high])
    by_node = np.argsort(ends, kind="stable")
    offsets = np.searchsorted(ends[by_node], np.arange(members + 1))
    kind = _accept(
        order, low, high, judged.kind, vote, offsets, by_node % max(links.low.size, 1),
        int(PairKind.DP), int(PairKind.PP), int(PairKind.OTHER),
    )  # fmt: skip
    confidence = np.where(kind == judged.kind, judged.confidence, 1.0 - judged.confidence)
    return LinkKinds(kind, confidence, judged.one_way)


def without_false_pipelines(links: Links, kinds: LinkKinds) -> LinkKinds:
    """Pipeline links that cannot be: a stage has two neighbours at most, and the peers of a stage are stages too.

    The branches of a tree all-reduce go up, then down, as activations and gradients do; but trees branch, and some of
    their links are plainly collective. The links of such components are collectives.
    """
    kind = kinds.kind.copy()
    chosen = np.flatnonzero(kind == PairKind.PP)
    if not chosen.size:
        return kinds
    members, low, high = links.numbered_ends()
    component = component_labels(members, low[chosen], high[chosen])
    degree = np.bincount(np.concatenate([low[chosen], high[chosen]]), minlength=members)
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
    return LinkKinds(kind, confidence, kinds.one_way)
