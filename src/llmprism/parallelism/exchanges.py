"""What neighbours on a ring of gradients exchange besides: contexts or experts.

Links that carry a hop of a ring and an exchange of its two ends (`open_rings`) are divided by time: all hops of a ring
move together, so a transfer on such a link is the ring's when the hops next to it, which carry nothing else, are busy
too. The rest is the exchange's and has no bytes for the passes that follow; those see a ring like any other. Contexts
and experts are axes of the mesh of all ranks: what only a few of them exchange is neither.

*Contexts or experts.* Both are exchanged in every pass, between ranks that hold the same dense weights. But tokens are
routed: what goes one way differs from what comes back, another way in every step, while contexts are halves of a
sequence. And the weights of experts are not those of the dense ring: their gradients are reduced apart, over groups
that take one member from each exchange. Where neither shows, contexts are the simpler explanation.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.channels import amounts_of, channel_links
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.open_rings import shared_hops
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.uneven_messages import uneven_messages
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["Exchanges", "bytes_by_step", "find_exchanges", "no_exchanges", "reduced_apart", "routed", "varies"]


@dataclass(frozen=True, slots=True)
class Exchanges:
    """Per pair: takes part in an exchange; is a hop of the ring and nothing else. Per row: is a transfer of an
    exchange. `groups` are of contexts unless they are uneven, or reduced apart."""

    pairs: Bool
    pure: Bool
    rows: Bool
    groups: tuple[Group, ...]

    @property
    def kind(self) -> PairKind:
        return self.groups[0].kind if self.groups else PairKind.CP

    def on_all(self, links: Links) -> Bool:
        """Links that exchange and carry gradients too, where no row is known to be of the exchange alone."""
        return (links.there >= 0) & self.pairs[links.there] & (not self.rows.any())

    def of_experts(self) -> Exchanges:
        groups = tuple(Group(PairKind.EP, group.members) for group in self.groups)
        return replace(self, groups=groups)


def no_exchanges(transfers: TransferTable) -> Exchanges:
    none = np.zeros(transfers.pair_count, dtype=np.bool_)
    return Exchanges(none, none, np.zeros(transfers.start_ns.size, dtype=np.bool_), ())


def find_exchanges(
    transfers: TransferTable,
    links: Links,
    features: PairFeatures,
    one_way: Bool,
    clock: StepClock,
    rules: LayoutRules = RULES,
) -> Exchanges:
    nothing = no_exchanges(transfers)
    amounts = amounts_of(links, features, rules)
    shared = shared_hops(links, amounts, one_way, rules)
    own = np.flatnonzero(shared.links & ~channel_links(links, amounts, rules))
    if not own.size:
        return nothing
    hop = np.where(shared.upward[own], links.there[own], links.back[own])
    back = np.where(shared.upward[own], links.back[own], links.there[own])
    both_ways = bool(shared.both_ways[own].any())
    pure = _carrying(links.only(shared.pure), amounts.there[shared.pure] > amounts.back[shared.pure])
    if both_ways:
        pure = np.concatenate([links.there[shared.pure], links.back[shared.pure]])
    rows = transfers.rows_of(np.isin(np.arange(transfers.pair_count), back))
    for pair in np.concatenate([hop, back]).tolist() if both_ways else hop.tolist():
        mine = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
        rows[mine] = ~_with_the_ring(
            transfers, mine, _next_hops(transfers, pair, pure), rules.exchanges.next_hop * clock.period_ns
        )
    marked = [np.isin(np.arange(transfers.pair_count), listed) for listed in (np.concatenate([hop, back]), pure)]
    found = Exchanges(marked[0], marked[1], rows, _groups(links, own))
    if sum(len(group.members) for group in found.groups) < rules.exchanges.axis_covered * _members(links):
        return nothing
    if both_ways:
        pure_links = _paired(links.there[shared.pure], links.back[shared.pure])
        uneven = routed(transfers, rows, found.pairs, pure_links, clock, rules)
    else:
        single = uneven_messages(
            transfers, rows | transfers.rows_of(~found.pairs), _paired(hop, back), [], clock, rules
        )
        uneven = _is_uneven(transfers, hop, back, pure, clock, rules) if single is None else single
    return found.of_experts() if uneven else found


def _paired(one: Int32, other: Int32) -> list[tuple[int, int]]:
    return list(zip(one.tolist(), other.tolist(), strict=True))


def _members(links: Links) -> int:
    return int(np.union1d(links.low, links.high).size)


def _carrying(links: Links, upward: Bool) -> Int32:
    """The pair of each one-way link that carries its bytes."""
    pair: Int32 = np.where(upward, links.there, links.back).astype(np.int32)
    return pair


def _next_hops(transfers: TransferTable, pair: int, pure: Int32) -> Int32:
    """The pure hops before and after a hop of the ring."""
    src, dst = transfers.pair_src[pure], transfers.pair_dst[pure]
    found: Int32 = pure[(dst == transfers.pair_src[pair]) | (src == transfers.pair_dst[pair])]
    return found


def _with_the_ring(transfers: TransferTable, mine: slice, hops: Int32, slack_ns: float) -> Bool:
    """Which of these rows are sent while one of the hops is busy, or nearly so."""
    offsets = transfers.pair_offsets
    rows = np.concatenate([np.arange(0), *(np.arange(offsets[hop], offsets[hop + 1]) for hop in hops.tolist())])
    rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    start, until = transfers.start_ns[rows], np.maximum.accumulate(transfers.end_ns[rows]) if rows.size else rows
    if not rows.size:
        return np.zeros(mine.stop - mine.start, dtype=np.bool_)
    begin, end = transfers.start_ns[mine], transfers.end_ns[mine]
    before = np.searchsorted(start, end + slack_ns, side="right") - 1
    near: Bool = (before >= 0) & (until[np.maximum(before, 0)] >= begin - slack_ns)
    return near


def _groups(links: Links, own: Int64) -> tuple[Group, ...]:
    members, ends = np.unique(np.concatenate([links.low[own], links.high[own]]), return_inverse=True)
    label = component_labels(members.size, ends[: own.size], ends[own.size :])
    return tuple(
        Group(PairKind.CP, tuple(int(member) for member in members[label == number]))
        for number in range(int(label.max()) + 1)
    )


def _is_uneven(
    transfers: TransferTable, hop: Int32, back: Int32, pure: Int32, clock: StepClock, rules: LayoutRules
) -> bool:
    """Does the exchange differ between its two ways, another way in every step, and by more than the ring does?

    What goes there is what the hop carries beyond the next hop of its ring; no row need be divided for that.
    """
    rule = rules.exchanges
    uneven, noise = [], []
    for one, other in _paired(hop, back):
        ring = [bytes_by_step(transfers, pair, clock) for pair in _next_hops(transfers, one, pure).tolist()]
        answered = bytes_by_step(transfers, other, clock)
        usual = max(float(median(answered)), 1.0)
        if ring:
            uneven.append(varies(bytes_by_step(transfers, one, clock) - ring[0] - answered, rules) / usual)
            noise.append(varies(ring[0] - ring[-1], rules) / usual)
    return bool(uneven) and float(median(uneven)) > max(rule.uneven_tokens, rule.uneven_noise * float(median(noise)))


def routed(
    transfers: TransferTable,
    exchanged: Bool,
    pairs: Bool,
    others: list[tuple[int, int]],
    clock: StepClock,
    rules: LayoutRules = RULES,
) -> bool:
    """Is what these pairs exchange uneven as routed tokens are? Examined on links both of whose directions exchange.

    `exchanged` marks the rows; gradients of two members are the same both ways and need not be distinguished for the
    difference. `others` are the two directions of links that carry something even, such as activations: they show by
    which share of its bytes a link differs from step to step, gradients included, without any tokens.
    """
    rule = rules.exchanges
    every = np.flatnonzero(pairs)
    back = transfers.pairs_between(
        transfers.pair_dst[every].astype(np.int64), transfers.pair_src[every].astype(np.int64)
    )
    both_ways = [(a, b) for a, b in zip(every.tolist(), back.tolist(), strict=True) if a < b and pairs[b]]
    own = _all_to_alls(transfers, both_ways)
    if not own or 2 * len(own) < rule.axis_covered * every.size:
        return False
    single = uneven_messages(transfers, exchanged, own, others, clock, rules)
    if single is not None:
        return single
    size = np.where(exchanged, transfers.bytes, 0)
    noise = [_apart(transfers, a, b, clock, rules) / _usual(transfers, a, clock) for a, b in others[: rule.even_links]]
    noisy = rule.uneven_links * float(median(noise) if noise else 0.0)
    uneven = []
    for a, b in own:
        amount = _usual(transfers, a, clock, size)
        limit = max(rule.uneven_tokens * amount, noisy * _usual(transfers, a, clock))
        uneven.append(_apart(transfers, a, b, clock, rules) / limit)
    return float(median(uneven)) > 1.0


def _all_to_alls(transfers: TransferTable, links: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Those of the links that may be of an all-to-all: it joins every member with all that are not on its server, at
    least as many as two servers of half of the members each have links. Rings of more than four have fewer."""
    one = np.array([pair for pair, _ in links], dtype=np.int64)
    if not one.size:
        return []
    src, dst = transfers.pair_src[one], transfers.pair_dst[one]
    label = component_labels(len(transfers.addresses), src, dst)
    members = np.bincount(label[np.union1d(src, dst)], minlength=int(label.max()) + 1)
    dense = np.bincount(label[src], minlength=members.size) >= (members / 2) ** 2
    return [link for link, kept in zip(links, dense[label[src]].tolist(), strict=True) if kept]


