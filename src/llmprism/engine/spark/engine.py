"""The driver: what goes out to the cluster, and what is made of what comes back. The decisions are the stages'."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmprism.engine.interface import RunOptions
from llmprism.engine.spark.session import spark_session
from llmprism.errors import UsageError
from llmprism.model.report import JobReport, Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Progress, counts_of, job_notes, usable_topology

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from llmprism.engine.spark.cluster import Cluster
    from llmprism.engine.spark.tasks import JobOutcome
    from llmprism.model.finding import Finding
    from llmprism.recognize.recognise_jobs import Draft, JobDraft

__all__ = ["SparkEngine", "report_of"]


class SparkEngine:
    """`master` is Spark's URL (None: all cores of this machine, or what spark-submit says); `buckets` the number of
    buckets of pairs (None: from the number of records). Neither changes the report."""

    def __init__(self, master: str | None = None, *, buckets: int | None = None) -> None:
        self._master = master
        self._buckets = buckets

    def diagnose(
        self,
        flows: Sequence[str],
        topology: Topology | None,
        options: RunOptions,
        progress: Progress | None = None,
    ) -> Report:
        """As the local engine, over Parquet on any storage that Spark reads."""
        if options.method != "prism":
            raise UsageError(f"--engine spark has only the method prism; run {options.method} with --engine local")
        if options.memory_limit is not None:
            raise UsageError("--memory-limit is the local engine's; Spark has spark.executor.memory")
        report_progress = progress or (lambda _stage, _share: None)
        with spark_session(self._master) as spark:
            return self._run(spark, flows, topology, options, report_progress)

    def _run(
        self,
        spark: SparkSession,
        flows: Sequence[str],
        topology: Topology | None,
        options: RunOptions,
        report_progress: Progress,
    ) -> Report:
        from llmprism.engine.spark.cluster import SparkCluster
        from llmprism.engine.spark.reading import pairs_of

        report_progress("reading flow records", 0.0)
        pairs = pairs_of(spark, flows, options, self._buckets).persist()
        try:
            cluster = SparkCluster(
                spark, pairs, flows[0], with_events=options.with_events, watched_until_ns=options.watched_until_ns
            )
            return report_of(cluster, topology, report_progress)
        finally:
            pairs.unpersist()


def report_of(cluster: Cluster, topology: Topology | None, report_progress: Progress) -> Report:
    """The report, made of what the cluster says."""
    from llmprism.diagnose import switch_loads
    from llmprism.recognize.recognise_jobs import draft_clusters, draft_jobs, join_clusters, unused_records

    graph = cluster.graph
    usable, notes = usable_topology(graph.addresses, topology)
    report_progress("jobs", 0.0)
    draft = draft_clusters(graph, graph.segments, usable)
    clocks = cluster.clocks(draft)
    joined = join_clusters(draft, clocks, usable)
    drafts = draft_jobs(draft, joined, cluster.rails(draft, joined.questions), usable)
    report_progress("layout and timeline", 0.0)
    outcomes = cluster.outcomes(draft, drafts)
    report_progress("diagnosis", 0.0)
    findings, lost = _findings(cluster, draft, drafts, outcomes)
    return Report(
        window=graph.window,
        input=counts_of(graph.counts, unused_records(draft, drafts)),
        addresses=graph.addresses,
        jobs=tuple(
            JobReport(one.job, one.state, one.layout, one.timeline, seconds)
            for one, seconds in zip(outcomes, lost, strict=True)
        ),
        findings=findings,
        topology=usable,
        switches=switch_loads([(one.job.id, one.loads) for one in outcomes], usable),
        notes=notes + job_notes((one.job.id, one.layout) for one in outcomes),
    )


def _findings(
    cluster: Cluster, draft: Draft, drafts: Sequence[JobDraft], outcomes: Sequence[JobOutcome]
) -> tuple[tuple[Finding, ...], list[float | None]]:
    """Findings over all jobs first; the jobs on which one of them bears are then looked at again in its light.

    Second, what each job lost to them.
    """
    from llmprism.diagnose.find_faults import find_shared_faults, with_costs
    from llmprism.engine.spark.tasks import JobHead
    from llmprism.recognize.recognise_jobs import crossing_pairs

    crossing = crossing_pairs(draft, drafts)
    names, pieces = draft.pieces.addresses, draft.pieces
    ends = [(names[pieces.pair_src[piece]], names[pieces.pair_dst[piece]]) for piece in crossing]
    jobs = [outcome.job for outcome in outcomes]
    cells = [outcome.cells for outcome in outcomes if outcome.cells is not None]
    shared = find_shared_faults(jobs, cells, cluster.storage(draft, drafts, crossing), ends, cluster.graph.window)
    bearing = [shared.about(job) for job in jobs]
    again = [
        (number, JobHead(job, about))
        for number, (job, about) in enumerate(zip(drafts, bearing, strict=True))
        if about.findings or about.excused
    ]
    faults = [outcome.faults for outcome in outcomes]
    for (number, _), own in zip(again, cluster.faults(draft, again), strict=True):
        faults[number] = own
    lost = [
        fault.lost_gpu_seconds if outcome.timeline.steps.count else None
        for outcome, fault in zip(outcomes, faults, strict=True)
    ]
    return with_costs(shared, faults), lost
