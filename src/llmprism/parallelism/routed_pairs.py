"""Experts of two ranks that share a single link with everything else: told by tokens that all rails route alike.

Two replicas of a model whose tensor groups fill their servers meet over one link per rail, and so do two experts on
them: gradients and tokens take the very same pairs, and neither bytes nor silences tell that there are two things. But
gradients of two ranks are as many bytes there as back, in every step. Tokens are not: a popular expert is sent more
than it sends, in this step one way and in the next one the other. What a collector loses, samples or counts twice
makes the two ways differ, too, but on each rail by itself, while all ranks of a tensor group route the same tokens. And
a tick that cuts a step among messages gives one step what it takes from the next, while routing begins anew in each.
What two stages hand on takes turns, whatever its sums do.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.exchanges import Exchanges, bytes_by_step, no_exchanges, varies
from llmprism.parallelism.features import Links
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.uneven_messages import take_turns

__all__ = ["routed_pairs"]


def routed_pairs(transfers: TransferTable, links: Links, clock: StepClock, rules: LayoutRules = RULES) -> Exchanges:
    """Experts of two, one group for each link between two ranks; none where ranks have several such links, or tokens do
    not show. No row is said to be of the exchange: gradients share all of its pairs."""
    nothing, rails = no_exchanges(transfers), _rails(transfers, links, rules)
    chosen = rails[evenly_spread(rails.size, rules.exchanges.even_links)] if rails.size else rails
    if rails.size < rules.exchanges.least_rails or not _routed(transfers, links.only(chosen), clock, rules):
        return nothing
    own = links.only(rails)
    pairs = np.isin(np.arange(transfers.pair_count), np.concatenate([own.there, own.back]))
    if take_turns(transfers, pairs, rules):  # what two stages hand on differs alike on all rails where ticks cut steps
        return nothing
    groups = tuple(Group(PairKind.EP, ends) for ends in zip(own.low.tolist(), own.high.tolist(), strict=True))
    return Exchanges(pairs, nothing.pure, nothing.rows, groups)


def _rails(transfers: TransferTable, links: Links, rules: LayoutRules) -> Int64:
    """The links that carry as much both ways, where every rank has one of them and no more."""
    size = transfers.pair_bytes.astype(np.float64)
    there, back = (np.where(side >= 0, size[side], 0.0) for side in (links.there, links.back))
    both: Bool = np.minimum(there, back) > (1.0 - rules.kinds.one_way) * np.maximum(there, back)
    ends = np.concatenate([links.low[both], links.high[both]])
    everyone = np.union1d(links.low, links.high).size
    alone = np.unique(ends).size == ends.size >= rules.exchanges.experts_covered * everyone
    return np.flatnonzero(both) if alone else np.zeros(0, dtype=np.int64)


def _routed(transfers: TransferTable, rails: Links, clock: StepClock, rules: LayoutRules) -> bool:
    rule = rules.exchanges
    sent = [
        [bytes_by_step(transfers, pair, clock) for pair in two] for two in zip(rails.there, rails.back, strict=True)
    ]
    if sent[0][0].size < rule.routed_steps:
        return False
    apart = np.array([(there - back) / max(float(median(there)), 1.0) for there, back in sent])
    uneven = median([varies(one, rules) for one in apart]) > rule.routed_share
    ranked = np.argsort(np.argsort(apart, axis=1), axis=1)  # one odd step is no evidence
    return bool(uneven and _alike(ranked) > rule.routed_alike and _made_up(ranked) > rule.routed_made_up)


def _alike(ranked: Int64) -> float:
    """Correlation of the steps of two rails, the median of all twos."""
    two_by_two = np.atleast_2d(np.corrcoef(ranked))
    return float(median(two_by_two[np.triu_indices(len(ranked), 1)]))


def _made_up(ranked: Int64) -> float:
    """Correlation of a step with the next one, the median of all rails: minus one half where a tick gives one step what
    it takes from the other, nothing where each is routed by itself."""
    return float(median([np.corrcoef(one[:-1], one[1:])[0, 1] for one in ranked]))
