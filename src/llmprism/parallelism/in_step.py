"""Collectives inside the step: context parallelism, and tensor parallelism across servers.

*Which pairs.* Gradients do not exist before the first backward pass. A ring that carries bytes while its members have
only sent activations so far exchanges something that the forward pass needs. Without pipelines the forward pass shows
only by contrast: the pairs that carry nothing but gradients are silent during one long part of the step, all the same,
and a pair that is busy then, step after step, is not one of them. Contexts of one replica leave no such pairs, and show
by themselves (`pass_exchanges`).

*What else they carry.* All hops of a ring carry the same bytes, so a hop that carries more than the least of its ring
carries gradients too. Where all are alike and their members have no other gradient pairs, it counts what flows after a
member's last pipeline message of the step (on the first stage that may be the last backward pass).

*Which kind.* Ranks of one context-parallel ring hold the same weights, so they share a gradient group. Tensor-parallel
ranks hold different parts of the weights and never do. What is uneven as routed tokens are is neither theirs nor the
parameters of sharded stages.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable, ranges
from llmprism.model.layout import PairKind
from llmprism.parallelism.exchanges import routed
from llmprism.parallelism.features import PairFeatures
from llmprism.parallelism.in_passes import busy_in_passes, enough, sent_between
from llmprism.parallelism.leading_exchanges import lead_into_messages, same_follow
from llmprism.parallelism.pass_exchanges import pass_exchanges
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.superposed_rings import superposed_rings
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["InStep", "find_in_step", "nothing_inside"]


@dataclass(frozen=True, slots=True)
class InStep:
    """Per pair: carries collectives of the forward pass, carries gradients, is between members that share no
    gradient group (tensor parallelism). Per row of the table: is a gradient. `kind` is that of the exchanges
    between members of one gradient group, contexts or experts. `gathers`: collectives fill the passes of the
    pipelines and no synchronisation follows, so they gather and scatter the parameters of sharded stages. `alone`:
    passes that hand on no message exchange the same, and nothing else follows. `even`: single exchanges are
    of the same bytes, so they are of contexts."""

    inside: Bool
    gradients: Bool
    tensor: Bool
    gradient_row: Bool
    gathers: bool = False
    alone: bool = False
    even: bool = False
    kind: PairKind = PairKind.CP

    @property
    def any(self) -> bool:
        return bool(self.inside.any())


def nothing_inside(transfers: TransferTable) -> InStep:
    """All collectives are gradients."""
    none = np.zeros(transfers.pair_count, dtype=np.bool_)
    return InStep(none, ~none, none, np.ones(transfers.start_ns.size, dtype=np.bool_))


def find_in_step(
    transfers: TransferTable,
    candidates: Int64,
    forward: list[tuple[int, int]],
    features: PairFeatures,
    clock: StepClock,
    batches: int | None = None,
    rules: LayoutRules = RULES,
) -> InStep:
    """What these pairs carry; `forward` lists the (forward, backward) pairs of the pipelines, `batches` how many
    micro-batches they pass on in a step."""
    nothing = nothing_inside(transfers)
    if clock.boundary_ns.size < 2:
        return nothing
    rings = superposed_rings(transfers, candidates, features.total_bytes, rules)
    if rings is not None:
        return InStep(rings.small, ~rings.small | rings.large, nothing.tensor, rings.gradient_row)
    last_pass = rules.stages.backward_share / max(batches or 1, 1)
    besides = weights = False
    if forward:
        inside, late, late_row = busy_in_passes(transfers, candidates, forward, clock, rules)
        busy = np.flatnonzero(inside)
        if busy.size and not _touched(transfers, busy, np.setdiff1d(candidates, busy)).any():
            serves = _what_they_serve(transfers, inside, late, late_row, forward, batches or 1, clock, rules)
            if serves.gathers:
                return replace(nothing, gathers=True)
            besides = not serves.alone
            weights = serves.weights
            if weights:
                late = np.minimum(late, last_pass)
            if not _in_every_pass(transfers, busy, forward, clock, rules):
                return nothing
    else:
        inside, late, late_row = _by_contrast(transfers, candidates, features, clock, rules)
        if not inside.any():
            return _after_every_pass(transfers, candidates, rules)
    gradients = np.ones(transfers.pair_count, dtype=np.bool_)
    tensor = np.zeros(transfers.pair_count, dtype=np.bool_)
    pairs = np.flatnonzero(inside)
    if pairs.size:
        ring = _rings(transfers, pairs)
        more = _more(features.step_bytes[pairs], ring, rules)
        if forward:
            usual = np.array([median(late[pairs[ring == number]]) for number in range(int(ring.max()) + 1)])
            after = (usual >= last_pass + rules.exchanges.gradients_after)[ring]
            more = more | ((after | besides) & ~_any(more, ring))
        gradients[pairs] = more
        together = _synchronised(transfers, pairs, np.union1d(np.setdiff1d(candidates, pairs), pairs[more]))
        tensor[pairs] = ~_on_axis(transfers, pairs, ring, _any(more | together, ring), rules)
    return InStep(inside, gradients, tensor, late_row & transfers.rows_of(gradients), alone=weights)


@dataclass(frozen=True, slots=True)
class _Serving:
    """What collectives of the passes serve whose members share no other: they gather the parameters of sharded stages,
    or serve the passes `alone`; else gradients take the same pairs. `weights`: also passes of the weights alone, which
    hand on no message."""

    gathers: bool = False
    alone: bool = False
    weights: bool = False


def _what_they_serve(
    transfers: TransferTable, inside: Bool, late: Float64, late_row: Bool, forward: list[tuple[int, int]],
    batches: int, clock: StepClock, rules: LayoutRules,
) -> _Serving:  # fmt: skip
    """By what follows the last message, and whether messages wait for them."""
    busy = np.flatnonzero(inside)
    if routed(transfers, transfers.rows_of(inside) & ~late_row, inside, forward, clock, rules):
        return _Serving()
    if _end_with_the_passes(transfers, busy, late, forward, batches, rules):
        return _Serving(alone=True)
    if lead_into_messages(transfers, busy, forward, clock.steps, rules):
        few = float(median(late[busy])) < rules.exchanges.passes_of_weights
        same = few and same_follow(transfers, busy, forward, clock, rules)
        return _Serving(alone=same, weights=same)
    last_pass = rules.stages.backward_share / batches
    return _Serving(gathers=float(median(late[busy])) < _last_scatter(transfers, forward, last_pass, rules))


def _after_every_pass(transfers: TransferTable, candidates: Int64, rules: LayoutRules) -> InStep:
    """Contexts of one replica without pipelines, which take the gradients' own pairs (`pass_exchanges`)."""
    nothing, found = nothing_inside(transfers), pass_exchanges(transfers, candidates, rules)
    return nothing if found is None else replace(nothing, inside=found.pairs, gradient_row=~found.rows, even=True)


