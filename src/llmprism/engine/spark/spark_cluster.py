"""The work that is done where the transfers lie, as calls that return small things.

What Spark does for each of them is one of two: pieces of pairs are joined with their transfers, brought together by a
key and handed to a task; or the same with a second table. The rest is making the pieces and reading the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from llmprism import limits
from llmprism.arrays import Int32
from llmprism.diagnose.find_faults import JobFaults, Shared
from llmprism.engine.spark.arrow_tables import DROPPED, ROWS, SEGMENTS, schema_text
from llmprism.engine.spark.graph import graph_from
from llmprism.engine.spark.pieces import cluster_pieces, job_pieces, rail_pieces, server_pieces
from llmprism.engine.spark.tasks import (
    CLOCKS,
    FINDINGS,
    OUTCOMES,
    RAILS,
    BroadcastBytes,
    TaskContext,
    clock_task,
    clocks_of,
    faults_of,
    findings_of,
    heads_table,
    job_task,
    outcomes_of,
    rail_task,
    site_blob,
    storage_task,
)
from llmprism.errors import LimitError
from llmprism.model.clock import ClockCandidate
from llmprism.model.finding import Finding
from llmprism.pipeline.cluster import AnalysedJob, JobHead, PairGraph
from llmprism.recognize.recognise_jobs import Draft, JobDraft, RailQuestion

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["SparkCluster", "TaskCluster"]


PairTask = Callable[[pa.Table, pa.Table], pa.Table]


class TaskCluster:
    """A `pipeline.cluster.Cluster` made of tasks over Arrow tables; how groups are formed is left to a subclass.

    `graph` is known here; `site` is what every executor holds.
    """

    def __init__(self, graph: PairGraph, site: BroadcastBytes, *, with_events: bool) -> None:
        self.graph, self._site, self._with_events = graph, site, with_events

    def clocks(self, draft: Draft) -> list[tuple[ClockCandidate, ...]]:
        if not draft.clusters:
            return []
        return clocks_of(self._grouped(cluster_pieces(draft), "cluster", clock_task, CLOCKS), len(draft.clusters))

    def rails(self, draft: Draft, questions: Sequence[RailQuestion]) -> list[float]:
        if not questions:
            return []
        pieces, wanted = rail_pieces(draft, questions)
        found = self._cogrouped(pieces, wanted, "group", rail_task, RAILS)
        columns = (found[name].to_pylist() for name in RAILS.names)
        bits = {(left, right): value for left, right, value in zip(*columns, strict=True)}
        return [bits[question.left, question.right] for question in questions]

    def analyse(
        self, draft: Draft, jobs: Sequence[JobDraft], _report_share: Callable[[float], None]
    ) -> list[AnalysedJob]:
        heads = [(number, JobHead(job, Shared())) for number, job in enumerate(jobs)]
        if not heads:
            return []
        return outcomes_of(self._job_tasks(draft, heads, with_events=self._with_events), self.graph.addresses)

    def faults(self, draft: Draft, jobs: Sequence[tuple[int, JobHead]]) -> list[JobFaults]:
        return faults_of(self._job_tasks(draft, jobs, with_events=False, wanted="faults")) if jobs else []

    def storage(self, draft: Draft, jobs: Sequence[JobDraft], crossing: Int32) -> list[Finding]:
        if not crossing.size:
            return []
        pieces = server_pieces(draft, jobs, crossing)
        return findings_of(self._grouped(pieces, "server", storage_task(self._site), FINDINGS))

    def _job_tasks(
        self, draft: Draft, jobs: Sequence[tuple[int, JobHead]], *, with_events: bool, wanted: str | None = None
    ) -> pa.Table:
        pieces = job_pieces(draft, [(number, head.draft) for number, head in jobs])
        task = job_task(self._site, with_events=with_events)
        return self._cogrouped(pieces, heads_table(jobs), "job", task, OUTCOMES, wanted)

    def _grouped(self, pieces: pa.Table, key: str, task: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> pa.Table:
        """The results of a task on the pieces of each key, with the transfers of those that have names."""
        raise NotImplementedError

    def _cogrouped(
        self, pieces: pa.Table, second: pa.Table, key: str, task: PairTask, schema: pa.Schema, wanted: str | None = None
    ) -> pa.Table:
        """The same with the rows of a second table that have the key; `wanted` names the only field of the results'
        last column to bring, besides the first column."""
        raise NotImplementedError


class SparkCluster(TaskCluster):
    """`pairs` has a row per pair (`tables.PAIRS`) and is kept by Spark, in memory and on disk."""

    def __init__(
        self, spark: SparkSession, pairs: DataFrame, name: str, *, with_events: bool, watched_until_ns: int | None
    ) -> None:
        self._spark, self._pairs = spark, pairs
        count = pairs.count()
        if count > limits.MAX_DRIVER_PAIRS:
            raise LimitError(
                f"{name}: {count:,} pairs of addresses; at most {limits.MAX_DRIVER_PAIRS:,} fit in the driver: "
                "read a shorter time range or fewer addresses"
            )
        graph = graph_from(pairs.select("src", "dst", *SEGMENTS, DROPPED).toArrow(), name, watched_until_ns)
        site = spark.sparkContext.broadcast(site_blob(TaskContext(graph.addresses, graph.window)))
        super().__init__(graph, site, with_events=with_events)

    def _joined(self, pieces: pa.Table) -> DataFrame:
        rows = self._pairs.select("src", "dst", "gap_ns", *ROWS, "paths")
        return self._spark.createDataFrame(pieces).join(rows, ["src", "dst"], "left")

    def _grouped(self, pieces: pa.Table, key: str, task: Callable[[pa.Table], pa.Table], schema: pa.Schema) -> pa.Table:
        return self._joined(pieces).groupBy(key).applyInArrow(task, schema_text(schema)).toArrow()

    def _cogrouped(
        self, pieces: pa.Table, second: pa.Table, key: str, task: PairTask, schema: pa.Schema, wanted: str | None = None
    ) -> pa.Table:
        both = self._joined(pieces).groupBy(key).cogroup(self._spark.createDataFrame(second).groupBy(key))
        found = both.applyInArrow(task, schema_text(schema))
        if wanted is not None:
            found = found.select(schema.names[0], f"{schema.names[-1]}.{wanted}")
        return found.toArrow()
