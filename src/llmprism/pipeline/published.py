"""The published rules of the LLMPrism paper in their own order, as a baseline: `--method paper`."""

from __future__ import annotations

from llmprism.diagnose.published_faults import diagnose_paper
from llmprism.diagnose.switch_loads import path_loads, switch_loads
from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.model.flows import FlowTable, Window
from llmprism.model.job import JobState
from llmprism.model.report import JobReport, Report
from llmprism.model.topology import Topology
from llmprism.parallelism.published_layout import layout_paper
from llmprism.pipeline.notes import Progress, job_notes, usable_topology
from llmprism.recognize.published_jobs import recognize_paper
from llmprism.timeline.published_timeline import timeline_paper

__all__ = ["diagnose_by_published_rules"]


def diagnose_by_published_rules(
    flows: FlowTable, topology: Topology | None, window: Window, report_progress: Progress
) -> Report:
    """What the published rules make of the records."""
    usable, notes = usable_topology(flows.addresses, topology)
    report_progress("jobs", 0.0)
    jobs = recognize_paper(records_as_transfers(flows), usable)
    analysed = []
    for index, job in enumerate(jobs):
        report_progress("layout and timeline", index / len(jobs))
        layout = layout_paper(job)
        analysed.append((job, layout, timeline_paper(job, layout)))
    report_progress("diagnosis", 0.0)
    return Report(
        window=window,
        input=flows.counts,
        addresses=flows.addresses,
        jobs=tuple(JobReport(job, JobState.UNKNOWN, layout, timeline, None) for job, layout, timeline in analysed),
        findings=tuple(diagnose_paper(analysed, usable)),
        topology=usable,
        switches=switch_loads([(job.id, path_loads(job.transfers)) for job in jobs], usable),
        notes=notes + job_notes((job.id, layout) for job, layout, _ in analysed),
    )
