"""Context-parallel rings that pass through servers with several ranks each.

Where a server holds more than one rank of a ring, only the hops between servers show: one NIC of a server receives,
another one sends, and between the two the ring goes on over NVLink. Such hops join no gradient group by themselves,
because gradients take rails of their own, and look like tensor parallelism across servers. But a tensor-parallel
group spans whole servers: its hops leave by every NIC that they arrive at, or by a single one. Contexts with a
tensor-parallel degree of their own use one set of NICs to receive and another of the same size to send, a lane for each
tensor rank; the lanes of a server are matched in the order of its NICs.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.model.job import Job
from llmprism.model.layout import Group, PairKind
from llmprism.parallelism.pair_ends import natural_order
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["beyond", "context_lanes"]


def context_lanes(job: Job, tensor: Bool, rules: LayoutRules = RULES) -> tuple[Group, ...]:
    """The rings, if the pairs taken for tensor parallelism are lanes of contexts; none otherwise."""
    pairs = np.flatnonzero(tensor)
    place = dict(zip(job.members, job.places, strict=False))
    src, dst = job.transfers.pair_src[pairs].astype(np.int64), job.transfers.pair_dst[pairs].astype(np.int64)
    members = np.union1d(src, dst)
    if not pairs.size or not all(place.get(int(member)) for member in members):
        return ()
    servers = [place[int(member)] for member in members]
    joints: list[tuple[int, int]] = []
    for server in sorted(set(servers)):
        own = members[[name == server for name in servers]]
        senders, receivers = _in_order(job, own, src), _in_order(job, own, dst)
        if (
            len(senders) < rules.exchanges.least_lanes
            or len(senders) != len(receivers)
            or set(senders) & set(receivers)
        ):
            return ()
        joints += zip(receivers, senders, strict=True)
    left = np.concatenate([src, [a for a, _ in joints]]).astype(np.int64)
    right = np.concatenate([dst, [b for _, b in joints]]).astype(np.int64)
    labels = component_labels(members.size, np.searchsorted(members, left), np.searchsorted(members, right))
    rings = [members[labels == label] for label in range(int(labels.max()) + 1)]
    return tuple(Group(PairKind.CP, tuple(int(member) for member in ring)) for ring in rings)


def _in_order(job: Job, own: Int64, ends: Int64) -> list[int]:
    """Those of a server's members that are among the ends, in the order of their addresses as numbers."""
    found = [int(member) for member in own if member in ends]
    return sorted(found, key=lambda member: natural_order(job.transfers.addresses[member]))


def beyond(meshes: tuple[Group, ...], rings: tuple[Group, ...]) -> tuple[Group, ...]:
    """The rings that are not all-to-alls again: what is left of those looks like a ring among the same members."""
    return tuple(ring for ring in rings if not any(set(ring.members) <= set(mesh.members) for mesh in meshes))
