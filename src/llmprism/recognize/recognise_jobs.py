"""Jobs from transfers: bulk pairs → clusters → step clocks → clusters that step together are one job.

Rails of one job share servers *and* step in lockstep; with both, clusters merge. Without a topology, clusters of the
same shape that step in lockstep merge when their members exchange control messages (ranks of one job know each other)
or when the lockstep is beyond chance.

Only three steps look at transfers: their totals (`segments`), the clocks of the clusters, and the rhythm of rails whose
clocks do not agree. Everything between them is judged by totals and clocks alone, so that transfers may lie anywhere.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.forked import forked_map
from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.flows import Int32, TransferTable, ranges
from llmprism.model.job import Job, Recognition
from llmprism.model.topology import Topology
from llmprism.recognize.bulk import PairEnds, bulk_pairs, outside_nodes, strong_pairs
from llmprism.recognize.candidates import Cluster, acquaintance, candidates
from llmprism.recognize.clock import cluster_clocks, distinct_clocks
from llmprism.recognize.clusters import cluster_pairs
from llmprism.recognize.epochs import reused_segments
from llmprism.recognize.joining import JobGroup, Joined, RailQuestion, job_groups, joined_by_clocks
from llmprism.recognize.lockstep import without_holes
from llmprism.recognize.rhythm import rhythm_bits
from llmprism.recognize.rules import RULES
from llmprism.recognize.segments import PairPieces, PairSegments, segments_of

Bool = NDArray[np.bool_]

__all__ = [
    "Draft",
    "JobDraft",
    "Joined",
    "RailQuestion",
    "crossing_pairs",
    "draft_clusters",
    "draft_jobs",
    "join_clusters",
    "recognize",
    "rhythm_bits",
    "unused_records",
]

SAME_PERIOD: Final = 0.1
"""Relative difference of the median steps that two rails of one job show: they may have missed some."""


@dataclass(frozen=True, slots=True)
class Draft:
    """What the graph of pairs says before any clock was asked: `bulk` marks its pieces, `clusters` lists theirs."""

    pieces: PairPieces
    bulk: Bool
    clusters: tuple[Int32, ...]


@dataclass(frozen=True, slots=True)
class JobDraft:
    """A job without its transfers: `pairs` are pieces, ascending; the rest is as in `Job`."""

    id: str
    members: tuple[int, ...]
    servers: tuple[str, ...]
    confidence: float
    pairs: Int32
    bulk: Bool
    clock: StepClock | None
    places: tuple[str, ...]
    outside_until_ns: int = 0
    clock_candidates: tuple[ClockCandidate, ...] = ()

    def job(self, transfers: TransferTable) -> Job:
        """The job with the transfers of its pairs."""
        return Job(
            self.id, self.members, self.servers, self.confidence, transfers, self.bulk, self.clock, self.places,
            self.outside_until_ns, self.clock_candidates,
        )  # fmt: skip


def recognize(transfers: TransferTable, topology: Topology | None = None, *, shared: bool = False) -> Recognition:
    """The training jobs in these transfers, and how many records belong to none.

    `shared`: a second process takes half of the clusters.
    """
    segments = segments_of(transfers)
    draft = draft_clusters(transfers, segments, topology)
    pieces = draft.pieces.cut(transfers)
    traffic = draft.pieces.traffic

    def clocks_of(pairs: Int32) -> tuple[ClockCandidate, ...]:
        return cluster_clocks(pieces, traffic, pairs)

    clocks = forked_map(clocks_of, draft.clusters, len) if shared else [clocks_of(pairs) for pairs in draft.clusters]
    joined = join_clusters(draft, clocks, topology)
    answers = [
        rhythm_bits(pieces, draft.clusters[question.left], draft.clusters[question.right], question.step_ns)
        for question in joined.questions
    ]
    drafts = draft_jobs(draft, joined, answers, topology)
    jobs = tuple(one.job(pieces.select_pairs(one.pairs)) for one in drafts)
    return Recognition(jobs, unused_records(draft, drafts), pieces.select_pairs(crossing_pairs(draft, drafts)))


def draft_clusters(pairs: PairEnds, segments: PairSegments, topology: Topology | None) -> Draft:
    """What belongs together by the graph of the pairs and their totals alone."""
    bulk = bulk_pairs(pairs, segments.traffic)
    cut = reused_segments(pairs.pair_src, pairs.pair_dst, segments, bulk)
    pieces = PairPieces.of(pairs.addresses, pairs.pair_src, pairs.pair_dst, segments, cut)
    traffic = pieces.traffic
    bulk = bulk[pieces.origin] & bulk_pairs(pieces, traffic)
    strong = strong_pairs(pieces, traffic, bulk)
    outside = outside_nodes(pieces, traffic, strong, topology)
    training = strong & ~outside[pieces.pair_src] & ~outside[pieces.pair_dst]
    clusters = cluster_pairs(pieces, traffic, training & (pieces.pair_src != pieces.pair_dst))
    return Draft(pieces, bulk, tuple(clusters))


def join_clusters(draft: Draft, clocks: Sequence[tuple[ClockCandidate, ...]], topology: Topology | None) -> Joined:
    """Which clusters step together; `clocks` has the candidates of every cluster of the draft."""
    clusters = _clusters(draft, clocks, topology)
    known = acquaintance(draft.pieces, clusters)
    return joined_by_clocks(clusters, candidates(clusters, known, acquaintance(draft.pieces, clusters, draft.bulk)))


def draft_jobs(draft: Draft, joined: Joined, answers: Sequence[float], topology: Topology | None) -> list[JobDraft]:
    """The jobs; `answers` has the bits (`rhythm_bits`) for each question that clocks left open."""
    server_of = topology.server_of() if topology else {}
    jobs = [
        _job(draft, [joined.clusters[i] for i in group.clusters], group, server_of)
        for group in job_groups(joined, answers)
        if any(joined.clusters[i].training for i in group.clusters)
    ]
    jobs = _numbered(sorted(jobs, key=lambda job: (job.members, job.id, _began(draft.pieces, job))))
    return [replace(job, outside_until_ns=until) for job, until in zip(jobs, _outside_until(draft, jobs), strict=True)]


def _outside_until(draft: Draft, jobs: Sequence[JobDraft]) -> list[int]:
    """When the members of each job last exchanged bulk traffic with somebody outside all jobs; 0 for never."""
    job_of = np.full(len(draft.pieces.addresses), len(jobs))
    for number, job in enumerate(jobs):
        job_of[list(job.members)] = number
    crossing = crossing_pairs(draft, jobs)
    until = np.zeros(len(jobs) + 1, dtype=np.int64)
    for ends in (draft.pieces.pair_src, draft.pieces.pair_dst):
        np.maximum.at(until, job_of[ends[crossing]], draft.pieces.traffic.last_ns[crossing])
    last: list[int] = until[:-1].tolist()
    return last


def _began(pieces: PairPieces, job: JobDraft) -> int:
    return int(pieces.traffic.first_ns[job.pairs[job.bulk]].min())


def _numbered(jobs: list[JobDraft]) -> list[JobDraft]:
    """The jobs, where several have the same members one after the other with their number in the id of the later."""
    seen: Counter[str] = Counter()
    result = []
    for job in jobs:
        seen[job.id] += 1
        result.append(job if seen[job.id] == 1 else replace(job, id=f"{job.id}-{seen[job.id]}"))
    return result


def _clusters(draft: Draft, clocks: Sequence[tuple[ClockCandidate, ...]], topology: Topology | None) -> list[Cluster]:
    server_of = topology.server_of() if topology else {}
    both = zip(draft.clusters, clocks, strict=True)
    return [_cluster(draft.pieces, pairs, candidates, server_of) for pairs, candidates in both]


def _cluster(
    pieces: PairPieces, pairs: Int32, clocks: tuple[ClockCandidate, ...], server_of: dict[str, str]
) -> Cluster:
    members = np.unique(np.concatenate([pieces.pair_src[pairs], pieces.pair_dst[pairs]])).astype(np.int64)
    names = (pieces.addresses[m] for m in members)
    servers = frozenset(server_of[name] for name in names if name in server_of)
    traffic = pieces.traffic
    first, last = int(traffic.first_ns[pairs].min()), int(traffic.last_ns[pairs].max())
    steady = without_holes(clocks[0].clock) if clocks else None
    steps = max((one.clock.steps for one in clocks), default=0)
    training = steps >= RULES.few_steps or _balanced(pieces, pairs, server_of)
    return Cluster(pairs, members, servers, clocks, steady, int(traffic.bytes[pairs].sum()), first, last, training)


def _balanced(pieces: PairPieces, pairs: Int32, server_of: dict[str, str]) -> bool:
    """Is what goes into the places (servers, or addresses where those are not known) of these pairs what comes out?"""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for pair in pairs.tolist():
        size = int(pieces.traffic.bytes[pair])
        for end, side in ((pieces.pair_src[pair], sent), (pieces.pair_dst[pair], received)):
            name = pieces.addresses[end]
            side[server_of.get(name, name)] += size
    through = sum(min(sent[place], received[place]) for place in sent)
    return through >= RULES.balance_levels[-1] * sent.total()


def _job(draft: Draft, clusters: list[Cluster], group: JobGroup, server_of: dict[str, str]) -> JobDraft:
    transfers, traffic = draft.pieces, draft.pieces.traffic
    members = np.unique(np.concatenate([cluster.members for cluster in clusters]))
    bulk_ids = np.unique(np.concatenate([cluster.pairs for cluster in clusters]))
    start, end = int(traffic.first_ns[bulk_ids].min()), int(traffic.last_ns[bulk_ids].max())
    sent = ranges(*(np.searchsorted(transfers.pair_src, members, side=side) for side in ("left", "right")))
    inside = np.isin(transfers.pair_dst[sent], members)
    inside &= (traffic.first_ns[sent] <= end) & (traffic.last_ns[sent] >= start)
    pairs = sent[inside].astype(np.int32)
    names = sorted(transfers.addresses[m] for m in members)
    chosen = _majority([cluster.clocks[0] for cluster in clusters if cluster.clocks])
    others = sorted((one for cluster in clusters for one in cluster.clocks), key=lambda one: -one.score)
    clock = chosen.clock if chosen is not None else None
    servers = sorted(frozenset().union(*(cluster.servers for cluster in clusters)))
    return JobDraft(
        id="job-" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:10],
        members=tuple(int(m) for m in members),
        servers=tuple(servers),
        confidence=_confidence(clock, group),
        pairs=pairs,
        bulk=draft.bulk[pairs],
        clock=clock,
        places=tuple(server_of.get(transfers.addresses[m], "") for m in members),
        clock_candidates=distinct_clocks([chosen, *others]) if chosen is not None else (),
    )


def _majority(candidates: list[ClockCandidate]) -> ClockCandidate | None:
    """Of the clocks that have the period that most have, the one that tells most steps most plainly."""
    if not candidates:
        return None
    usual = float(np.median([one.clock.period_ns for one in candidates]))
    agreeing = [one for one in candidates if abs(one.clock.period_ns - usual) <= SAME_PERIOD * usual]
    return max(agreeing or candidates, key=lambda one: (one.clock.dominance * one.clock.steps, one.clock.dominance))


def _confidence(clock: StepClock | None, group: JobGroup) -> float:
    """Without visible steps a cluster is only a guess; with them the doubt shrinks with their number, and what is left
    is that of its joints: parts that hold together barely, others that are kept out barely."""
    if clock is None:
        return 0.3
    shown = clock.dominance * (1.0 - 0.5 / max(clock.steps, 1))
    held, apart = (float(1.0 / (1.0 + np.exp2(-bits))) for bits in (group.held_by, group.kept_apart))
    return round(shown * held * apart, 3)


def crossing_pairs(draft: Draft, jobs: Sequence[JobDraft]) -> Int32:
    """Bulk pairs with one end in a job."""
    pieces = draft.pieces
    member = np.zeros(len(pieces.addresses), dtype=np.bool_)
    for job in jobs:
        member[list(job.members)] = True
    crossing = draft.bulk & (member[pieces.pair_src] != member[pieces.pair_dst])
    return np.flatnonzero(crossing).astype(np.int32)


def unused_records(draft: Draft, jobs: Sequence[JobDraft]) -> tuple[tuple[str, int], ...]:
    """Records that belong to no job, by reason."""
    keys = draft.pieces.pair_src.astype(np.int64) * len(draft.pieces.addresses) + draft.pieces.pair_dst
    used = np.isin(keys, np.concatenate([keys[job.pairs] for job in jobs])) if jobs else np.zeros(keys.size, np.bool_)
    total, bulk = draft.pieces.records, draft.bulk
    reasons = {"control_chatter": int(total[~used & ~bulk].sum()), "outside_jobs": int(total[~used & bulk].sum())}
    return tuple((reason, count) for reason, count in reasons.items() if count)
