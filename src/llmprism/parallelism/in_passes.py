"""What collectives do while pipelines pass activations on: busy in the passes, throughout them, or after the last one.

Each member has its own time: from its first pipeline message of a step to its last one. What is sent after the first
activation and before the first gradient comes back serves the forward pass. What every pass needs is sent throughout,
as the pipeline's own messages are; parameters that are gathered once a step come in two or three bursts, however many
micro-batches there are. The two directions of a link are looked at together, since rings may gather one way round and
reduce the other, and so are all hops of the same bytes in one group.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.link_evidence import pooled
from llmprism.parallelism.pass_times import extremes, mark_late, steps_by_place, sums_in_passes
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["busy_in_passes", "enough", "last_of_step", "sent_between"]


def busy_in_passes(
    transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> tuple[Bool, Float64, Bool]:
    """Pairs that are busy in the forward-only time of their senders and throughout the passes, their share of bytes
    after the last pipeline message, and the rows of these."""
    rule = rules.exchanges
    steps = clock.boundary_ns.size - 1
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    share = np.zeros(transfers.pair_count)
    late_row = np.ones(transfers.start_ns.size, dtype=np.bool_)
    if not (transfers.pair_offsets[pairs + 1] > transfers.pair_offsets[pairs]).any():
        return inside, share, late_row
    there, back = np.array(forward, dtype=np.int64).T
    every = np.concatenate([there, back])
    first, last = (_extreme(transfers, every, clock, latest=latest) for latest in (False, True))
    activation, gradient = (_extreme(transfers, way, clock, latest=False) for way in (there, back))
    link_of, node = _links(transfers, pairs), transfers.pair_src[pairs]
    links = int(link_of.max()) + 1
    sender = np.stack([first.row[node], activation.row[node], gradient.row[node]])
    middle = transfers.start_ns + (transfers.end_ns - transfers.start_ns) // 2
    (in_passes, sent_late), seen = sums_in_passes(
        transfers.pair_offsets, transfers.start_ns, middle, transfers.bytes, MESSAGE_FLOOR_BYTES, pairs, link_of, links,
        clock.boundary_ns, sender, activation.times, gradient.times, last.times,
    )  # fmt: skip
    total = np.maximum(in_passes + sent_late, 1.0)
    component, hops = _hops(transfers, pairs, link_of, total, rules)
    shown = pooled(seen.astype(np.float64), hops)
    busy = shown >= rule.forward_steps * steps
    if busy.any():
        usual, own = (_places(transfers, of, first, last, clock, rules) for of in (every, pairs))
        busy &= _throughout(usual / steps, own / np.maximum(shown, 1.0)[:, None], hops, rules)
    busy = _in_all_stages(busy, component, hops, rules)
    if _members(transfers, pairs[busy[link_of]]) < rule.axis_covered * _members(transfers, pairs):
        busy = np.zeros_like(busy)
    inside[pairs] = busy[link_of]
    share[pairs] = np.where(busy[link_of], (sent_late / total)[link_of], 0.0)
    mine = busy[link_of]
    late_row = mark_late(
        transfers.pair_offsets, transfers.start_ns, middle, pairs[mine], sender[0][mine], clock.boundary_ns, last.times,
        late_row,
    )  # fmt: skip
    return inside, share, late_row


def sent_between(transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], clock: StepClock) -> Float64:
    """Of the times between two messages that a pair's sender hands on in the same step, those in which the pair begins
    to send, as a share; NaN where its sender hands on too few. Each of them holds a pass, but where activations and
    gradients leave together."""
    share = np.full(pairs.size, np.nan)
    passing = np.unique(np.array(forward, dtype=np.int64))
    passing = passing[np.isin(transfers.pair_src[passing], transfers.pair_src[pairs])]
    starts: dict[int, Int64] = {}
    for pair in np.union1d(pairs, passing).tolist():
        own = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
        starts[pair] = transfers.start_ns[own][transfers.bytes[own] >= MESSAGE_FLOOR_BYTES]
    by_sender: dict[int, list[Int64]] = {}
    for pair in passing.tolist():
        by_sender.setdefault(int(transfers.pair_src[pair]), []).append(starts[pair])
    sent = {sender: np.sort(np.concatenate(times)) for sender, times in by_sender.items()}
    for index, pair in enumerate(pairs.tolist()):
        times = sent.get(int(transfers.pair_src[pair]), np.zeros(0, dtype=np.int64))
        step = np.searchsorted(clock.boundary_ns, times, side="right")
        within = np.flatnonzero(np.diff(step) == 0)
        if within.size:
            begun = np.unique(np.searchsorted(times, starts[pair]) - 1)
            share[index] = np.isin(within, begun).mean()
    return share


def last_of_step(transfers: TransferTable, passing: Int64, clock: StepClock) -> Int64:
    """For each address and step the end of the last message that it hands on or is handed; NEVER without any."""
    last = _extreme(transfers, passing, clock, latest=True)
    return last.times[last.row]


def _members(transfers: TransferTable, pairs: Int64) -> int:
    return int(np.union1d(transfers.pair_src[pairs], transfers.pair_dst[pairs]).size)


def _links(transfers: TransferTable, pairs: Int64) -> Int64:
    """The number of the link that each pair is a direction of."""
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    key = np.minimum(src, dst) * len(transfers.addresses) + np.maximum(src, dst)
    number: Int64 = np.unique(key, return_inverse=True)[1]
    return number


def _in_all_stages(busy: Bool, component: Int64, hops: Int64, rules: LayoutRules) -> Bool:
    """What the passes exchange in half of the groups of one shape, they exchange in all; in fewer, nowhere.

    Only groups all of whose hops carry the same are examined: where some take part and others do not, each has shown
    it.
    """
    first = np.unique(component * (hops.max() + 1) + hops) // (hops.max() + 1)
    sorts, size = np.bincount(first, minlength=component.max() + 1), np.bincount(component)
    sharing = np.bincount(component, busy) > 0
    result = busy.copy()
    for links in np.unique(size[sharing & (sorts == 1)]):
        alike = (size == links) & (sorts == 1)
        result[alike[component]] = sharing[alike].mean() >= rules.exchanges.groups_exchanging
    return result


def _hops(
    transfers: TransferTable, pairs: Int64, link_of: Int64, total: Float64, rules: LayoutRules
) -> tuple[Int64, Int64]:
    """For each link the number of its component, and of the hops that do the same: of the same bytes, in the same
    component."""
    label = component_labels(len(transfers.addresses), transfers.pair_src[pairs], transfers.pair_dst[pairs])
    component = np.zeros(total.size, dtype=np.int64)
    component[link_of] = label[transfers.pair_src[pairs]]
    level = np.log(total)
    order = np.lexsort((level, component))
    new = (np.diff(component[order]) != 0) | (np.diff(level[order]) > rules.exchanges.same_hop)
    number = np.zeros(total.size, dtype=np.int64)
    number[order] = np.concatenate([[0], np.cumsum(new)])
    return component, number


def _throughout(usual: Float64, own: Float64, hops: Int64, rules: LayoutRules) -> Bool:
    """Which links send throughout the passes, as the pipelines' own ones do: over as many places of them, and in the
    quarter in which neither parameters are gathered nor gradients added up. `usual` and `own` are how often the links
    of pipelines and those in question begin to send in each place. Places count, not bytes: gradients may be a thousand
    times as large as what a pass exchanges."""
    rule = rules.exchanges
    steady = slice(rule.pass_places // 2, rule.pass_places - rule.pass_places // 4)
    result = np.ones(own.shape[0], dtype=np.bool_)
    for part, share in ((slice(None), rule.spread_over_passes), (steady, rule.steady_share)):
        result &= pooled(own[:, part].sum(axis=1), hops) >= share * float(np.median(usual[:, part].sum(axis=1)))
    return result


def _places(
    transfers: TransferTable, pairs: Int64, first: _Times, last: _Times, clock: StepClock, rules: LayoutRules
) -> Float64:
    """The steps in which each link of these pairs begins to send in each place of its sender's passes; NaN where no
    sender has any."""
    link_of, sender = _links(transfers, pairs), first.row[transfers.pair_src[pairs]]
    links = int(link_of.max()) + 1
    found = steps_by_place(
        transfers.pair_offsets, transfers.start_ns, transfers.bytes, MESSAGE_FLOOR_BYTES, pairs, link_of, links,
        clock.boundary_ns, sender, first.times, last.times, rules.exchanges.pass_places,
    )  # fmt: skip
    known = np.bincount(link_of, sender < first.times.shape[0] - 1, minlength=links) > 0
    return np.where(known[:, None], found, np.nan)


def enough(total: Float64, early: Float64, seen: Int64 | Float64, steps: int, rules: LayoutRules = RULES) -> Bool:
    """Per pair or link: are the early bytes enough of all, and seen in enough of the steps?"""
    result: Bool = (early / np.maximum(total, 1.0) >= rules.exchanges.forward_share) & (
        seen >= rules.exchanges.forward_steps * steps
    )
    return result


@dataclass(frozen=True, slots=True)
class _Times:
    """Time per step of each node; `row` of a node that takes no part is the last, a time that nothing is after."""

    row: Int64
    times: Int64


def _extreme(transfers: TransferTable, pairs: Int64, clock: StepClock, *, latest: bool) -> _Times:
    """First start (or last end) of these pairs' messages in each step, for both of their ends."""
    ends = np.stack([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    nodes, index = np.unique(ends, return_inverse=True)
    row = np.full(len(transfers.addresses), nodes.size, dtype=np.int64)
    row[nodes] = np.arange(nodes.size)
    times = extremes(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns if latest else transfers.start_ns,
        transfers.bytes, MESSAGE_FLOOR_BYTES, pairs, index.reshape(ends.shape), clock.boundary_ns, nodes.size, latest,
    )  # fmt: skip
    return _Times(row, times)
