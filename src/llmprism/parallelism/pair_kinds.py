"""Data-parallel or pipeline? Evidence per sort of links, then one consistent answer for the whole graph.

*One sort.* A ring all-reduce (or a sharded gather) of three or more members sends one way only, or both ways over links
that close rings. Where both directions carry the same bytes otherwise, the log odds of the two meanings add up: the two
directions of a pipeline take turns by about a message or more, one of them stays ahead, they are seldom busy together,
and they fill the step; the two directions of a collective do none of these. All of it is measured in messages of the
link itself and put together over all links of the same bytes (`link_evidence`). Sizes of records are not used:
collectors cut and fuse them.

*The graph.* A pipeline has one member of a data-parallel group, never two. So links are accepted from the surest to the
least sure; a data-parallel link between two members of one pipeline, or a pipeline link inside one group, is refused
and takes the other meaning. Before a data-parallel link joins two groups, all links between the two are examined: where
pipelines join them the link is taken for one more pipeline link. One wrong link can therefore not glue two groups
together, as it does in the published refinement, which repairs mistakes of one sort only.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.layout import PairKind
from llmprism.parallelism.channels import amounts_of, branching_links, channel_links
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import LinkEvidence, pooled, profile_of, step_bytes
from llmprism.parallelism.rival_kinds import choose_collectives
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.chain_bound import ROUNDING
from llmprism.stats.disjoint_sets import component_labels, root_of

__all__ = ["LinkKinds", "judge_links", "reconcile", "without_false_pipelines"]


@dataclass(frozen=True, slots=True)
class LinkKinds:
    """Per link: its kind, how sure, whether it is one-way, and whether its sort fits into any layout."""

    kind: Int8
    confidence: Float64
    one_way: Bool
    fits: Bool

    def only(self, chosen: Bool) -> LinkKinds:
        return LinkKinds(self.kind[chosen], self.confidence[chosen], self.one_way[chosen], self.fits[chosen])

    def as_collectives(self, chosen: Bool, rules: LayoutRules = RULES) -> LinkKinds:
        """The kinds, those of some links made collectives: something else has told what they are."""
        kind = np.where(chosen, PairKind.DP, self.kind).astype(np.int8)
        confidence = np.where(chosen, rules.kinds.mesh_confidence, self.confidence)
        return LinkKinds(kind, confidence, self.one_way, self.fits | chosen)


def judge_links(links: Links, features: PairFeatures, shown: LinkEvidence, rules: LayoutRules = RULES) -> LinkKinds:
    """Each sort of links on its own evidence, and all sorts together by what the graph could be (`rival_kinds`)."""
    amounts = amounts_of(links, features, rules)
    branching = branching_links(links, amounts, shown.sort)
    collective = shown.one_way | shown.closed | channel_links(links, amounts, rules) | branching
    ends = _EndsOfLinks.of(links, features)
    apart = pooled(_rings_apart(ends, shown.one_way), shown.sort)

    def odds_of(rings: Bool) -> Float64:
        odds = _odds(ends, shown, apart, rings & ~collective, rules)
        return np.where(
            collective, rules.kinds.one_way_odds, np.clip(odds, -rules.kinds.surest_odds, rules.kinds.surest_odds)
        )

    choice = choose_collectives(links, shown.sort, collective, odds_of, rules)
    kind = np.where(choice.collective, PairKind.DP, PairKind.PP).astype(np.int8)
    return LinkKinds(kind, 1.0 / (1.0 + np.exp(-np.abs(choice.margin))), shown.one_way, choice.fits)


@dataclass(frozen=True, slots=True)
class _EndsOfLinks:
    """How many members the links have, the numbers of their low and high ends, and the bytes of both directions in each
    slot of the step (rows are links)."""

    members: int
    low: Int64
    high: Int64
    sent: Float64

    @classmethod
    def of(cls, links: Links, features: PairFeatures) -> _EndsOfLinks:
        sent = _over_the_step(features, links.there) + _over_the_step(features, links.back)
        return cls(*links.numbered_ends(), sent)

    def alone(self, sort: Int64) -> Bool:
        """Links of sorts no two of whose links share an end."""
        shared = np.zeros(int(sort.max(initial=-1)) + 1, dtype=np.bool_)
        ends = np.concatenate([sort * self.members + self.low, sort * self.members + self.high])
        _, first, count = np.unique(ends, return_index=True, return_counts=True)
        shared[np.concatenate([sort, sort])[first[count > 1]]] = True
        return ~shared[sort]

    def rings(self, marked: Bool) -> Float64:
        """What the marked links of each member send in each slot."""
        return _sums_of_ends(self.low, self.high, marked, self.sent, self.members)


def _odds(ends: _EndsOfLinks, shown: LinkEvidence, apart: Float64, supposed: Bool, rules: LayoutRules) -> Float64:
    """Log odds that links are collectives', from what they show; `supposed` marks the doubtful links that are taken for
    rings, `apart` says how far the rings of the two ends are apart (`_rings_apart`)."""
    rule = rules.kinds
    turns = np.clip(
        rule.turns_odds * np.log2((shown.turns + rule.turns_noise) / rule.turns),
        -rule.most_turns_odds,
        rule.most_turns_odds,
    )
    lead = np.clip((shown.lead - rule.lead_messages) / rule.lead_messages, -1.0, 1.0)
    together = np.clip((rule.together - shown.together) / rule.together, -1.0, 1.0)
    rings = np.where(
        apart > 0,
        np.clip(
            rule.rings_odds * np.log2((apart + rule.rings_noise) / rule.rings_apart), -rule.rings_odds, rule.rings_odds
        ),
        0,
    )
    sure = shown.one_way | shown.closed
    avoided, left = (pooled(value, shown.sort) for value in _outside_rings(ends, sure, supposed, rules))
    passes = np.where(
        avoided >= rule.avoided,
        np.minimum(rule.avoided_odds * np.log2(np.maximum(avoided, 1.0)), rule.surest_odds),
        0.0,
    )
    width = np.where(avoided >= rule.avoided, shown.width / np.maximum(left, 1e-9), shown.width)
    ended = np.where(shown.ends_apart <= rule.ends_together, rule.ends_odds, 0.0)
    narrow = rule.narrow_odds * np.clip((rule.narrow - width) / (rule.narrow - rule.burst), 0.0, 1.0)
    odds = ended + narrow - (turns + lead + together + rings + passes)
    odds = np.where(width <= rule.burst, np.maximum(odds, rule.burst_odds), odds)
    alone = shown.passing & ends.alone(shown.sort)
    besides = np.where(alone, np.minimum(odds, 0.0), odds)  # a collective may share the link of two stages
    return besides - np.where(alone, rule.passing_odds, np.where(shown.passing, rule.passing_tree_odds, 0.0))


def _rings_apart(ends: _EndsOfLinks, one_way: Bool) -> Float64:
    """Distance between the profiles of the one-way links at a link's two ends; NaN where either end has none."""
    low, high, rings = ends.low, ends.high, ends.rings(one_way)
    any_ring: Bool = np.asarray(rings.any(axis=1))
    known = any_ring[low] & any_ring[high]
    result = np.full(low.size, np.nan)
    gap = _distribution(rings[low[known]]) - _distribution(rings[high[known]])
    result[known] = np.abs(gap).max(axis=1, initial=0.0)
    return result