def _in_every_pass(
    transfers: TransferTable, pairs: Int64, forward: list[tuple[int, int]], clock: StepClock, rules: LayoutRules
) -> bool:
    """Do these collectives send in most passes? Contexts do; parameters that are gathered once a step may fill the
    passes by their size, and so may gradients or gathers under them."""
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    back = transfers.pairs_between(dst, src)
    links = np.flatnonzero(~np.isin(back, pairs) | (pairs < back))
    some = links[evenly_spread(links.size, rules.exchanges.even_links)]
    one_way = sent_between(transfers, pairs[some], forward, clock)
    other_way = sent_between(transfers, np.where(back[some] >= 0, back[some], pairs[some]), forward, clock)
    larger = np.fmax(one_way, other_way)  # rings may go one way round
    known = larger[np.isfinite(larger)]
    return not known.size or float(median(known)) >= rules.exchanges.in_every_pass


def _last_scatter(
    transfers: TransferTable, forward: list[tuple[int, int]], last_pass: float, rules: LayoutRules
) -> float:
    """Share of the bytes of sharded stages that may follow their last pipeline message."""
    behind = 1.0 - 1.0 / _stages(transfers, forward)
    last = last_pass * (1.0 - behind * (1.0 - rules.exchanges.last_reduction))
    return max(last, _two_scatters(last_pass, rules)) + rules.exchanges.gradients_after


def _two_scatters(last_pass: float, rules: LayoutRules) -> float:
    """Two of the two gathers and one scatter of every micro-batch and one more: what follows where weights have passes
    of their own behind the last gradient that is handed on."""
    batches = rules.stages.backward_share / last_pass
    return 2.0 / (rules.sharding.collectives_of_a_batch * batches + 1.0)


def _end_with_the_passes(
    transfers: TransferTable, pairs: Int64, late: Float64, forward: list[tuple[int, int]], batches: int,
    rules: LayoutRules,
) -> bool:  # fmt: skip
    """Do these collectives serve nothing but the passes? Then stages behind the first send nothing after their last
    message, which hands on the gradient of the last pass; the first stage hands on none, and its last pass follows, one
    of as many as there are micro-batches."""
    there = np.array([pair for pair, _ in forward], dtype=np.int64)
    first = np.isin(transfers.pair_src[pairs], np.setdiff1d(transfers.pair_src[there], transfers.pair_dst[there]))
    if first.all() or not first.any():
        return False
    behind = float(np.quantile(late[pairs[~first]], rules.exchanges.most_behind))  # shards may be among tensors
    last_pass = float(median(late[pairs[first]]))
    more = last_pass > 1.0 / batches + rules.exchanges.gradients_after
    return not more and behind < rules.exchanges.behind_first * last_pass


