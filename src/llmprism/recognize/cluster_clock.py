"""The step clock of a cluster.

Each busy link of the cluster, in one direction and in both, and the cluster as a whole (where it is small) is a
witness: its silences in byte-space show the steps or do not (`stats.byte_steps`). The clearest witness is believed.
Gradient links speak clearly (one long silence per step), sharded ones through the whole group, pipeline links through
their forward direction. A few witnesses suffice, because all links of a job step together. A witness of several pairs
must keep the bytes of each: activations and gradients of one link together look like two equal steps, one of each.

Other rhythms that witnesses show (checkpoints, layers, micro-batches) are kept as candidates behind the chosen one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import pairwise

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, ONE_MESSAGE_BYTES, TransferTable, ranges
from llmprism.recognize.bulk import PairEnds, PairTraffic, pair_traffic
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.recognize.without_meshes import has_meshes, without_meshes
from llmprism.stats.byte_steps import Chain, find_rhythms
from llmprism.stats.integer_order import stable_order
from llmprism.stats.robust import row_quantiles
from llmprism.stats.silences import Silences, silences_of

__all__ = ["cluster_clocks", "distinct_clocks", "witness_pairs"]


def cluster_clocks(
    transfers: TransferTable, traffic: PairTraffic, pairs: Int32, rules: RecognitionRules = RULES
) -> tuple[ClockCandidate, ...]:
    """The clock of the clearest witness, then other rhythms that witnesses show; none when no witness shows steps.

    Where no bytes come round, messages are counted instead: sequences of varying length change every message's size,
    but not how many there are in a step.
    """
    transfers, traffic, pairs = without_meshes(transfers, traffic, pairs, rules)
    by_bytes = _clocks_of(transfers, traffic, pairs, rules)
    if by_bytes:
        return by_bytes
    transfers, traffic, pairs = _as_messages(transfers, pairs, rules)
    return _clocks_of(transfers, traffic, pairs, rules, rules.witnesses.least_messages)


def distinct_clocks(
    candidates: Iterable[ClockCandidate], rules: RecognitionRules = RULES
) -> tuple[ClockCandidate, ...]:
    """The candidates without those whose period an earlier one has, the most telling few of them."""
    kept: list[ClockCandidate] = []
    periods: list[float] = []
    for one in candidates:
        period = one.clock.period_ns
        if all(abs(period - other) > rules.witnesses.same_rhythm * other for other in periods):
            kept.append(one)
            periods.append(period)
    return tuple(kept[: rules.witnesses.most_candidates])


def _as_messages(
    transfers: TransferTable, pairs: Int32, rules: RecognitionRules
) -> tuple[TransferTable, PairTraffic, Int32]:
    """These pairs alone, every message of one and the same size, heartbeats of none."""
    counted = transfers.select_pairs(pairs).as_messages()
    return counted, pair_traffic(counted, rules), np.arange(pairs.size, dtype=np.int32)


def _clocks_of(
    transfers: TransferTable,
    traffic: PairTraffic,
    pairs: Int32,
    rules: RecognitionRules,
    least_messages: int | None = None,
) -> tuple[ClockCandidate, ...]:
    """`least_messages` is the least number of messages in a step, where messages are counted in place of bytes."""
    best: ClockCandidate | None = None
    others: list[ClockCandidate] = []
    for witness in _witnesses(transfers, traffic, pairs, rules):
        silences = _series(transfers, witness)
        if not silences.count:
            continue  # nothing but heartbeats
        most = int(silences.bytes_before[-1]) // (least_messages * ONE_MESSAGE_BYTES) if least_messages else None
        chains = find_rhythms(silences, most, pauses=_one_way(transfers, traffic, witness, rules))
        shown = [_candidate(silences, chain) for chain in chains]
        if not chains or not _each_conserved(transfers, witness, shown[0].clock, rules):
            continue
        chain = chains[0]
        if best is None or shown[0].score > best.score:
            others, best = [*shown[1:], *others, *([] if best is None else [best])], shown[0]
        else:
            others.append(shown[0])
        left_over = (1.0 - chain.coverage) * float(silences.bytes_before[-1])
        if (
            chain.dominance >= rules.witnesses.clear_dominance
            and left_over <= rules.witnesses.cut_steps * chain.bytes_per_step
        ):
            break
    if best is None:
        return ()
    whole = replace(best, clock=_whole_steps(transfers, _sample(traffic, pairs, rules), best.clock, rules))
    return distinct_clocks([whole, best, *sorted(others, key=lambda one: -one.score)], rules)


def _candidate(silences: Silences, chain: Chain) -> ClockCandidate:
    clock = StepClock(silences.begin_ns[chain.boundaries], chain.regular, chain.dominance)
    return ClockCandidate(clock, chain.dominance * chain.coverage)


def witness_pairs(transfers: PairEnds, traffic: PairTraffic, pairs: Int32, rules: RecognitionRules = RULES) -> Int32:
    """The pairs of a cluster whose transfers `cluster_clocks` looks at; those of the others may be left empty."""
    if has_meshes(transfers, traffic, pairs):
        return pairs
    looked_at = [_sample(traffic, pairs, rules), *_witnesses(transfers, traffic, pairs, rules)]
    return np.unique(np.concatenate(looked_at)).astype(np.int32)


def _sample(traffic: PairTraffic, pairs: Int32, rules: RecognitionRules) -> Int32:
    """Pairs of all sizes: the heaviest, the lightest, and those next to levels in between.

    Kinds of traffic differ in size, and one kind may have a hundred times as many pairs as another.
    """
    order = pairs[np.argsort(traffic.bytes[pairs], kind="stable")]
    size = traffic.bytes[order].astype(np.float64)
    levels = np.geomspace(max(size[0], 1.0), max(size[-1], 1.0), rules.witnesses.sampled_sizes)
    between = order[np.minimum(np.searchsorted(size, levels), size.size - 1)]
    return np.unique(
        np.concatenate([order[: rules.witnesses.links_tried], order[-rules.witnesses.links_tried :], between])
    ).astype(np.int32)


def _whole_steps(transfers: TransferTable, pairs: Int32, clock: StepClock, rules: RecognitionRules) -> StepClock:
    """The clock, its ticks joined in twos to fours where only that makes every pair's bytes the same each time.

    One link may repeat itself within a step; the others do not.
    """
    sent = _sent_by(transfers.pair_offsets, transfers.start_ns, transfers.bytes, pairs, clock.boundary_ns)
    if _variation(np.diff(sent, axis=1)[:, clock.regular], rules) <= rules.witnesses.most_variation:
        return clock
    for ticks in range(2, rules.witnesses.most_ticks + 1):
        for offset in range(ticks):
            chosen = np.arange(offset, clock.boundary_ns.size, ticks)
            joined = np.diff(sent[:, chosen], axis=1)
            if (
                joined.shape[1] >= rules.witnesses.least_joined
                and _variation(joined, rules) <= rules.witnesses.joined_variation
            ):
                regular = np.array([clock.regular[a:b].all() for a, b in pairwise(chosen)], dtype=np.bool_)
                return StepClock(clock.boundary_ns[chosen], regular, clock.dominance)
    return clock


def _sent_by_search(offsets: Int64, start: Int64, size: Int64, pairs: Int32, boundary: Int64) -> Int64:
    """The kernel below with a search for each pair."""
    sent = np.empty((pairs.size, boundary.size), dtype=np.int64)
    for index, pair in enumerate(pairs):
        rows = slice(int(offsets[pair]), int(offsets[pair + 1]))
        sent[index] = np.append(0, np.cumsum(size[rows]))[np.searchsorted(start[rows], boundary)]
    return sent


@kernel(small=_sent_by_search)
def _sent_by(offsets: Int64, start: Int64, size: Int64, pairs: Int32, boundary: Int64) -> Int64:
    """Bytes that each of the pairs had begun to send by each boundary."""
    sent = np.empty((pairs.size, boundary.size), dtype=np.int64)
    for index in range(pairs.size):
        row, end, total = offsets[pairs[index]], offsets[pairs[index] + 1], np.int64(0)
        for k in range(boundary.size):
            while row < end and start[row] < boundary[k]:
                total += size[row]
                row += 1
            sent[index, k] = total
    return sent


def _variation(by_step: Int64, rules: RecognitionRules) -> float:
    """Half the distance between the outer fifths of the pairs' bytes, summed, relative to their mean bytes.

    Not the median deviation: of two kinds of steps in turn, the more frequent one would have none.
    """
    outer = rules.witnesses.outer_steps
    low, high = row_quantiles(by_step, outer, 1.0 - outer)
    return float((high - low).sum() / 2.0 / max(by_step.mean(axis=1).sum(), 1.0))


def _each_conserved(transfers: TransferTable, pairs: Int32, clock: StepClock, rules: RecognitionRules) -> bool:
    """Does each pair of the witness carry the same bytes step after step?"""
    if pairs.size == 1:
        return True
    sent = _sent_by(transfers.pair_offsets, transfers.start_ns, transfers.bytes, pairs, clock.boundary_ns)
    return _variation(np.diff(sent, axis=1)[:, clock.regular], rules) <= rules.witnesses.most_variation


def _one_way(transfers: TransferTable, traffic: PairTraffic, pairs: Int32, rules: RecognitionRules) -> bool:
    """Does every link among these pairs carry its bytes one way only, as the rings of gradients do?"""
    if pairs.size == 1:
        return True
    _, link_of = np.unique(_link_keys(transfers, pairs), return_inverse=True)
    total = np.bincount(link_of, traffic.bytes[pairs])
    largest = np.zeros(total.size)
    np.maximum.at(largest, link_of, traffic.bytes[pairs])
    return bool((largest >= rules.witnesses.ring_one_way * total).all())


def _witnesses(transfers: PairEnds, traffic: PairTraffic, pairs: Int32, rules: RecognitionRules) -> Iterator[Int32]:
    links, link_of = np.unique(_link_keys(transfers, pairs), return_inverse=True)
    members = np.unique(np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]]))
    volume = np.bincount(link_of, traffic.bytes[pairs])
    order = np.argsort(-volume, kind="stable")
    tried = list(
        dict.fromkeys(
            [*order[: rules.witnesses.links_tried].tolist(), *order[::-1][: rules.witnesses.links_tried].tolist()]
        )
    )
    if rules.witnesses.mesh_links * members.size <= links.size <= rules.witnesses.most_mesh_links:
        yield pairs
    yield pairs[link_of == tried[0]]
    if pairs.size <= rules.witnesses.whole_cluster_pairs and links.size > 1:
        yield pairs
    for link in tried[1:]:
        yield pairs[link_of == link]
    for link in tried:
        both = pairs[link_of == link]
        if both.size > 1:
            yield from (both[i : i + 1] for i in range(both.size))


def _link_keys(transfers: PairEnds, pairs: Int32) -> Int64:
    """A number for the link of each pair, the same for both directions; ordered by the ends of the links."""
    src, dst = transfers.pair_src[pairs].astype(np.int64), transfers.pair_dst[pairs].astype(np.int64)
    low, high = np.minimum(src, dst), np.maximum(src, dst)
    return low * (int(high.max(initial=0)) + 1) + high


def _series(transfers: TransferTable, pairs: Int32) -> Silences:
    if pairs.size == 1:  # whose transfers are in their order
        own = slice(int(transfers.pair_offsets[pairs[0]]), int(transfers.pair_offsets[pairs[0] + 1]))
        return silences_of(transfers.start_ns[own], transfers.end_ns[own], transfers.bytes[own], MESSAGE_FLOOR_BYTES)
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    start: Int64 = transfers.start_ns[rows]
    order = stable_order(start)
    rows = rows[order]
    return silences_of(start[order], transfers.end_ns[rows], transfers.bytes[rows], MESSAGE_FLOOR_BYTES)
