"""The driver: reads the records into rows per pair, and runs the order of the stages over the Spark cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from llmprism.engine.interface import RunOptions
from llmprism.engine.spark.session import spark_session
from llmprism.errors import UsageError
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Progress, diagnose_cluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkEngine"]


class SparkEngine:
    """`master` is Spark's URL (None: all cores of this machine, or what spark-submit says); `buckets` the number of
    buckets of pairs (None: from the number of records). Neither changes the report."""

    def __init__(self, master: str | None = None, *, buckets: int | None = None) -> None:
        self._master = master
        self._buckets = buckets

    def diagnose(
        self, flows: Sequence[str], topology: Topology | None, options: RunOptions, progress: Progress | None = None
    ) -> Report:
        """As the local engine, over Parquet on any storage that Spark reads."""
        if options.method != "prism":
            raise UsageError(f"--engine spark has only the method prism; run {options.method} with --engine local")
        if options.memory_limit is not None:
            raise UsageError("--memory-limit is the local engine's; Spark has spark.executor.memory")
        if options.jobs is not None:
            raise UsageError("--jobs is the local engine's; Spark has spark.executor.cores and spark.cores.max")
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
        from llmprism.engine.spark.reading import pairs_of
        from llmprism.engine.spark.spark_cluster import SparkCluster

        report_progress("reading flow records", 0.0)
        pairs = pairs_of(spark, flows, options, self._buckets).persist()
        try:
            cluster = SparkCluster(
                spark, pairs, flows[0], with_events=options.with_events, watched_until_ns=options.watched_until_ns
            )
            return diagnose_cluster(cluster, topology, report_progress)
        finally:
            pairs.unpersist()
