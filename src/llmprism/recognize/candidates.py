"""Clusters as they are compared, which of them are worth comparing, and what is known before they are.

Comparing two clusters takes up to some milliseconds, and thousands of clusters make millions of pairs. So only those
meet that may be parts of one job: clusters on common servers, clusters whose members exchange anything at all, and
where servers are not known clusters of one period. What speaks for one job before any time is compared is counted in
bits: the acquaintance of the members is worth as much as it is rare, and where every cluster of one period is tried,
each of them starts with the logarithm of their number against it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from llmprism.arrays import Bool, Int32, Int64
from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.recognize.bulk import PairEnds
from llmprism.recognize.rules import RULES, RecognitionRules

__all__ = ["Candidate", "PairCluster", "acquaintance", "candidates", "same_shape"]

Pair = tuple[int, int]


@dataclass(frozen=True, slots=True)
class PairCluster:
    """What the strong links connect; `steady` is the best clock without its holes. `training` is False where the
    traffic only flows from some members to others and shows no steps: readers, or requests and answers. `placed`: the
    topology lists all members."""

    pairs: Int32
    members: Int64
    servers: frozenset[str]
    clocks: tuple[ClockCandidate, ...]
    steady: StepClock | None
    bytes: int
    first_ns: int
    last_ns: int
    training: bool = True
    placed: bool = False

    @property
    def clock(self) -> StepClock | None:
        """The best of its clocks, if its steps show."""
        return self.clocks[0].clock if self.clocks else None


@dataclass(frozen=True, slots=True)
class Candidate:
    """Two clusters (indices, the lower first) that may be of one job, and the bits for it before time is compared."""

    left: int
    right: int
    bits: float


def acquaintance(pairs: PairEnds, clusters: list[PairCluster], chosen: Bool | None = None) -> frozenset[Pair]:
    """Which clusters (the lower index first) exchange any messages at all, or any of the chosen pairs."""
    owner = np.full(len(pairs.addresses), -1, dtype=np.int64)
    for index, cluster in enumerate(clusters):
        owner[cluster.members] = index
    a, b = owner[pairs.pair_src], owner[pairs.pair_dst]
    both = (a >= 0) & (b >= 0) & (a != b)
    if chosen is not None:
        both &= chosen
    low, high = np.minimum(a, b)[both], np.maximum(a, b)[both]
    key = np.unique(low * len(clusters) + high)
    return frozenset(zip((key // max(len(clusters), 1)).tolist(), (key % max(len(clusters), 1)).tolist(), strict=True))


def candidates(
    clusters: list[PairCluster], known: frozenset[Pair], by_bulk: frozenset[Pair] = frozenset(),
    rules: RecognitionRules = RULES,
) -> list[Candidate]:  # fmt: skip
    """Pairs of clusters worth comparing, in order. `known` exchange something, `by_bulk` messages of some size."""
    all_pairs = max(len(clusters) * (len(clusters) - 1) / 2, 1.0)
    rare = min(float(np.log2(all_pairs / len(known))), rules.chatter_known_bits) if known else 0.0
    alike = set(_of_one_period(clusters, rules))
    alike |= _of_unknown_period(clusters, rules)
    close = [
        (i, j)
        for i, j in sorted(_on_common_servers(clusters) | alike | by_bulk | (known if rare >= 1.0 else set()))
        if clusters[i].training and clusters[j].training
    ]
    tried = Counter(index for pair in close for index in pair)
    found = []
    for i, j in close:
        a, b = clusters[i], clusters[j]
        if np.intersect1d(a.members, b.members, assume_unique=True).size:
            continue  # the same addresses at another time
        bits = rules.bulk_known_bits if (i, j) in by_bulk else rare if (i, j) in known else 0.0
        bits += rules.same_shape_bits if same_shape(a, b, rules) else 0.0
        if a.servers and b.servers:
            bits += rules.shared_servers_bits if a.servers & b.servers else rules.apart_bits
        elif (i, j) not in by_bulk:
            bits += rules.unplaced_bits - float(np.log2(min(tried[i], tried[j])))
        found.append(Candidate(i, j, bits))
    return found


def _on_common_servers(clusters: list[PairCluster]) -> set[Pair]:
    by_server: dict[str, list[int]] = {}
    for index, cluster in enumerate(clusters):
        for server in cluster.servers:
            by_server.setdefault(server, []).append(index)
    return {pair for together in {tuple(each) for each in by_server.values()} for pair in combinations(together, 2)}


def _of_one_period(clusters: list[PairCluster], rules: RecognitionRules) -> Iterator[Pair]:
    """Clusters that have a rhythm of about one period, not both of which have known servers (the lower index first)."""
    if all(cluster.servers for cluster in clusters):
        return
    owner = np.array([index for index, cluster in enumerate(clusters) for _ in cluster.clocks], dtype=np.int64)
    period = np.array([one.clock.period_ns for cluster in clusters for one in cluster.clocks])
    order = np.argsort(period, kind="stable")
    owner, period = owner[order], period[order]
    last = np.searchsorted(period, (1.0 + rules.common_period) * period, side="right")
    for rank, here in enumerate(owner.tolist()):
        for other in owner[rank + 1 : last[rank]].tolist():
            if here != other and not (clusters[here].servers and clusters[other].servers):
                yield min(here, other), max(here, other)


def _of_unknown_period(clusters: list[PairCluster], rules: RecognitionRules) -> set[Pair]:
    """Clusters on unknown servers whose steps do not show, each with all others, where that is affordable."""
    vague = [
        index
        for index, cluster in enumerate(clusters)
        if not cluster.servers and not any(one.clock.steps >= rules.few_steps for one in cluster.clocks)
    ]
    if len(vague) * len(clusters) > rules.many_questions:
        return set()
    return {(min(i, j), max(i, j)) for i in vague for j in range(len(clusters)) if i != j}


def same_shape(a: PairCluster, b: PairCluster, rules: RecognitionRules = RULES) -> bool:
    """Have they as many members and, as far as the window's edges allow (a step more or less), the same bytes?"""
    steps = min(one.clock.steps if one.clock is not None else 0 for one in (a, b))
    apart = max(rules.same_shape, 1.0 / steps) if steps else rules.same_shape
    return a.members.size == b.members.size and abs(a.bytes - b.bytes) <= apart * max(a.bytes, b.bytes)
