"""Stages called one by one, for tests that look at what lies between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_transfer import find_slow_places
from llmprism.model import Finding, InputCounts, Job, Topology, TransferTable, Window
from llmprism.model.flows import AssembledFlows
from llmprism.pipeline.local import LocalCluster
from llmprism.pipeline.order import recognise_jobs
from llmprism.recognize.recognise_jobs import crossing_pairs, unused_records
from llmprism.stats.byte_steps import Chain, find_rhythms
from llmprism.stats.silences import Silences

__all__ = ["Recognition", "find_slow_transfers", "find_steps", "recognize"]


@dataclass(frozen=True, slots=True)
class Recognition:
    """The jobs, the records that belong to none by reason, and the transfers between members and others."""

    jobs: tuple[Job, ...]
    unused: tuple[tuple[str, int], ...]
    outside: TransferTable


def recognize(transfers: TransferTable, topology: Topology | None = None) -> Recognition:
    """The training jobs in these transfers."""
    records = int(transfers.records.sum())
    window = Window(int(transfers.start_ns.min(initial=0)), int(transfers.end_ns.max(initial=0)))
    flows = AssembledFlows(transfers, InputCounts(records, records), window)
    cluster = LocalCluster(flows, window, with_events=False)
    draft, drafts = recognise_jobs(cluster, topology)
    outside = cluster.pieces(draft).select_pairs(crossing_pairs(draft, drafts))
    return Recognition(tuple(cluster.jobs(draft, drafts)), unused_records(draft, drafts), outside)


def find_slow_transfers(jobs: Sequence[JobEvidence]) -> list[Finding]:
    """Findings for the places that explain slow messages of these jobs."""
    return find_slow_places([judge_transfers(evidence) for evidence in jobs if evidence.steps])


def find_steps(silences: Silences, max_steps: int | None = None, *, pauses: bool = False) -> Chain | None:
    """The chain of step boundaries of a series, or None when its silences show no steps."""
    return next(iter(find_rhythms(silences, max_steps, pauses=pauses)), None)
