"""Jobs from transfers: bulk pairs → clusters → step clocks → clusters that step together are one job.

Rails of one job share servers *and* step in lockstep; with both, clusters merge. Without a topology, clusters of the
same shape that step in lockstep merge when their members exchange control messages (ranks of one job know each other)
or when the lockstep is beyond chance.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import Int32, Int64, TransferTable
from llmprism.model.job import Job, Recognition
from llmprism.model.topology import Topology
from llmprism.recognize.beside_meshes import beside_meshes
from llmprism.recognize.bulk import PairTraffic, bulk_pairs, outside_nodes, pair_traffic
from llmprism.recognize.clock import cluster_clock
from llmprism.recognize.clusters import cluster_pairs
from llmprism.recognize.epochs import cut_reused_pairs
from llmprism.recognize.lockstep import lockstep, subdivides
from llmprism.recognize.rhythm import rhythm
from llmprism.stats.disjoint_sets import component_labels

Bool = NDArray[np.bool_]

__all__ = ["recognize"]

SHARED_SERVERS: Final = 0.5
"""Share of common servers from which lockstep alone decides: rails of one job normally share all."""

LOCKSTEP: Final = 0.6
"""Concentration asked of clusters that share servers or know each other: rails of real jobs reach 0.7-1.0 (stages end
a step at different times), unrelated jobs stay near 1/sqrt(steps)."""

LOCKSTEP_KNOWN: Final = 0.4
"""Asked of clusters that share servers and know each other: rails that meet once a step reach 0.5 in twenty steps."""

LOCKSTEP_ALONE: Final = 0.95
"""Concentration asked of clusters with nothing else in common but their shape."""

RHYTHM: Final = 0.3
"""Correlation of their messages' starts asked of clusters of one shape on the same servers."""

SAME_SHAPE: Final = 0.02
"""Relative difference of bytes between two rails of one job."""

EDGE_STEPS: Final = 1.0
"""Steps by which the window may cut two rails differently."""


@dataclass(frozen=True, slots=True)
class _Cluster:
    pairs: Int32
    members: Int64
    servers: frozenset[str]
    clock: StepClock | None
    bytes: int


def recognize(transfers: TransferTable, topology: Topology | None = None) -> Recognition:
    """The training jobs in these transfers, and how many records belong to none."""
    traffic = pair_traffic(transfers)
    transfers, bulk = cut_reused_pairs(transfers, bulk_pairs(transfers, traffic))
    traffic = pair_traffic(transfers)
    bulk &= bulk_pairs(transfers, traffic)
    outside = outside_nodes(transfers, traffic, bulk, topology)
    training = bulk & ~outside[transfers.pair_src] & ~outside[transfers.pair_dst]
    server_of = topology.server_of() if topology else {}
    clusters = [_cluster(transfers, traffic, pairs, server_of) for pairs in cluster_pairs(transfers, traffic, training)]
    clusters = [cluster for cluster in clusters if cluster.members.size > 1]
    labels = _merge(transfers, clusters, _acquaintance(transfers, clusters))
    jobs = [
        _job(transfers, traffic, [clusters[i] for i in np.flatnonzero(labels == label)], server_of)
        for label in range(int(labels.max(initial=-1)) + 1)
    ]
    jobs.sort(key=lambda job: (job.members, job.id))
    return Recognition(tuple(jobs), _unused(transfers, jobs, bulk), _outside(transfers, jobs, bulk))


def _cluster(transfers: TransferTable, traffic: PairTraffic, pairs: Int32, server_of: dict[str, str]) -> _Cluster:
    members = np.unique(np.concatenate([transfers.pair_src[pairs], transfers.pair_dst[pairs]])).astype(np.int64)
    names = (transfers.addresses[m] for m in members)
    servers = frozenset(server_of[name] for name in names if name in server_of)
    clock = cluster_clock(*beside_meshes(transfers, traffic, pairs))
    return _Cluster(pairs, members, servers, clock, int(traffic.bytes[pairs].sum()))


def _acquaintance(transfers: TransferTable, clusters: list[_Cluster]) -> Bool:
    """Which clusters exchange any messages at all (they are never joined by bulk traffic)."""
    count = len(clusters)
    known = np.zeros((count, count), dtype=np.bool_)
    owner = np.full(len(transfers.addresses), -1, dtype=np.int64)
    for index, cluster in enumerate(clusters):
        owner[cluster.members] = index
    a, b = owner[transfers.pair_src], owner[transfers.pair_dst]
    both = (a >= 0) & (b >= 0)
    known[a[both], b[both]] = True
    return known | known.T


def _merge(transfers: TransferTable, clusters: list[_Cluster], known: Bool) -> Int64:
    left: list[int] = []
    right: list[int] = []
    for i, j in _candidates(clusters, known):
        a, b = clusters[i], clusters[j]
        if _one_job(a, b, bool(known[i, j])) or _rails(transfers, a, b):
            left.append(i)
            right.append(j)
    return component_labels(len(clusters), left, right)


def _candidates(clusters: list[_Cluster], known: Bool) -> list[tuple[int, int]]:
    """Pairs of clusters worth comparing: on common servers, acquainted, or of one size."""
    size = np.array([cluster.members.size for cluster in clusters])
    close = known | (size[:, None] == size[None, :])
    by_server: dict[str, list[int]] = {}
    for index, cluster in enumerate(clusters):
        for server in cluster.servers:
            by_server.setdefault(server, []).append(index)
    for together in by_server.values():
        close[np.ix_(together, together)] = True
    i, j = np.nonzero(np.triu(close, 1))
    return list(zip(i.tolist(), j.tolist(), strict=True))


