"""The order of the stages, written once, for every place where the transfers may be.

    totals of pairs → clusters of pairs         here
    transfers of a cluster → its clocks         where the transfers are
    clocks → jobs                               here
    transfers of a job → layout, timeline       where the transfers are
    slow messages of all jobs → shared faults   here
    transfers of a job → its own faults         where the transfers are

What is done here needs totals, clocks and findings only, which are small.
"""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.diagnose import congestion_note, switch_loads, with_congestion_signs
from llmprism.diagnose.find_faults import find_shared_faults, with_costs
from llmprism.model.finding import Finding
from llmprism.model.flows import InputCounts
from llmprism.model.report import JobReport, Report
from llmprism.model.topology import Topology
from llmprism.pipeline.cluster import AnalysedJob, Cluster, JobHead
from llmprism.pipeline.notes import Progress, job_notes, usable_topology
from llmprism.recognize.recognise_jobs import (
    Draft,
    JobDraft,
    crossing_pairs,
    draft_clusters,
    draft_jobs,
    join_clusters,
    unused_records,
)

__all__ = ["diagnose_cluster", "find_findings", "recognise_jobs"]


def diagnose_cluster(cluster: Cluster, topology: Topology | None, report_progress: Progress) -> Report:
    """Everything that the records say about the jobs in them."""
    graph = cluster.graph
    usable, notes = usable_topology(graph.addresses, topology)
    report_progress("jobs", 0.0)
    draft, drafts = recognise_jobs(cluster, usable)
    report_progress("layout and timeline", 0.0)
    jobs = cluster.analyse(draft, drafts, lambda share: report_progress("layout and timeline", share))
    report_progress("diagnosis", 0.0)
    findings, lost = find_findings(cluster, draft, drafts, jobs)
    return Report(
        window=graph.window,
        input=_counts_of(graph.counts, unused_records(draft, drafts)),
        addresses=graph.addresses,
        jobs=tuple(
            JobReport(one.job, one.state, one.layout, one.timeline, seconds)
            for one, seconds in zip(jobs, lost, strict=True)
        ),
        findings=with_congestion_signs(findings, graph.congestion),
        topology=usable,
        switches=switch_loads([(one.job.id, one.loads) for one in jobs], usable),
        notes=notes + congestion_note(graph.congestion) + job_notes((one.job.id, one.layout) for one in jobs),
    )


def recognise_jobs(cluster: Cluster, topology: Topology | None) -> tuple[Draft, list[JobDraft]]:
    """What the graph of pairs says, and the jobs in it."""
    draft = draft_clusters(cluster.graph, cluster.graph.segments, topology)
    joined = join_clusters(draft, cluster.clocks(draft), topology)
    answers = cluster.rails(draft, joined.questions)
    return draft, draft_jobs(draft, joined, answers, topology, cluster.graph.window.end_ns)


def find_findings(
    cluster: Cluster, draft: Draft, drafts: Sequence[JobDraft], jobs: Sequence[AnalysedJob]
) -> tuple[tuple[Finding, ...], list[float | None]]:
    """Findings over all jobs first, then those of each job, in their light.

    Jobs whose own faults are known already are looked at again only where a finding over several jobs bears on them.
    Second, the GPU-seconds that each job lost; None where its steps were not seen.
    """
    crossing = crossing_pairs(draft, drafts)
    names, pieces = draft.pieces.addresses, draft.pieces
    ends = [(names[pieces.pair_src[piece]], names[pieces.pair_dst[piece]]) for piece in crossing]
    cells = [one.cells for one in jobs if one.cells is not None]
    storage = cluster.storage(draft, drafts, crossing)
    shared = find_shared_faults([one.job for one in jobs], cells, storage, ends, cluster.graph.window)
    bearing = [shared.about(one.job) for one in jobs]
    wanted = [
        (number, JobHead(job, about))
        for number, (job, about, one) in enumerate(zip(drafts, bearing, jobs, strict=True))
        if one.faults is None or about.findings or about.excused
    ]
    known = {number: one.faults for number, one in enumerate(jobs) if one.faults is not None}
    known |= {number: own for (number, _), own in zip(wanted, cluster.faults(draft, wanted), strict=True)}
    faults = [known[number] for number in range(len(jobs))]
    lost = [own.lost_gpu_seconds if one.timeline.steps.count else None for one, own in zip(jobs, faults, strict=True)]
    return with_costs(shared, faults), lost


def _counts_of(counts: InputCounts, unused: tuple[tuple[str, int], ...]) -> InputCounts:
    """The counts with the records that belong to no job moved to the dropped ones."""
    return InputCounts(counts.records, counts.used - sum(count for _, count in unused), counts.dropped + unused)
