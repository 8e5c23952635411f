"""Clusters as they are compared, and which of them are worth comparing.

Comparing two step clocks takes a fraction of a millisecond, and thousands of clusters make millions of pairs. So only
those meet that may be parts of one job: clusters whose members know each other or share a server, and where servers are
not known clusters of one shape. Clusters of many small jobs of one configuration are still compared two by two.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.flows import Int32, Int64
from llmprism.recognize.bulk import PairEnds

__all__ = ["Cluster", "acquaintance", "candidates", "same_shape"]

SAME_SHAPE: Final = 0.02
"""Relative difference of bytes between two rails of one job."""

EDGE_STEPS: Final = 1.0
"""Steps by which the window may cut two rails differently."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the bulk traffic connects; `steady` is the best clock without its holes."""

    pairs: Int32
    members: Int64
    servers: frozenset[str]
    clocks: tuple[ClockCandidate, ...]
    steady: StepClock | None
    bytes: int
    first_ns: int
    last_ns: int

    @property
    def clock(self) -> StepClock | None:
        """The best of its clocks, if its steps show."""
        return self.clocks[0].clock if self.clocks else None


def acquaintance(transfers: PairEnds, clusters: list[Cluster]) -> frozenset[tuple[int, int]]:
    """Which clusters (the lower index first) exchange any messages at all; bulk traffic never joins two."""
    owner = np.full(len(transfers.addresses), -1, dtype=np.int64)
    for index, cluster in enumerate(clusters):
        owner[cluster.members] = index
    a, b = owner[transfers.pair_src], owner[transfers.pair_dst]
    both = (a >= 0) & (b >= 0) & (a != b)
    low, high = np.minimum(a, b)[both], np.maximum(a, b)[both]
    key = np.unique(low * len(clusters) + high)
    return frozenset(zip((key // max(len(clusters), 1)).tolist(), (key % max(len(clusters), 1)).tolist(), strict=True))


def candidates(clusters: list[Cluster], known: frozenset[tuple[int, int]]) -> list[tuple[int, int]]:
    """Pairs of clusters worth comparing, in order: acquainted, on common servers, or of one shape where the servers of
    one of them are not known."""
    close = set(known)
    by_server: dict[str, list[int]] = {}
    for index, cluster in enumerate(clusters):
        for server in cluster.servers:
            by_server.setdefault(server, []).append(index)
    for together in {tuple(together) for together in by_server.values()}:
        close.update(combinations(together, 2))
    close.update(_alike(clusters))
    return sorted(close)


def _alike(clusters: list[Cluster]) -> Iterator[tuple[int, int]]:
    """Clusters with steps and of one shape, not both of which have known servers (the lower index first)."""
    by_size: dict[int, list[int]] = {}
    for index, cluster in enumerate(clusters):
        if cluster.clock is not None:
            by_size.setdefault(cluster.members.size, []).append(index)
    for alike in by_size.values():
        placed = np.array([bool(clusters[i].servers) for i in alike])
        traffic = np.array([clusters[i].bytes for i in alike], dtype=np.float64)
        apart = np.array([_apart(clusters[i]) for i in alike])
        for here in range(0 if placed.all() else len(alike)):
            others = slice(here + 1, None)
            most, wider = np.maximum(traffic[others], traffic[here]), np.maximum(apart[others], apart[here])
            same = np.abs(traffic[others] - traffic[here]) <= wider * most
            same &= ~(placed[others] & placed[here])
            for other in np.flatnonzero(same).tolist():
                yield alike[here], alike[here + 1 + other]


def _apart(*clusters: Cluster) -> float:
    """Relative difference of their bytes up to which clusters are of one shape; that of the one with fewer steps."""
    steps = min(cluster.clock.steps if cluster.clock is not None else 0 for cluster in clusters)
    return max(SAME_SHAPE, EDGE_STEPS / steps) if steps else SAME_SHAPE


def same_shape(a: Cluster, b: Cluster) -> bool:
    """Have they as many members and, as far as the window's edges allow, the same bytes?"""
    return a.members.size == b.members.size and abs(a.bytes - b.bytes) <= _apart(a, b) * max(a.bytes, b.bytes)
