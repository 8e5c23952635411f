"""Stages called one by one, for tests that look at what lies between them."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.model import InputCounts, Job, Topology, TransferTable, Window
from llmprism.model.flows import AssembledFlows
from llmprism.pipeline.local import LocalCluster
from llmprism.pipeline.order import recognise_jobs
from llmprism.recognize.recognise_jobs import crossing_pairs, unused_records

__all__ = ["Recognition", "recognize"]


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
