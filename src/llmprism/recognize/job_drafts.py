"""Jobs as they are drafted: members, pairs, clock and confidence of each, from the clusters that were joined."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.arrays import Int32, Int64
from llmprism.model.clock import ClockCandidate
from llmprism.model.flows import ranges
from llmprism.model.topology import Topology
from llmprism.recognize.candidates import PairCluster
from llmprism.recognize.cluster_clock import distinct_clocks
from llmprism.recognize.draft import Draft, JobDraft, crossing_pairs
from llmprism.recognize.joining import JobGroup, Joined, job_groups
from llmprism.recognize.lockstep import without_holes
from llmprism.recognize.quiet_members import JobPace, quiet_members
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.recognize.segments import PairPieces

__all__ = ["described_clusters", "draft_jobs"]


def described_clusters(
    draft: Draft,
    clocks: Sequence[tuple[ClockCandidate, ...]],
    topology: Topology | None,
    rules: RecognitionRules = RULES,
) -> list[PairCluster]:
    """The clusters of the draft with what is known of each; `clocks` has the candidates of every one."""
    server_of = topology.server_of() if topology else {}
    both = zip(draft.clusters, clocks, strict=True)
    return [_cluster(draft.pieces, pairs, candidates, server_of, rules) for pairs, candidates in both]


def _cluster(
    pieces: PairPieces,
    pairs: Int32,
    clocks: tuple[ClockCandidate, ...],
    server_of: dict[str, str],
    rules: RecognitionRules,
) -> PairCluster:
    members = np.unique(np.concatenate([pieces.pair_src[pairs], pieces.pair_dst[pairs]])).astype(np.int64)
    names = [pieces.addresses[m] for m in members]
    servers = frozenset(server_of[name] for name in names if name in server_of)
    placed = all(name in server_of for name in names)
    traffic = pieces.traffic
    first, last = int(traffic.first_ns[pairs].min()), int(traffic.last_ns[pairs].max())
    steady = without_holes(clocks[0].clock, rules) if clocks else None
    steps = max((one.clock.steps for one in clocks), default=0)
    training = steps >= rules.few_steps or _balanced(pieces, pairs, server_of, rules)
    return PairCluster(pairs, members, servers, clocks, steady, int(traffic.bytes[pairs].sum()), first, last, training,
                       placed)  # fmt: skip


def _balanced(pieces: PairPieces, pairs: Int32, server_of: dict[str, str], rules: RecognitionRules) -> bool:
    """Is what goes into the places (servers, or addresses where those are not known) of these pairs what comes out?"""
    sent: Counter[str] = Counter()
    received: Counter[str] = Counter()
    for pair in pairs.tolist():
        size = int(pieces.traffic.bytes[pair])
        for end, side in ((pieces.pair_src[pair], sent), (pieces.pair_dst[pair], received)):
            name = pieces.addresses[end]
            side[server_of.get(name, name)] += size
    through = sum(min(sent[place], received[place]) for place in sent)
    return through >= rules.balance_levels[-1] * sent.total()


def draft_jobs(
    draft: Draft,
    joined: Joined,
    answers: Sequence[float],
    topology: Topology | None,
    watched_until_ns: int = 0,
    rules: RecognitionRules = RULES,
) -> list[JobDraft]:
    """The jobs; `answers` has the bits (`rhythm_bits`) for each question that clocks left open."""
    server_of = topology.server_of() if topology else {}
    groups = [
        (group, [joined.clusters[i] for i in group.clusters])
        for group in job_groups(joined, answers, rules)
        if group.trains > 0.0
    ]
    members = [np.unique(np.concatenate([cluster.members for cluster in clusters])) for _, clusters in groups]
    clocks = [_majority([cluster for cluster in clusters if cluster.clocks], rules) for _, clusters in groups]
    paces = [
        JobPace(own, clock.clock if clock is not None else None) for own, clock in zip(members, clocks, strict=True)
    ]
    more = quiet_members(draft.pieces, draft.bulk, paces, server_of, rules)
    jobs = [
        _job(draft, clusters, np.union1d(own, quiet), clock, _confidence(clock, group, rules), server_of, rules)
        for (group, clusters), own, quiet, clock in zip(groups, members, more, clocks, strict=True)
    ]
    jobs = _numbered(sorted(jobs, key=lambda job: (job.members, job.id, _began(draft.pieces, job))))
    slot_of = topology.slot_of() if topology else {}
    names = draft.pieces.addresses
    return [
        replace(
            job,
            outside_until_ns=until,
            slots=tuple(slot_of.get(names[m], -1) for m in job.members if slot_of),
            watched_until_ns=watched_until_ns,
        )
        for job, until in zip(jobs, _outside_until(draft, jobs), strict=True)
    ]


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


def _job(
    draft: Draft, clusters: list[PairCluster], members: Int64, chosen: ClockCandidate | None, confidence: float,
    server_of: dict[str, str], rules: RecognitionRules,
) -> JobDraft:  # fmt: skip
    transfers, traffic = draft.pieces, draft.pieces.traffic
    bulk_ids = np.unique(np.concatenate([cluster.pairs for cluster in clusters]))
    start, end = int(traffic.first_ns[bulk_ids].min()), int(traffic.last_ns[bulk_ids].max())
    sent = ranges(*(np.searchsorted(transfers.pair_src, members, side=side) for side in ("left", "right")))
    inside = np.isin(transfers.pair_dst[sent], members)
    inside &= (traffic.first_ns[sent] <= end) & (traffic.last_ns[sent] >= start)
    pairs = sent[inside].astype(np.int32)
    names = sorted(transfers.addresses[m] for m in members)
    others = sorted((one for cluster in clusters for one in cluster.clocks), key=lambda one: -one.score)
    servers = sorted(frozenset().union(*(cluster.servers for cluster in clusters)))
    return JobDraft(
        id="job-" + hashlib.sha256("\n".join(names).encode()).hexdigest()[:10],
        members=tuple(int(m) for m in members),
        servers=tuple(servers),
        confidence=confidence,
        pairs=pairs,
        bulk=draft.bulk[pairs],
        clock=chosen.clock if chosen is not None else None,
        places=tuple(server_of.get(transfers.addresses[m], "") for m in members),
        clock_candidates=distinct_clocks([chosen, *others], rules) if chosen is not None else (),
    )


def _majority(clusters: list[PairCluster], rules: RecognitionRules) -> ClockCandidate | None:
    """Of the clocks that have the period that most traffic has, the one that tells most steps most clearly."""
    if not clusters:
        return None
    candidates = [cluster.clocks[0] for cluster in clusters]
    periods = np.array([one.clock.period_ns for one in candidates])
    order = np.argsort(periods, kind="stable")
    below = np.cumsum(np.array([cluster.bytes for cluster in clusters], dtype=np.float64)[order])
    usual = float(periods[order[np.searchsorted(below, below[-1] / 2.0)]])
    agreeing = [one for one in candidates if abs(one.clock.period_ns - usual) <= rules.same_period * usual]
    return max(agreeing or candidates, key=lambda one: (one.clock.dominance * one.clock.steps, one.clock.dominance))


def _confidence(candidate: ClockCandidate | None, group: JobGroup, rules: RecognitionRules) -> float:
    """Without visible steps a cluster is only a guess; with them the doubt shrinks with their number, and what is left
    is that of its joints (parts that hold together barely, others that are kept out barely) and whether it trains."""
    if candidate is None:
        return rules.without_steps
    clock = candidate.clock
    shown = (1.0 - rules.unclear * (1.0 - clock.dominance)) * (1.0 - 0.5 / max(clock.steps, 1))
    doubts = (group.held_by, group.kept_apart, group.trains)
    held, apart, trains = (float(1.0 / (1.0 + np.exp2(-bits))) for bits in doubts)
    return round(shown * held * apart * trains, 3)
