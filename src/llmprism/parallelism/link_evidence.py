"""What each link shows, in units of its own messages, and which links are of one sort and judged together.

Links that carry the same bytes in every step do the same thing: all hops of a ring do, all links between the same two
stages, and with equal activations all links of all pipelines. So their evidence is put together, and what one noisy
link shows does not matter. Links of different bytes are never one ring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.features import Links, PairFeatures, simultaneity
from llmprism.parallelism.lead import ends_apart, leads
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["LinkEvidence", "evidence_of", "only_set_up", "pooled", "profile_of", "step_bytes"]


@dataclass(frozen=True, slots=True)
class LinkEvidence:
    """Per link. `sort` numbers links of the same bytes; `closed` says that the links of the sort around it form closed
    rings. The others are medians over the sort:

    `turns` is the Kolmogorov distance between the profiles of the two directions over the step, in messages, `lead` how
    far one direction stays ahead, in messages (`lead`), `together` the share of time at which both are busy, `width`
    the shortest part of the step that holds nearly all of the bytes, `ends_apart` how far apart the two directions end,
    as a share of the time that the link takes. `passing`: links of the sort have messages outstanding from the begin of
    a step to its end (`outstanding`)."""

    one_way: Bool
    sort: Int64
    closed: Bool
    turns: Float64
    lead: Float64
    together: Float64
    width: Float64
    ends_apart: Float64
    passing: Bool


def evidence_of(
    transfers: TransferTable, links: Links, features: PairFeatures, clock: StepClock, rules: LayoutRules = RULES,
    passing: tuple[int, ...] = (),
) -> LinkEvidence:  # fmt: skip
    """What links show under a clock; `passing` are pairs of which it is known that they pass activations on."""
    there, back = step_bytes(features, links.there), step_bytes(features, links.back)
    one_way = np.minimum(there, back) < rules.kinds.one_way * np.maximum(there, back)
    width = _burst_width(features, links, rules)
    sort = _by_width(_sorts(np.maximum(there, back), one_way, rules), width, rules)
    distance = np.abs(_cumulative(features, links.there) - _cumulative(features, links.back)).max(axis=1, initial=0.0)
    sampled = _some_of_each(sort, rules)
    messages = _messages(transfers, links, sort, sampled, clock.regular.size, rules) / max(clock.regular.size, 1)
    lead, apart = np.full(links.low.size, np.nan), np.full(links.low.size, np.nan)
    lead[sampled] = leads(transfers, links.only(sampled), clock, rules)
    apart[sampled] = ends_apart(transfers, links.only(sampled), clock)
    return LinkEvidence(
        one_way,
        sort,
        _closed(links, sort, one_way, features, rules),
        pooled(distance * messages, sort),
        pooled(lead, sort),
        pooled(simultaneity(transfers, links), sort),
        pooled(width, sort),
        pooled(apart, sort),
        np.isin(sort, sort[np.isin(links.there, passing) | np.isin(links.back, passing)]),
    )


def only_set_up(transfers: TransferTable, links: Links, clock: StepClock, rules: LayoutRules = RULES) -> Bool:
    """Links that have sent nearly all they ever send when the second step begins: broadcasts of parameters."""
    if clock.boundary_ns.size < 4:
        return np.zeros(links.low.size, dtype=np.bool_)
    later = np.where(transfers.start_ns >= clock.boundary_ns[2], transfers.bytes, 0)
    total, after = (np.add.reduceat(size, transfers.pair_offsets[:-1]) for size in (transfers.bytes, later))
    sums = [
        sum(np.where(pair >= 0, amount[pair], 0) for pair in (links.there, links.back)) for amount in (total, after)
    ]
    return np.asarray(sums[1] < rules.kinds.set_up_share * sums[0])


def pooled(value: Float64, sort: Int64) -> Float64:
    """For each link the median of the known values of its sort; 0 where none is known."""
    known = np.flatnonzero(np.isfinite(value))
    result = np.zeros(int(sort.max(initial=-1)) + 1)
    if known.size:
        order = known[np.lexsort((value[known], sort[known]))]
        present, first, size = np.unique(sort[order], return_index=True, return_counts=True)
        result[present] = 0.5 * (value[order[first + (size - 1) // 2]] + value[order[first + size // 2]])
    return result[sort]


def step_bytes(features: PairFeatures, pair: Int32) -> Float64:
    """Bytes per step of each pair, 0 for none; those that send in few steps count a little."""
    amount = np.where(features.step_bytes > 0, features.step_bytes, features.total_bytes * 1e-9)
    return np.where(pair >= 0, amount[pair], 0.0)


def profile_of(features: PairFeatures, pair: Int32) -> Float64:
    return np.where(pair[:, None] >= 0, features.profile[pair], 0.0)


def _burst_width(features: PairFeatures, links: Links, rules: LayoutRules) -> Float64:
    """Share of the (cyclic) step that holds nearly all bytes of both directions, the shortest such part."""
    both = profile_of(features, links.there) + profile_of(features, links.back)
    share: Float64 = _narrowest(both, rules.kinds.burst_share) / both.shape[1]
    return share


def _narrowest_by_arrays(profile: Float64, share: float) -> Int64:
    """The kernel below for all rows at once."""
    slots = profile.shape[1]
    total = np.cumsum(np.concatenate([np.zeros((profile.shape[0], 1)), profile, profile], axis=1), axis=1)
    needed = share * np.maximum(total[:, slots], 1e-9)
    width = np.full(profile.shape[0], slots, dtype=np.int64)
    for tried in range(slots - 1, 0, -1):
        within = (total[:, tried : tried + slots] - total[:, :slots]).max(axis=1, initial=0.0)
        held = within >= needed
        if not held.any():
            break
        width[held] = tried
    return width


@kernel(by_arrays=_narrowest_by_arrays)
def _narrowest(profile: Float64, share: float) -> Int64:
    """The fewest neighbouring slots of each row, taken round, that hold this share of it.

    What more slots hold is never less, so that the number is found by halving.
    """
    slots = profile.shape[1]
    width = np.full(profile.shape[0], slots, dtype=np.int64)
    total = np.zeros(2 * slots + 1)
    for row in range(profile.shape[0]):
        for slot in range(2 * slots):
            total[slot + 1] = total[slot] + profile[row, slot % slots]
        needed = share * max(float(total[slots]), 1e-9)
        low, high = 0, slots  # too few, enough
        while high - low > 1:
            tried = (low + high) // 2
            held = False
            for slot in range(slots):
                held = held or total[slot + tried] - total[slot] >= needed
            if held:
                high = tried
            else:
                low = tried
        width[row] = high
    return width


def _sorts(amount: Float64, one_way: Bool, rules: LayoutRules) -> Int64:
    """The number of each link's sort: about the same bytes, one-way or not."""
    if not amount.size:
        return np.zeros(0, dtype=np.int64)
    level = np.log(np.maximum(amount, 1e-9))
    order = np.lexsort((level, one_way))
    new = (np.diff(level[order]) > rules.kinds.same_bytes) | (np.diff(one_way[order].astype(np.int8)) != 0)
    sort = np.zeros(amount.size, dtype=np.int64)
    sort[order] = np.concatenate([[0], np.cumsum(new)])
    return sort


