"""Jobs by the published rule: clusters of hosts that talk, joined where they stand on the same servers.

The two ends of every flow belong together, which gives one cluster per rail; clusters whose sets of servers have a
Jaccard similarity of exactly 1 are one job. Timing plays no part, any flow counts, and nothing is too small to join
two clusters: see docs/explanation/paper-baseline.md for where that breaks. Without a topology every address is a server
of its own, and the clusters stay apart.

Reference: LLMPrism, arXiv 2505.00342 (DSN'25), job recognition.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict

import numpy as np

from llmprism.model import Job, Topology, TransferTable
from llmprism.stats.disjoint_sets import component_labels

__all__ = ["recognize_paper"]


def recognize_paper(transfers: TransferTable, topology: Topology | None) -> tuple[Job, ...]:
    """The jobs in the order of their lowest address ids; `transfers` has one row per record."""
    talking = np.unique(np.concatenate((transfers.pair_src, transfers.pair_dst)))
    labels = component_labels(len(transfers.addresses), transfers.pair_src, transfers.pair_dst)
    server_of = topology.server_of() if topology is not None else {}
    clusters: defaultdict[int, list[int]] = defaultdict(list)
    for address in talking.tolist():
        clusters[int(labels[address])].append(address)
    jobs: defaultdict[frozenset[str], list[int]] = defaultdict(list)
    for members in clusters.values():
        names = (transfers.addresses[member] for member in members)
        jobs[frozenset(server_of.get(name, name) for name in names)].extend(members)
    return tuple(
        _job(transfers, sorted(members), servers if topology is not None else frozenset())
        for servers, members in jobs.items()
    )


def _job(transfers: TransferTable, members: list[int], servers: frozenset[str]) -> Job:
    belongs = np.zeros(len(transfers.addresses), dtype=np.bool_)
    belongs[members] = True
    names = sorted(transfers.addresses[member] for member in members)
    digest = hashlib.blake2b("\n".join(names).encode(), digest_size=4).hexdigest()
    return Job(
        id=f"job-{digest}",
        members=tuple(members),
        servers=tuple(sorted(servers)),
        confidence=1.0,  # the rule knows no doubt
        transfers=transfers.select_pairs(np.flatnonzero(belongs[transfers.pair_src]).astype(np.int32)),
    )