def _outside_rings(ends: _EndsOfLinks, sure: Bool, supposed: Bool, rules: LayoutRules) -> tuple[Float64, Float64]:
    """How many times more than by chance of each link's bytes pass while the rings of its two ends are silent, and
    which share of the step that is; NaN where its ends have no rings.

    Gradients that fill the step leave the passes of a pipeline little of it, and these keep to what is left. So may
    gradients between passes that fill the step, with their pauses: links that are only `supposed` to be rings count
    where they carry far more than the link itself.
    """
    low, high, own = ends.low, ends.high, ends.sent
    both = np.zeros_like(own)
    for marked, heavier in ((sure, 0.0), (supposed & ~sure, rules.kinds.far_more)):
        if not marked.any():
            continue
        rings = ends.rings(marked)
        of_rings = rings[low] + rings[high]
        both += np.where((of_rings.sum(axis=1) > heavier * own.sum(axis=1))[:, None], of_rings, 0.0)
    silent = both <= rules.kinds.rings_quiet * both.mean(axis=1, keepdims=True)
    left = np.where(both.any(axis=1) & ~sure & ~supposed, silent.mean(axis=1), np.nan)
    share = (own * silent).sum(axis=1) / np.maximum(own.sum(axis=1), 1e-9)
    return share / np.maximum(left, 1.0 / own.shape[1]), left


