"""Jobs from transfers: bulk pairs → clusters → step clocks → clusters that step together are one job.

Only three steps look at transfers: their totals (`segments`), the clocks of the clusters, and the rhythm of clusters
whose clocks do not settle whether they are one job, or a job at all. Everything between them is judged by totals and
clocks alone, so that transfers may lie anywhere.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.arrays import Int32
from llmprism.model.clock import ClockCandidate
from llmprism.model.flows import TransferTable
from llmprism.model.topology import Topology
from llmprism.recognize.candidates import acquaintance, candidates
from llmprism.recognize.coherence import coherence_bits
from llmprism.recognize.draft import Draft, JobDraft, crossing_pairs, draft_clusters, unused_records
from llmprism.recognize.job_drafts import described_clusters, draft_jobs
from llmprism.recognize.joining import Joined, RailQuestion, joined_by_clocks
from llmprism.recognize.rhythm import rhythm_bits
from llmprism.recognize.rules import RULES, RecognitionRules

__all__ = [
    "Draft",
    "JobDraft",
    "Joined",
    "RailQuestion",
    "crossing_pairs",
    "draft_clusters",
    "draft_jobs",
    "join_clusters",
    "question_bits",
    "unused_records",
]


def join_clusters(
    draft: Draft,
    clocks: Sequence[tuple[ClockCandidate, ...]],
    topology: Topology | None,
    rules: RecognitionRules = RULES,
) -> Joined:
    """Which clusters step together; `clocks` has the candidates of every cluster of the draft."""
    clusters = described_clusters(draft, clocks, topology, rules)
    known = acquaintance(draft.pieces, clusters)
    by_bulk = acquaintance(draft.pieces, clusters, draft.bulk)
    return joined_by_clocks(clusters, candidates(clusters, known, by_bulk, rules), rules)


def question_bits(
    transfers: TransferTable, question: RailQuestion, left: Int32, right: Int32, rules: RecognitionRules = RULES
) -> float:
    """What the transfers of the question's two clusters say, in bits for one job; `left`, `right`: their pairs."""
    if question.left == question.right:
        return coherence_bits(transfers, left, rules)
    return rhythm_bits(transfers, left, right, question.step_ns, rules)
