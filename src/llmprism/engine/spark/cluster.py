"""The work that is done where the transfers lie, as calls that return small things."""

from __future__ import annotations

from collections.abc import Sequence

from pyspark import Broadcast
from pyspark.sql import DataFrame, SparkSession

from llmprism.diagnose.prism import JobFaults, Shared
from llmprism.engine.spark.pieces import cluster_pieces, job_pieces, joined, rail_pieces, server_pieces
from llmprism.engine.spark.reading import Graph, graph_of
from llmprism.engine.spark.tables import schema_text
from llmprism.engine.spark.tasks import (
    CLOCKS,
    FINDINGS,
    OUTCOMES,
    RAILS,
    JobHead,
    JobOutcome,
    Site,
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
from llmprism.model.clock import StepClock
from llmprism.model.finding import Finding
from llmprism.model.flows import Int32
from llmprism.recognize.prism import Draft, JobDraft, RailQuestion

__all__ = ["Cluster"]


class Cluster:
    """`pairs` has a row per pair (`tables.PAIRS`) and is kept by Spark, in memory and on disk."""

    def __init__(self, spark: SparkSession, pairs: DataFrame, name: str, *, with_events: bool) -> None:
        self._spark, self._pairs = spark, pairs
        self.graph: Graph = graph_of(pairs, name)
        self._with_events = with_events
        blob = site_blob(Site(self.graph.addresses, self.graph.window))
        self._site: Broadcast[bytes] = spark.sparkContext.broadcast(blob)

    def clocks(self, draft: Draft) -> list[StepClock | None]:
        """The clock of every cluster of the draft."""
        if not draft.clusters:
            return []
        pieces = joined(self._spark, self._pairs, cluster_pieces(draft))
        found = pieces.groupBy("cluster").applyInArrow(clock_task, schema_text(CLOCKS)).toArrow()
        return clocks_of(found, len(draft.clusters))

    def rails(self, draft: Draft, questions: Sequence[RailQuestion]) -> list[tuple[int, int]]:
        """The clusters of the questions to which their transfers say yes."""
        if not questions:
            return []
        pieces, asked = rail_pieces(draft, questions)
        both = joined(self._spark, self._pairs, pieces).groupBy("group")
        answers = both.cogroup(self._spark.createDataFrame(asked).groupBy("group"))
        found = answers.applyInArrow(rail_task, schema_text(RAILS)).toArrow()
        return sorted(zip(found["left"].to_pylist(), found["right"].to_pylist(), strict=True))

    def outcomes(self, draft: Draft, jobs: Sequence[JobDraft]) -> list[JobOutcome]:
        """What the transfers of each job say about it, before anything is known that several jobs share."""
        heads = [(number, JobHead(job, Shared())) for number, job in enumerate(jobs)]
        if not heads:
            return []
        told = self._told(draft, heads, with_events=self._with_events)
        return outcomes_of(told.toArrow(), self.graph.addresses)

    def faults(self, draft: Draft, jobs: Sequence[tuple[int, JobHead]]) -> list[JobFaults]:
        """The faults of these jobs, each with a number of its own, in the light of what they share; in that order."""
        if not jobs:
            return []
        told = self._told(draft, jobs, with_events=False)
        return faults_of(told.select("job", "outcome.faults").toArrow())

    def _told(self, draft: Draft, jobs: Sequence[tuple[int, JobHead]], *, with_events: bool) -> DataFrame:
        pieces = joined(self._spark, self._pairs, job_pieces(draft, [(n, head.draft) for n, head in jobs]))
        heads = self._spark.createDataFrame(heads_table(jobs))
        both = pieces.groupBy("job").cogroup(heads.groupBy("job"))
        return both.applyInArrow(job_task(self._site, with_events=with_events), schema_text(OUTCOMES))

    def storage(self, draft: Draft, jobs: Sequence[JobDraft], crossing: Int32) -> list[Finding]:
        """Findings on the servers at the other end of the crossing pairs, in the order of their addresses."""
        if not crossing.size:
            return []
        pieces = joined(self._spark, self._pairs, server_pieces(draft, jobs, crossing))
        found = pieces.groupBy("server").applyInArrow(storage_task(self._site), schema_text(FINDINGS))
        return findings_of(found.toArrow())