def _stages(transfers: TransferTable, forward: list[tuple[int, int]]) -> float:
    """Mean number of stages of the pipelines that these links make."""
    pairs = np.array([pair for link in forward for pair in link], dtype=np.int64)
    ends = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    return float(np.unique(ends).size / (int(_rings(transfers, pairs).max()) + 1))


def _rings(transfers: TransferTable, pairs: Int64) -> Int64:
    """The number of the component that each pair is in."""
    ends = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    members, index = np.unique(ends, return_inverse=True)
    return component_labels(members.size, index[: pairs.size], index[pairs.size :])[index[: pairs.size]]


def _more(amount: Float64, ring: Int64, rules: LayoutRules) -> Bool:
    least = np.full(int(ring.max()) + 1, np.inf)
    np.minimum.at(least, ring, amount)
    result: Bool = amount > rules.exchanges.gradients_besides * least[ring]
    return result


def _synchronised(transfers: TransferTable, pairs: Int64, gradients: Int64) -> Bool:
    """Per pair whether pairs of gradients join its two ends, by whatever way."""
    group = component_labels(len(transfers.addresses), transfers.pair_src[gradients], transfers.pair_dst[gradients])
    joined: Bool = group[transfers.pair_src[pairs]] == group[transfers.pair_dst[pairs]]
    return joined


