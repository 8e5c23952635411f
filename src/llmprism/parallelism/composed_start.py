"""The beginning of a layout whose pairs are explained by a composition: links, kinds, exchanges, and whose rows are
whose.

A pair that carries two collectives shares its rows by time: hops of gradients move together, so a row is a gradient
when the pairs that carry nothing else are busy; where there is no such pair, when those of the exchange are not.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable, ranges
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind, PairRoles
from llmprism.parallelism.composed import Composed
from llmprism.parallelism.exchanges import bytes_by_step, no_exchanges, varies
from llmprism.parallelism.features import Links, links_of, pair_features
from llmprism.parallelism.in_step import InStep
from llmprism.parallelism.link_evidence import evidence_of
from llmprism.parallelism.meshes import Meshes
from llmprism.parallelism.pair_kinds import LinkKinds, judge_links
from llmprism.parallelism.partial_layout import PartialLayout, muted
from llmprism.parallelism.rival_clocks import BestClock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.superposed_rings import while_busy
from llmprism.parallelism.uneven_messages import both_ways, uneven_messages
from llmprism.stats.disjoint_sets import component_labels
from llmprism.stats.logistic import logistic

__all__ = ["composed_roles", "composed_start"]


def composed_start(job: Job, bulk: Bool, best: BestClock, composed: Composed, rules: LayoutRules) -> PartialLayout:
    """Links and exchanges as the composition names them; the passes find the rest."""
    transfers, clock = job.transfers, best.clock
    composed = _contexts_or_experts(transfers, composed, clock, rules)
    carries = composed.carries
    gradients, tokens = carries[PairKind.DP], carries[PairKind.EP]
    within = carries[PairKind.CP] | carries[PairKind.TP]
    exchanged = _exchanged_rows(transfers, tokens | within, gradients)
    every_link = links_of(transfers, bulk)
    meshes = Meshes(
        _either(every_link, tokens), _either(every_link, tokens & gradients), tokens,
        exchanged & transfers.rows_of(tokens), composed.experts,
    )  # fmt: skip
    within_row = exchanged & transfers.rows_of(within & ~tokens)
    in_step = InStep(within, gradients | ~within, carries[PairKind.TP], ~within_row)
    only_exchanged = (tokens | within) & ~gradients
    links = every_link.only(_either(every_link, ~only_exchanged))
    visible = muted(transfers, exchanged)
    features = pair_features(visible, clock, rules)
    shown = evidence_of(visible, links, features, clock, rules, best.passing)
    kinds = _kinds(links, judge_links(links, features, shown, rules), composed, rules)
    return PartialLayout(rules, job, bulk, replace(job, clock=clock, transfers=visible), clock, best, meshes,
                         no_exchanges(transfers), links, features, kinds, in_step=in_step, measured=clock,
                         composed=composed)  # fmt: skip


def composed_roles(
    transfers: TransferTable, composed: Composed, passing: Bool, rules: LayoutRules = RULES
) -> PairRoles:
    """What every pair carries, by the composition; a pair may carry two things. `passing` are the pairs that pass
    activations on, those that close interleaved pipelines among them."""
    confidence = _confidence(composed, rules)
    pair, kind = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int8)]
    closing = composed.carries[PairKind.OTHER]
    named = composed.carries | {
        PairKind.PP: composed.carries[PairKind.PP] | (closing & passing),
        PairKind.OTHER: closing & ~passing,
    }
    for one, carries in named.items():
        pair.append(np.flatnonzero(carries))
        kind.append(np.full(int(carries.sum()), one, dtype=np.int8))
    pairs, kinds = np.concatenate(pair), np.concatenate(kind)
    src, dst = transfers.pair_src[pairs], transfers.pair_dst[pairs]
    order = np.lexsort((kinds, dst, src))
    return PairRoles(src[order], dst[order], kinds[order], np.full(pairs.size, confidence))


def _confidence(composed: Composed, rules: LayoutRules) -> float:
    """How sure the kinds of pairs are: as far as bits say, but no surer than those that one sort of links shows."""
    return logistic(min(composed.bits, rules.kinds.surest_odds))


def _contexts_or_experts(
    transfers: TransferTable, composed: Composed, clock: StepClock, rules: LayoutRules
) -> Composed:
    """Where bytes leave open which of the two is exchanged: experts if it is uneven as routed tokens are."""
    if not composed.either:
        return composed
    carries = composed.carries
    pairs = carries[PairKind.CP] | carries[PairKind.EP]
    rows = _exchanged_rows(transfers, pairs, carries[PairKind.DP])
    if not rows.any():  # gradients take the same pairs, all of them
        return composed
    passing = both_ways(transfers, carries[PairKind.PP])
    single = uneven_messages(transfers, rows, both_ways(transfers, pairs), passing, clock, rules)
    uneven = _uneven(transfers, composed, pairs, clock, rules) if single is None else single
    if uneven == bool(carries[PairKind.EP].any()):
        return composed
    swapped = carries | {PairKind.CP: carries[PairKind.EP], PairKind.EP: carries[PairKind.CP]}
    amount = composed.amount
    amount = amount | {PairKind.CP: amount[PairKind.EP], PairKind.EP: amount[PairKind.CP]}
    contexts = tuple(Group(PairKind.CP, group.members) for group in composed.experts)
    experts = tuple(Group(PairKind.EP, group.members) for group in composed.contexts)
    return replace(composed, carries=swapped, amount=amount, contexts=contexts, experts=experts)


def _uneven(transfers: TransferTable, composed: Composed, pairs: Bool, clock: StepClock, rules: LayoutRules) -> bool:
    """Is what these pairs exchange uneven as routed tokens are: does it differ between the two ways, another way in
    every step, and by more than gradients make it differ that take the same pairs?"""
    rule, amount = rules.exchanges, composed.amount
    gradient = amount[PairKind.DP]
    exchanged = amount[PairKind.CP] + amount[PairKind.EP]
    pure = np.flatnonzero((gradient > 0.0) & ~pairs)
    uneven, noise = [], []
    for one, other in both_ways(transfers, pairs)[: rule.even_links]:
        sent = [bytes_by_step(transfers, pair, clock) for pair in (one, other)]
        usual = max(float(median(sent[0])) * float(exchanged[one] / (exchanged[one] + gradient[one])), 1.0)
        apart, more = sent[0] - sent[1], gradient[one] - gradient[other]
        if pure.size:
            near = pure[np.argsort(np.abs(transfers.pair_src[pure] - transfers.pair_src[one]), kind="stable")[:2]]
            hops = [bytes_by_step(transfers, int(pair), clock) / gradient[pair] for pair in near]
            apart = apart - more * hops[0]
            noise.append(varies(hops[0] - hops[-1], rules) * max(gradient[one], gradient[other]) / usual)
        uneven.append(varies(apart, rules) / usual)
    for one, other in both_ways(transfers, composed.carries[PairKind.PP])[: rule.even_links]:
        sent = [bytes_by_step(transfers, pair, clock) for pair in (one, other)]
        noise.append(varies(sent[0] - sent[1], rules) / max(float(median(sent[0])), 1.0))
    limit = max(rule.uneven_tokens, rule.uneven_noise * float(median(noise) if noise else 0.0))
    return bool(uneven) and float(median(uneven)) > limit


def _exchanged_rows(transfers: TransferTable, exchange: Bool, gradients: Bool) -> Bool:
    """The rows of exchanges: all of the pairs that carry nothing else, and of those that carry gradients too what is
    sent while the gradients of the same group are silent elsewhere."""
    rows = transfers.rows_of(exchange & ~gradients)
    mixed = np.flatnonzero(exchange & gradients)
    if not mixed.size:
        return rows
    either = np.flatnonzero(exchange | gradients)
    label = component_labels(len(transfers.addresses), transfers.pair_src[either], transfers.pair_dst[either])
    group_of = label[transfers.pair_src]
    for group in np.unique(group_of[mixed]).tolist():
        shared = _rows(transfers, mixed[group_of[mixed] == group])
        pure = _rows(transfers, np.flatnonzero(gradients & ~exchange & (group_of == group)))
        alone = _rows(transfers, np.flatnonzero(exchange & ~gradients & (group_of == group)))
        if pure.size:
            rows[shared] = ~while_busy(transfers, shared, pure)
        elif alone.size:
            rows[shared] = while_busy(transfers, shared, alone)
    return rows


def _rows(transfers: TransferTable, pairs: Int64) -> Int64:
    return ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])


def _either(links: Links, pairs: Bool) -> Bool:
    """Links either of whose directions is marked."""
    found: Bool = ((links.there >= 0) & pairs[links.there]) | ((links.back >= 0) & pairs[links.back])
    return found


def _kinds(links: Links, judged: LinkKinds, composed: Composed, rules: LayoutRules) -> LinkKinds:
    """The kinds of links that the composition names; links from the last stage to the first close interleaved pipelines
    where they pass on as stages do, and are something else where not."""
    carries = composed.carries
    closing = _either(links, carries[PairKind.OTHER]) & (judged.kind == PairKind.PP)
    passing = _either(links, carries[PairKind.PP]) | closing
    kind = np.where(passing, PairKind.PP, np.where(_either(links, carries[PairKind.DP]), PairKind.DP, PairKind.OTHER))
    sure = np.full(links.low.size, _confidence(composed, rules))
    return LinkKinds(kind.astype(np.int8), sure, judged.one_way, np.ones(links.low.size, dtype=np.bool_))