def _sums_by_arrays(low: Int64, high: Int64, marked: Bool, values: Float64, members: int) -> Float64:
    """The kernel below without a loop."""
    sums = np.zeros((members, values.shape[1]))
    for end in (low, high):
        np.add.at(sums, end[marked], values[marked])
    return sums


@kernel(by_arrays=_sums_by_arrays)
def _sums_of_ends(low: Int64, high: Int64, marked: Bool, values: Float64, members: int) -> Float64:
    """For each member the sum of the values (rows) of the marked links that it is an end of, low ends first."""
    sums = np.zeros((members, values.shape[1]))
    for ends in (low, high):
        for link in range(marked.size):
            if marked[link]:
                for slot in range(values.shape[1]):
                    sums[ends[link], slot] += values[link, slot]
    return sums


def _distribution(profile: Float64) -> Float64:
    total = np.cumsum(profile, axis=1)
    return total / np.maximum(total[:, -1:], 1e-9)


def _over_the_step(features: PairFeatures, pair: Int32) -> Float64:
    """Bytes per slot of the step."""
    return profile_of(features, pair) * step_bytes(features, pair)[:, None]


@kernel
def _votes(first: int, peers: int, parent: Int64, following: Int64, vote: Float64, low: Int64, high: Int64,
           offsets: Int64, incident: Int64) -> tuple[float, float]:  # fmt: skip
    """Sum of the votes of all links between the set that holds `first` and the one whose root is `peers`, and of their
    magnitudes."""
    total, most, node = 0.0, 0.0, first
    while True:
        for link in incident[offsets[node] : offsets[node + 1]]:
            if root_of(parent, low[link] + high[link] - node) == peers:
                total += vote[link]
                most += abs(vote[link])
        node = following[node]
        if node == first:
            return total, most


@kernel
def _are_one(a: int, b: int, size: Int64, parent: Int64, following: Int64, vote: Float64, low: Int64, high: Int64,
             offsets: Int64, incident: Int64) -> bool:  # fmt: skip
    """Do the votes of all links between the sets of `a` and `b` say that they are one group? The links are those of the
    smaller set, so that a long ring is not walked for each of its links; but where the sum may be nothing but rounding,
    the set of `a` is walked, which makes the order of the sum, and so the answer, that of the links alone."""
    root_a, root_b = root_of(parent, a), root_of(parent, b)
    if size[root_b] < size[root_a]:
        total, most = _votes(b, root_a, parent, following, vote, low, high, offsets, incident)
        if abs(total) > ROUNDING * most:
            return total > 0.0
    total, most = _votes(a, root_b, parent, following, vote, low, high, offsets, incident)
    return total > 0.0


@kernel
def _accept(order: Int64, low: Int64, high: Int64, kind: Int8, vote: Float64, offsets: Int64, incident: Int64,
            dp: int, pp: int, other: int) -> Int8:  # fmt: skip
    """The kinds that stand. `vote` is the log odds for data parallelism; `following` runs round a set."""
    nodes = offsets.size - 1
    group, pipeline, following = np.arange(nodes), np.arange(nodes), np.arange(nodes)
    size = np.ones(nodes, dtype=np.int64)
    result, refused = kind.copy(), np.empty(order.size, dtype=np.int64)
    count = 0
    for link in order:
        a, b = low[link], high[link]
        group_a, group_b = root_of(group, a), root_of(group, b)
        same_pipeline = root_of(pipeline, a) == root_of(pipeline, b)
        if kind[link] == dp and same_pipeline:
            result[link] = other
        elif kind[link] == dp and group_a != group_b:
            if _are_one(a, b, size, group, following, vote, low, high, offsets, incident):
                group[group_a] = group_b
                size[group_b] += size[group_a]
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
    return LinkKinds(kind, confidence, judged.one_way, judged.fits)


def without_false_pipelines(links: Links, kinds: LinkKinds, rules: LayoutRules = RULES) -> LinkKinds:
    """Pipeline links that cannot be: a stage has two neighbours at most, and the peers of a stage are stages too.

    The branches of a tree all-reduce go up, then down, as activations and gradients do; but trees branch, and some of
    their links are clearly collective. The links of such components are collectives.
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
    confidence[wrong] = rules.kinds.tree_confidence
    return LinkKinds(kind, confidence, kinds.one_way, kinds.fits)
