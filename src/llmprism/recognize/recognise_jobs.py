"""Jobs from transfers: bulk pairs → clusters → step clocks → clusters that step together are one job.

Only three steps look at transfers: their totals (`segments`), the clocks of the clusters, and the rhythm of clusters
whose clocks do not settle whether they are one job. Everything between them is judged by totals and clocks alone, so
that transfers may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.forked import forked_map
from llmprism.model.clock import ClockCandidate
from llmprism.model.flows import Int32, TransferTable
from llmprism.model.job import Recognition
from llmprism.model.topology import Topology
from llmprism.recognize.candidates import acquaintance, candidates
from llmprism.recognize.clock import cluster_clocks
from llmprism.recognize.draft import Draft, JobDraft, crossing_pairs, draft_clusters, unused_records
from llmprism.recognize.job_drafts import described_clusters, draft_jobs
from llmprism.recognize.joining import Joined, RailQuestion, joined_by_clocks
from llmprism.recognize.rhythm import rhythm_bits
from llmprism.recognize.segments import segments_of

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


def join_clusters(draft: Draft, clocks: Sequence[tuple[ClockCandidate, ...]], topology: Topology | None) -> Joined:
    """Which clusters step together; `clocks` has the candidates of every cluster of the draft."""
    clusters = described_clusters(draft, clocks, topology)
    known = acquaintance(draft.pieces, clusters)
    return joined_by_clocks(clusters, candidates(clusters, known, acquaintance(draft.pieces, clusters, draft.bulk)))
