"""Clusters as they are compared, and which of them are worth comparing.

Comparing two step clocks takes a fraction of a millisecond, and thousands of clusters make millions of pairs. So only
those meet that may be parts of one job: clusters whose members know each other or share a server, and where servers are
not known clusters of one shape and one period, found by sorting.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Final

import numpy as np

from llmprism.model.clock import StepClock
from llmprism.model.flows import Int32, Int64
from llmprism.recognize.bulk import PairEnds

__all__ = ["SAME_SHAPE", "Cluster", "acquaintance", "candidates", "same_shape"]

SAME_SHAPE: Final = 0.02
"""Relative difference of bytes between two rails of one job."""

SAME_PERIOD: Final = 1.1
"""Ratio of the periods of two clocks that may keep step; clocks in lockstep count as many steps to 5 %."""

EDGE_STEPS: Final = 1.0
"""Steps by which the window may cut two rails differently."""


@dataclass(frozen=True, slots=True)
class Cluster:
    """What the bulk traffic connects; `steady` is the clock without its holes."""

    pairs: Int32
    members: Int64
    servers: frozenset[str]
    clock: StepClock | None
    steady: StepClock | None
    bytes: int
    first_ns: int
    last_ns: int


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
    """Pairs of clusters worth comparing, in order: acquainted, on common servers, or of one shape and period where the
    servers of one of them are not known."""
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
    """Clusters of one shape with nearly the same period, not both of which have known servers (the lower index first).

    They are sorted by size and period, so that each meets only its neighbours.
    """
    stepping = [index for index, cluster in enumerate(clusters) if cluster.clock is not None]
    if all(clusters[index].servers for index in stepping):
        return
    size, period, traffic, steps, placed = (
        np.array(column) for column in zip(*(_shape(clusters[index]) for index in stepping), strict=True)
    )
    order = np.lexsort((period, size))
    index, size, period = np.array(stepping)[order], size[order], period[order]
    traffic, steps, placed = traffic[order], steps[order], placed[order]
    for here in range(order.size):
        group_end = np.searchsorted(size, size[here], side="right")
        end = here + np.searchsorted(period[here:group_end], SAME_PERIOD * period[here], side="right")
        others = slice(here + 1, end)
        least = np.minimum(steps[others], steps[here])
        apart = np.where(least > 0, np.maximum(SAME_SHAPE, EDGE_STEPS / np.maximum(least, 1)), SAME_SHAPE)
        most = np.maximum(traffic[others], traffic[here])
        same = (np.abs(traffic[others] - traffic[here]) <= apart * most) & ~(placed[others] & placed[here])
        for other in index[others][same].tolist():
            yield min(int(index[here]), other), max(int(index[here]), other)


def _shape(cluster: Cluster) -> tuple[int, float, int, int, bool]:
    """Members, period, bytes, steps, and whether its servers are known."""
    assert cluster.clock is not None  # noqa: S101 - asked by the caller
    clock = cluster.clock
    return cluster.members.size, clock.period_ns, cluster.bytes, clock.steps, bool(cluster.servers)


def same_shape(a: Cluster, b: Cluster) -> bool:
    steps = min(clock.steps for clock in (a.clock, b.clock)) if a.clock and b.clock else 0
    apart = max(SAME_SHAPE, EDGE_STEPS / steps) if steps else SAME_SHAPE
    return a.members.size == b.members.size and abs(a.bytes - b.bytes) <= apart * max(a.bytes, b.bytes)