def _apart(transfers: TransferTable, one: int, other: int, clock: StepClock, rules: LayoutRules) -> float:
    """Bytes by which two pairs differ from step to step."""
    return varies(bytes_by_step(transfers, one, clock) - bytes_by_step(transfers, other, clock), rules)


def varies(values: Float64, rules: LayoutRules) -> float:
    """How far the steps in which nothing was lost are from the usual one."""
    return float(np.quantile(np.abs(values - median(values)), rules.exchanges.whole_steps)) if values.size else 0.0


def _usual(transfers: TransferTable, pair: int, clock: StepClock, size: Int64 | None = None) -> float:
    """Bytes of a pair in a step, of its rows or as given; one at least."""
    return max(float(median(bytes_by_step(transfers, pair, clock, size))), 1.0)


def bytes_by_step(transfers: TransferTable, pair: int, clock: StepClock, size: Int64 | None = None) -> Float64:
    """Bytes of a pair in each whole step, of its rows or as given."""
    mine = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
    step = clock.step_at(transfers.start_ns[mine])
    known = step >= 0
    total = np.bincount(
        step[known], (transfers.bytes if size is None else size)[mine][known], minlength=clock.regular.size
    )
    return total[clock.whole].astype(np.float64)


def reduced_apart(
    exchanges: Exchanges, transfers: TransferTable, gradient: Bool, features: PairFeatures, rules: LayoutRules = RULES
) -> bool:
    """Are there gradients of experts: a second amount of bytes, reduced over groups with one member of each exchange?

    `gradient` marks the pairs of gradients."""
    exchange_of = np.full(len(transfers.addresses), -1)
    for number, group in enumerate(exchanges.groups):
        exchange_of[list(group.members)] = number
    pairs = np.flatnonzero(gradient & (features.step_bytes > 0) & ~exchanges.pairs & ~exchanges.pure)
    src, dst = transfers.pair_src[pairs], transfers.pair_dst[pairs]
    level = np.log(np.maximum(features.step_bytes[pairs], 1.0))
    amount = np.round(level / np.log(rules.exchanges.same_amount))
    for number in np.unique(amount):
        own = amount == number
        label = component_labels(exchange_of.size, src[own], dst[own])
        members = np.union1d(src[own], dst[own])
        members = members[exchange_of[members] >= 0]
        cells = np.unique(label[members] * (len(exchanges.groups) + 1) + exchange_of[members])
        if cells.size == members.size >= rules.exchanges.experts_covered * (exchange_of >= 0).sum():
            return True
    return False