def _by_width(sort: Int64, width: Float64, rules: LayoutRules) -> Int64:
    """The sorts, those divided some of whose links fill far less of the step than all others: tied embeddings or
    gradients that happen to be as large as activations."""
    order = np.lexsort((width, sort))
    new = (np.diff(sort[order]) != 0) | (np.diff(width[order]) > rules.kinds.other_width)
    result = np.zeros_like(sort)
    result[order] = np.concatenate([[0], np.cumsum(new)])[: sort.size]
    return result


def _some_of_each(sort: Int64, rules: LayoutRules) -> Int64:
    """A few links of every sort."""
    order = np.argsort(sort, kind="stable")
    _, first, size = np.unique(sort[order], return_index=True, return_counts=True)
    rank = np.arange(sort.size) - np.repeat(first, size)
    stride = np.maximum(np.repeat(size, size) // rules.kinds.sampled_links, 1)
    return np.sort(order[(rank % stride == 0) & (rank // stride < rules.kinds.sampled_links)])


def _closed(links: Links, sort: Int64, one_way: Bool, features: PairFeatures, rules: LayoutRules) -> Bool:
    """Two-way links whose sort forms closed rings of three and more: every member has two neighbours, and all hops are
    busy at the same times. A pipeline may close too, by tied embeddings of as many bytes; its links take turns."""
    members, low, high = links.numbered_ends()
    result = np.zeros(sort.size, dtype=np.bool_)
    two_way = np.flatnonzero(~one_way)
    if not two_way.size:
        return result
    key = np.concatenate([sort[two_way] * members + low[two_way], sort[two_way] * members + high[two_way]])
    nodes, ends = np.unique(key, return_inverse=True)
    degree = np.bincount(ends)
    labels = component_labels(nodes.size, ends[: two_way.size], ends[two_way.size :])
    odd = np.zeros(int(labels.max()) + 1, dtype=np.bool_)
    odd[labels[degree != 2]] = True
    ring = labels[ends[: two_way.size]]
    own = _distribution(profile_of(features, links.there[two_way]) + profile_of(features, links.back[two_way]))
    usual = np.zeros((odd.size, own.shape[1]))
    np.add.at(usual, ring, own)
    usual /= np.maximum(np.bincount(ring, minlength=odd.size), 1)[:, None]
    odd[ring[np.abs(own - usual[ring]).max(axis=1) > rules.kinds.hop_apart]] = True
    result[two_way] = ~odd[labels[ends[: two_way.size]]]
    return result


def _messages(
    transfers: TransferTable, links: Links, sort: Int64, sampled: Int64, steps: int, rules: LayoutRules
) -> Float64:
    """Messages of the direction that has more of them, the pieces of one message taken together.

    Where the pauses of a sort are of two kinds, far apart, the short ones lie within messages. The longest pauses, one
    for each of the `steps`, lie between steps and tell nothing about messages.
    """
    count = np.zeros(links.low.size)
    whole = np.zeros(links.low.size)
    for index in sampled:
        for pair in (int(links.there[index]), int(links.back[index])):
            if pair >= 0:
                pauses = _pauses(transfers, pair)
                messages = pauses.size + 1.0
                if messages > count[index]:
                    count[index], whole[index] = messages, 1.0 + _long_pauses(pauses, steps, rules)
    both = np.full(links.low.size, np.nan)
    both[sampled] = whole[sampled]
    return pooled(both, sort)


def _pauses(transfers: TransferTable, pair: int) -> Float64:
    rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
    message = transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES
    start, end = transfers.start_ns[rows][message], transfers.end_ns[rows][message]
    pauses: Float64 = np.log2(np.maximum(start[1:] - end[:-1], 1).astype(np.float64))
    return pauses


def _long_pauses(pauses: Float64, steps: int, rules: LayoutRules) -> int:
    """Pauses of the longer kind, those between steps included; all of them where there is one kind only."""
    ordered = np.sort(pauses)[: max(pauses.size - steps, 0)]
    count = ordered.size
    if count < 8:
        return pauses.size
    total = np.cumsum(ordered)
    below = np.arange(1, count)
    low, high = total[:-1] / below, (total[-1] - total[:-1]) / (count - below)
    between = below * (count - below) * (high - low) ** 2 / count
    split = int(np.argmax(between))
    explained = between[split] / max(float(((ordered - ordered.mean()) ** 2).sum()), 1e-9)
    if explained < rules.kinds.two_kinds_of_pause or high[split] - low[split] < rules.kinds.pauses_far_apart:
        return pauses.size
    return pauses.size - split - 1


def _distribution(profile: Float64) -> Float64:
    total = np.cumsum(profile, axis=1)
    return total / np.maximum(total[:, -1:], 1e-9)


def _cumulative(features: PairFeatures, pair: Int32) -> Float64:
    return np.cumsum(profile_of(features, pair), axis=1)