def _on_axis(transfers: TransferTable, pairs: Int64, ring: Int64, shown: Bool, rules: LayoutRules) -> Bool:
    """Per pair whether its ring, or a good part of the rings of as many members, carries gradients too: all rings along
    one axis of the mesh are of one kind, but a tree of gradients takes only some of their links."""
    ends = np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]]).astype(np.int64)
    count = int(ends.max()) + 1
    members = np.bincount(np.unique(np.tile(ring, 2) * count + ends) // count)
    carries = np.bincount(ring, shown) > 0
    share = np.bincount(members, carries) / np.maximum(np.bincount(members), 1)
    found: Bool = (carries | (share >= rules.exchanges.gradients_on_axis)[members])[ring]
    return found


def _any(flags: Bool, ring: Int64) -> Bool:
    """For each pair whether any of its ring is flagged."""
    found: Bool = (np.bincount(ring, flags) > 0)[ring]
    return found


def _touched(transfers: TransferTable, pairs: Int64, others: Int64) -> Bool:
    """Which pairs have an end that another pair has too."""
    ends = np.union1d(transfers.pair_src[others], transfers.pair_dst[others])
    return np.isin(transfers.pair_src[pairs], ends) | np.isin(transfers.pair_dst[pairs], ends)


def _by_contrast(
    transfers: TransferTable, candidates: Int64, features: PairFeatures, clock: StepClock, rules: LayoutRules
) -> tuple[Bool, Float64, Bool]:
    """The same without pipelines: pairs that are busy while those of gradients alone are silent."""
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    late_row = np.ones(transfers.start_ns.size, dtype=np.bool_)
    share = np.zeros(transfers.pair_count)
    steady = candidates[features.step_bytes[candidates] > 0]
    silent = _silent_slots(features.profile[steady], rules)
    if silent is None:
        return inside, share, late_row
    candidates = candidates[~_hops_of_silent_rings(transfers, features, candidates, steady, silent, rules)]
    boundary, steps = clock.boundary_ns, clock.boundary_ns.size - 1
    total, early, seen = _early_bytes(
        transfers.pair_offsets, transfers.start_ns, transfers.bytes, candidates, boundary, silent
    )
    busy = enough(total, early, seen, steps, rules)
    pairs = candidates[busy]
    if pairs.size:
        rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
        start = transfers.start_ns[rows]
        step = np.clip(np.searchsorted(boundary, start, side="right") - 1, 0, steps - 1)
        length = np.maximum(np.diff(boundary), 1)
        slot = (start - boundary[step]) * silent.size // length[step]
        late_row[rows] = ~silent[slot.clip(0, silent.size - 1)]
        inside[pairs] = _any((early >= rules.exchanges.sent_in_silence * total)[busy], _rings(transfers, pairs))
    return inside, share, late_row | ~transfers.rows_of(inside)


def _hops_of_silent_rings(
    transfers: TransferTable, features: PairFeatures, candidates: Int64, steady: Int64, silent: Bool, rules: LayoutRules
) -> Bool:
    """Pairs that are hops of the same ring as pairs that are silent, whatever their own moment: they carry the same
    bytes, and either go the other way round or are one of a ring's hops, of which each member has one."""
    quiet = steady[features.profile[steady][:, silent].sum(axis=1) < rules.exchanges.sent_in_silence]
    if not quiet.size:
        return np.zeros(candidates.size, dtype=np.bool_)
    level = np.log(np.maximum(features.step_bytes, 1.0))
    known = np.sort(level[quiet])
    near = np.searchsorted(known, level[candidates]).clip(1, max(known.size - 1, 1))
    off = np.minimum(
        np.abs(known[np.minimum(near, known.size - 1)] - level[candidates]), np.abs(known[near - 1] - level[candidates])
    )
    same: Bool = off <= rules.exchanges.same_hop
    src, dst = transfers.pair_src[candidates], transfers.pair_dst[candidates]
    sends = np.bincount(src[same], minlength=len(transfers.addresses))
    receives = np.bincount(dst[same], minlength=len(transfers.addresses))
    back = transfers.pairs_between(dst.astype(np.int64), src.astype(np.int64))
    answered = np.isin(back, candidates[same])
    label = component_labels(len(transfers.addresses), src[same], dst[same])
    joined = np.isin(label[src], label[transfers.pair_src[quiet]])
    single = (sends[src] <= 1) & (receives[dst] <= 1)
    return (same & joined & (answered | single)) | _other_way_round(transfers, candidates, back, quiet)


def _other_way_round(transfers: TransferTable, candidates: Int64, back: Int64, quiet: Int64) -> Bool:
    """Pairs that go round the same members as the quiet ones, the other way: a sharded optimizer may scatter gradients
    one way and gather parameters, in fewer bytes and at another moment, the other. `back` are the opposite pairs."""
    opposite: Bool = np.isin(back, quiet)
    count = len(transfers.addresses)
    src, dst = transfers.pair_src[candidates], transfers.pair_dst[candidates]
    once = (np.bincount(src[opposite], minlength=count) == 1) & (np.bincount(dst[opposite], minlength=count) == 1)
    own = component_labels(count, src[opposite], dst[opposite])
    theirs = component_labels(count, transfers.pair_src[quiet], transfers.pair_dst[quiet])
    same_size = np.bincount(own)[own] == np.bincount(theirs)[theirs]
    result: Bool = opposite & once[src] & once[dst] & same_size[src] & (np.bincount(own)[own] > 2)[src]
    return result


@kernel
def _early_bytes(
    offsets: Int64, start: Int64, size: Int64, candidates: Int64, boundary: Int64, silent: Bool
) -> tuple[Float64, Float64, Int64]:
    """Of each pair the bytes, those sent in the silent slots of the steps, and the steps that have such."""
    total, early, seen = np.zeros(candidates.size), np.zeros(candidates.size), np.zeros(candidates.size, dtype=np.int64)
    for index in range(candidates.size):
        step, last_seen = 0, -1
        for row in range(offsets[candidates[index]], offsets[candidates[index] + 1]):
            while step + 2 < boundary.size and start[row] >= boundary[step + 1]:
                step += 1
            length = max(boundary[step + 1] - boundary[step], 1)
            slot = (start[row] - boundary[step]) * silent.size // length
            total[index] += size[row]
            if silent[min(max(slot, 0), silent.size - 1)]:
                early[index] += size[row]
                seen[index] += step != last_seen
                last_seen = step
    return total, early, seen


def _silent_slots(profile: Float64, rules: LayoutRules) -> Bool | None:
    """The slots of the step in which pairs of gradients alone are silent; None where there are no such pairs."""
    rule = rules.exchanges
    if not profile.shape[0]:
        return None
    silent = profile <= rule.silent_slot / rules.kinds.profile_slots
    length = _longest_runs(silent) / rules.kinds.profile_slots
    long = float(np.quantile(length, 1.0 - rule.silent_pairs))
    if long < rules.sharding.silent_forward:
        return None
    agreed = silent[length >= rule.silences_alike * long].mean(axis=0) >= rule.silences_agreed
    first, count = _longest_arc(agreed)
    trim = int(np.ceil(rule.silence_trimmed * count))
    slots = np.zeros(rules.kinds.profile_slots, dtype=np.bool_)
    slots[(first + np.arange(trim, count - trim)) % rules.kinds.profile_slots] = True
    return slots


def _longest_runs(flags: Bool) -> Int64:
    """Length of each row's longest run of set flags, which may go on from the last slot to the first."""
    twice = np.concatenate([flags, flags], axis=1)
    slot = np.arange(twice.shape[1])
    last_unset = np.maximum.accumulate(np.where(twice, -1, slot), axis=1)
    length: Int64 = np.minimum((slot - last_unset).max(axis=1), flags.shape[1])
    return length


def _longest_arc(flags: Bool) -> tuple[int, int]:
    """First slot and length of the longest run of set flags, which may go on from the last slot to the first."""
    unset = np.flatnonzero(~flags)
    if not unset.size:
        return 0, int(flags.size)
    runs = np.diff(np.append(unset, unset[0] + flags.size)) - 1
    longest = int(np.argmax(runs))
    return int(unset[longest] + 1) % flags.size, int(runs[longest])
