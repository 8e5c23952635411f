"""Parquet wherever Spark can read it → a row per directed pair.

The rules for records are DuckDB's SQL, applied on the executors (`ingest.bucket`). Spark itself only selects columns
and brings the records of a pair together, by a hash of its two ends.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sf

from llmprism.engine.interface import RunOptions
from llmprism.engine.spark.arrow_tables import PAIRS, schema_text
from llmprism.engine.spark.tasks import EXPORTERS, bucket_task, exporter_task
from llmprism.errors import FormatError
from llmprism.ingest.formats import parse_format
from llmprism.ingest.parquet import PARQUET
from llmprism.ingest.spark_bucket import TABLE, ScanPlan, reading_of

__all__ = ["pairs_of"]

BUCKET: Final = "llmprism bucket"
SCAN: Final = "llmprism scan"
"""Columns that are added to the records while they travel; no source has such names."""

BUCKET_RECORDS: Final = 1_000_000
"""Records in a bucket: some 200 MB in a Python worker, and a second of work, long enough to hide a task's own cost."""

BUCKETS_PER_CORE: Final = 3
"""At least, so that no core waits long for the slowest."""


def pairs_of(spark: SparkSession, flows: Sequence[str], options: RunOptions, buckets: int | None) -> DataFrame:
    """A row per pair (`tables.PAIRS`). Paths are handed to Spark as they are: files, folders or globs."""
    forced, _ = parse_format(options.format)
    if forced is not None and forced is not PARQUET:
        raise FormatError(f"--engine spark reads Parquet, not {forced.name}: convert the records with llmprism convert")
    records = spark.read.option("mergeSchema", "true").parquet(*flows)
    reading = reading_of(flows[0], records.limit(0).toArrow(), options.mapping, options.format)
    records = records.select(*map(_column, reading.columns))
    if buckets is None:
        parallel = spark.sparkContext.defaultParallelism
        buckets = max(BUCKETS_PER_CORE * parallel, records.count() * len(reading.scans) // BUCKET_RECORDS + 1)
    task = bucket_task(_flagged(reading), several_exporters=_several_exporters(records, reading))
    bucketed = _bucketed(records, reading, buckets).repartition(buckets, _column(BUCKET))
    return bucketed.groupBy(_column(BUCKET)).applyInArrow(task, schema_text(PAIRS))


def _column(name: str) -> Column:
    return sf.col("`" + name.replace("`", "``") + "`")


def _flagged(reading: ScanPlan) -> ScanPlan:
    """The reading of records of which each copy is meant for one scan."""
    if len(reading.scans) == 1:
        return reading
    tables = (f'(SELECT * FROM {TABLE} WHERE "{SCAN}" = {number})' for number in range(len(reading.scans)))
    return replace(
        reading, scans=tuple(replace(scan, table=table) for scan, table in zip(reading.scans, tables, strict=True))
    )


def _bucketed(records: DataFrame, reading: ScanPlan, buckets: int) -> DataFrame:
    """The records with the bucket of their pair, once per scan."""
    copies = []
    for number, (src, dst) in enumerate(reading.ends):
        key = sf.pmod(sf.xxhash64(_end(records, src), _end(records, dst)), sf.lit(buckets)).cast("int")
        flag = [sf.lit(number).alias(SCAN)] if len(reading.ends) > 1 else []
        copies.append(records.select("*", *flag, key.alias(BUCKET)))
    whole = copies[0]
    for copy in copies[1:]:
        whole = whole.unionAll(copy)
    return whole


def _end(records: DataFrame, names: Sequence[str]) -> Column:
    """One end of a pair: of several columns the first that has a value, by the rule of `ingest.resolve`."""
    if len(names) == 1:
        return _column(names[0])
    texts = []
    for name in names:
        text = _column(name).cast("string")
        useful = (text != "") & ~text.startswith("0000-00-00")
        texts.append(sf.when(useful, text) if dict(records.dtypes)[name] == "string" else text)
    return sf.coalesce(*texts)


def _several_exporters(records: DataFrame, reading: ScanPlan) -> bool:
    """Whether the usable records come from more than one exporter; a look at all of them where they name any."""
    if not any("exporter" in scan.columns for scan in reading.scans):
        return False
    named = records.mapInArrow(exporter_task(reading), schema_text(EXPORTERS))
    return bool(named.distinct().limit(2).count() > 1)
