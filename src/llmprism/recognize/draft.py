"""What recognition hands from step to step while transfers lie elsewhere: pieces of pairs, clusters of them, jobs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Int32
from llmprism.model.clock import ClockCandidate, StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.topology import Topology
from llmprism.recognize.bulk import NodePlaces, PairEnds, PairTraffic, bulk_pairs, outside_nodes, strong_pairs
from llmprism.recognize.clusters import cluster_pairs
from llmprism.recognize.epochs import reused_segments
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.recognize.segments import PairPieces, PairSegments

__all__ = ["Draft", "JobDraft", "crossing_pairs", "draft_clusters", "unused_records"]


@dataclass(frozen=True, slots=True)
class Draft:
    """What the graph of pairs says before any clock was looked for: `bulk` marks its pieces, `clusters` lists
    theirs."""

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
    slots: tuple[int, ...] = ()
    watched_until_ns: int = 0

    def job(self, transfers: TransferTable) -> Job:
        """The job with the transfers of its pairs; pieces of one pair that both are this job's are joined again."""
        transfers, bulk = _joined_pieces(transfers, self.bulk)
        return Job(
            self.id, self.members, self.servers, self.confidence, transfers, bulk, self.clock, self.places,
            self.outside_until_ns, self.clock_candidates, self.slots, self.watched_until_ns,
        )  # fmt: skip


def _joined_pieces(transfers: TransferTable, bulk: Bool) -> tuple[TransferTable, Bool]:
    """The table with one pair for each two ends. A pair is cut at a silence where a peer comes or goes; where steps
    last longer than a scheduler needs, one job has such silences itself, and must not see a pair twice."""
    src, dst = transfers.pair_src, transfers.pair_dst
    first = np.flatnonzero(np.concatenate([[True], (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])])[: src.size])
    if first.size == src.size:
        return transfers, bulk
    offsets = np.append(transfers.pair_offsets[first], transfers.pair_offsets[-1])
    gap = np.minimum.reduceat(transfers.pair_gap_ns, first)
    joined = replace(transfers, pair_src=src[first], pair_dst=dst[first], pair_offsets=offsets, pair_gap_ns=gap)
    return joined, np.logical_or.reduceat(bulk, first)


def draft_clusters(
    pairs: PairEnds, segments: PairSegments, topology: Topology | None, rules: RecognitionRules = RULES
) -> Draft:
    """What belongs together by the graph of the pairs and their totals alone."""
    bulk = bulk_pairs(pairs, segments.traffic, rules)
    places = NodePlaces.of(pairs.addresses, topology)
    training = _training_pairs(pairs, segments.traffic, bulk, places, rules)
    cut = reused_segments(pairs.pair_src, pairs.pair_dst, segments, bulk, training, rules)
    pieces = PairPieces.of(pairs.addresses, pairs.pair_src, pairs.pair_dst, segments, cut)
    traffic = pieces.traffic
    if cut.any():  # else the pieces are the pairs
        bulk = bulk[pieces.origin] & bulk_pairs(pieces, traffic, rules)
        training = _training_pairs(pieces, traffic, bulk, places, rules)
    clusters = cluster_pairs(pieces, traffic, training & (pieces.pair_src != pieces.pair_dst), rules)
    return Draft(pieces, bulk, tuple(clusters))


def _training_pairs(
    pairs: PairEnds, traffic: PairTraffic, bulk: Bool, places: NodePlaces, rules: RecognitionRules
) -> Bool:
    """Bulk pairs that matter to both of their ends, neither of which is outside all training. A checkpoint may be far
    larger than what a short window shows of the training, so what matters is judged again without those outside."""
    outside = outside_nodes(pairs, traffic, strong_pairs(pairs, traffic, bulk, rules), places, rules)
    return strong_pairs(pairs, traffic, bulk & ~outside[pairs.pair_src] & ~outside[pairs.pair_dst], rules)


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
    origin = draft.pieces.origin
    of_jobs = np.zeros(int(origin.max(initial=-1)) + 1, dtype=np.bool_)
    for job in jobs:
        of_jobs[origin[job.pairs]] = True
    used = of_jobs[origin]
    total, bulk = draft.pieces.records, draft.bulk
    reasons = {"control_chatter": int(total[~used & ~bulk].sum()), "outside_jobs": int(total[~used & bulk].sum())}
    return tuple((reason, count) for reason, count in reasons.items() if count)