def _one_job(a: _Cluster, b: _Cluster, known: bool) -> bool:
    if np.intersect1d(a.members, b.members).size:
        return False
    if a.clock is None or b.clock is None:
        return a.clock is b.clock and a.servers == b.servers and len(a.servers) > 0 and _same_shape(a, b)
    shared = _overlap(a.servers, b.servers)
    same_shape = _same_shape(a, b)
    if known and shared >= SHARED_SERVERS:
        needed = LOCKSTEP_KNOWN
    elif shared >= SHARED_SERVERS or (known and same_shape):
        needed = LOCKSTEP
    elif same_shape and not (a.servers and b.servers):
        needed = LOCKSTEP_ALONE
    else:
        return False
    if same_shape and a.servers == b.servers and (subdivides(a.clock, b.clock) or subdivides(b.clock, a.clock)):
        return len(a.servers) > 0
    return lockstep(a.clock, b.clock) >= needed


def _rails(transfers: TransferTable, a: _Cluster, b: _Cluster) -> bool:
    """Are these two rails of one job by the moments at which they send, whatever their clocks say?"""
    clock = a.clock or b.clock
    if clock is None or not a.servers or a.servers != b.servers or not _same_shape(a, b):
        return False
    if np.intersect1d(a.members, b.members).size:
        return False
    return rhythm(transfers, a.pairs, b.pairs, clock.period_ns) >= RHYTHM


def _same_shape(a: _Cluster, b: _Cluster) -> bool:
    steps = min(clock.steps for clock in (a.clock, b.clock)) if a.clock and b.clock else 0
    apart = max(SAME_SHAPE, EDGE_STEPS / steps) if steps else SAME_SHAPE
    return a.members.size == b.members.size and abs(a.bytes - b.bytes) <= apart * max(a.bytes, b.bytes)


def _overlap(a: frozenset[str], b: frozenset[str]) -> float:
    """Share of the smaller set that lies in the larger: leaders of servers form a cluster over all of them."""
    return len(a & b) / min(len(a), len(b)) if a and b else 0.0


def _job(transfers: TransferTable, traffic: PairTraffic, clusters: list[_Cluster], server_of: dict[str, str]) -> Job:
    members = np.unique(np.concatenate([cluster.members for cluster in clusters]))
    bulk_ids = np.unique(np.concatenate([cluster.pairs for cluster in clusters]))
    inside = np.isin(transfers.pair_src, members) & np.isin(transfers.pair_dst, members)
    start, end = int(traffic.first_ns[bulk_ids].min()), int(traffic.last_ns[bulk_ids].max())
    inside &= (traffic.first_ns <= end) & (traffic.last_ns >= start)
    pairs = np.flatnonzero(inside).astype(np.int32)
    names = sorted(transfers.addresses[m] for m in members)
    clocks = [cluster.clock for cluster in clusters if cluster.clock is not None]
    clock = _majority(clocks)
    servers = sorted(frozenset().union(*(cluster.servers for cluster in clusters)))
    return Job(
        id="job-" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:10],
        members=tuple(int(m) for m in members),
        servers=tuple(servers),
        confidence=_confidence(clock),
        transfers=transfers.select_pairs(pairs),
        bulk=np.isin(pairs, bulk_ids),
        clock=clock,
        places=tuple(server_of.get(transfers.addresses[m], "") for m in members),
    )


def _majority(clocks: list[StepClock]) -> StepClock | None:
    """The plainest of the clocks that count as many steps as most do."""
    if not clocks:
        return None
    usual = float(np.median([clock.steps for clock in clocks]))
    agreeing = [clock for clock in clocks if abs(clock.steps - usual) <= SAME_SHAPE * usual + 1]
    return max(agreeing or clocks, key=lambda clock: (clock.dominance, clock.steps))


def _confidence(clock: StepClock | None) -> float:
    """Without visible steps a cluster is only a guess; with them the doubt shrinks with their number."""
    if clock is None:
        return 0.3
    return round(clock.dominance * (1.0 - 0.5 / max(clock.steps, 1)), 3)


def _outside(transfers: TransferTable, jobs: list[Job], bulk: Bool) -> TransferTable:
    """Bulk transfers with one end in a job."""
    member = np.zeros(len(transfers.addresses), dtype=np.bool_)
    for job in jobs:
        member[list(job.members)] = True
    crossing = bulk & (member[transfers.pair_src] != member[transfers.pair_dst])
    return transfers.select_pairs(np.flatnonzero(crossing).astype(np.int32))


def _unused(transfers: TransferTable, jobs: list[Job], bulk: Bool) -> tuple[tuple[str, int], ...]:
    total = np.add.reduceat(transfers.records, transfers.pair_offsets[:-1]) if transfers.pair_count else np.zeros(0)
    used_keys = [_pair_keys(job.transfers) for job in jobs]
    used = np.isin(_pair_keys(transfers), np.concatenate(used_keys)) if used_keys else np.zeros(bulk.size, np.bool_)
    reasons = {"control_chatter": int(total[~used & ~bulk].sum()), "outside_jobs": int(total[~used & bulk].sum())}
    return tuple((reason, count) for reason, count in reasons.items() if count)


def _pair_keys(transfers: TransferTable) -> Int64:
    return transfers.pair_src.astype(np.int64) * len(transfers.addresses) + transfers.pair_dst
