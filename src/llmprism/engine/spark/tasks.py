"""What runs on the executors: one group of rows in, rows out, as Arrow tables.

Each task calls the functions of the stages and nothing else. Tasks are pure: run again, on another machine, with their
rows in another order, they give the same result, which is all that Spark needs to survive a lost executor.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Protocol

import numpy as np
import pyarrow as pa

from llmprism.diagnose.evidence import gather_evidence
from llmprism.diagnose.find_faults import JobFaults, find_job_faults
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.slow_storage import find_slow_storage
from llmprism.diagnose.switch_loads import path_loads
from llmprism.engine.arrow_codec import arrow_type, decode, encode
from llmprism.engine.spark.arrow_tables import digest, pair_rows, transfers_from
from llmprism.ingest.spark_bucket import ScanPlan, exporters_of, read_bucket
from llmprism.model.clock import ClockCandidate
from llmprism.model.finding import Finding
from llmprism.model.flows import Window
from llmprism.pipeline import analyse_job
from llmprism.pipeline.cluster import AnalysedJob, JobHead
from llmprism.recognize.bulk import PairTraffic
from llmprism.recognize.cluster_clock import cluster_clocks
from llmprism.recognize.recognise_jobs import RailQuestion, question_bits
from llmprism.recognize.segments import segments_of

__all__ = [
    "CLOCKS",
    "EXPORTERS",
    "FINDINGS",
    "OUTCOMES",
    "RAILS",
    "BroadcastBytes",
    "TaskContext",
    "bucket_task",
    "clock_task",
    "clocks_of",
    "exporter_task",
    "faults_of",
    "findings_of",
    "heads_table",
    "job_task",
    "outcomes_of",
    "rail_task",
    "site_blob",
    "storage_task",
]


@dataclass(frozen=True, slots=True)
class TaskContext:
    """What every job's task must know."""

    addresses: tuple[str, ...]
    window: Window


@dataclass(frozen=True, slots=True)
class _Clocks:
    candidates: tuple[ClockCandidate, ...]


EXPORTERS: Final = pa.schema([("exporter", pa.string())])
CLOCKS: Final = pa.schema([("cluster", pa.int32()), ("clocks", arrow_type(_Clocks))])
RAILS: Final = pa.schema([("left", pa.int64()), ("right", pa.int64()), ("bits", pa.float64())])
OUTCOMES: Final = pa.schema([("job", pa.int32()), ("outcome", arrow_type(AnalysedJob))])
FINDINGS: Final = pa.schema([("key", pa.int32()), ("finding", arrow_type(Finding))])


class BroadcastBytes(Protocol):
    """Spark's handle on a value that every executor holds."""

    @property
    def value(self) -> bytes: ...


def exporter_task(reading: ScanPlan) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """Batches of records → the exporters of the usable ones."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            names = exporters_of(pa.Table.from_batches([batch]), reading.scans)
            yield pa.record_batch([pa.array(names, type=pa.string())], schema=EXPORTERS)

    return task


def bucket_task(reading: ScanPlan, *, several_exporters: bool) -> Callable[[pa.Table], pa.Table]:
    """Records of a bucket of pairs → a row per pair."""

    def task(records: pa.Table) -> pa.Table:
        bucket = read_bucket(records, reading.scans, several_exporters=several_exporters)
        return pair_rows(bucket.transfers, segments_of(bucket.transfers), bucket.dropped)

    return task


def clock_task(pieces: pa.Table) -> pa.Table:
    """The pieces of a cluster, with the transfers of its witnesses → its candidate clocks."""
    cluster = pieces["cluster"][0].as_py()
    order = np.argsort(pieces["piece"].to_numpy(), kind="stable")
    totals = (pieces[name].to_numpy()[order] for name in ("sum_bytes", "largest", "first_ns", "last_ns"))
    every = np.arange(pieces.num_rows, dtype=np.int32)
    clocks = cluster_clocks(transfers_from(pieces, ()), PairTraffic(*totals), every)
    return pa.table([pa.array([cluster], type=pa.int32()), encode([_Clocks(clocks)], _Clocks)], schema=CLOCKS)


def clocks_of(table: pa.Table, count: int) -> list[tuple[ClockCandidate, ...]]:
    """The candidate clocks of all clusters in their order."""
    clocks: list[tuple[ClockCandidate, ...]] = [()] * count
    for cluster, one in zip(table["cluster"].to_pylist(), decode(table["clocks"], _Clocks), strict=True):
        clocks[cluster] = one.candidates
    return clocks


def rail_task(pieces: pa.Table, questions: pa.Table) -> pa.Table:
    """The pieces of some clusters and questions about them → the bits of each for one job."""
    order = np.argsort(pieces["piece"].to_numpy(), kind="stable")
    cluster = pieces["cluster"].to_numpy()[order]
    transfers = transfers_from(pieces, ())
    rows = []
    for question in decode(questions["question"], RailQuestion):
        one, other = (np.flatnonzero(cluster == side).astype(np.int32) for side in (question.left, question.right))
        rows.append((question.left, question.right, question_bits(transfers, question, one, other)))
    return pa.Table.from_pylist([dict(zip(RAILS.names, row, strict=True)) for row in rows], schema=RAILS)


def job_task(site: BroadcastBytes, *, with_events: bool) -> Callable[[pa.Table, pa.Table], pa.Table]:
    """The pieces of a job and its head → its outcome."""

    def task(pieces: pa.Table, heads: pa.Table) -> pa.Table:
        known = _site(site.value)
        (head,) = decode(heads["head"], JobHead)
        job = head.draft.job(transfers_from(pieces, known.addresses))
        layout, timeline, state = analyse_job(job, known.window, with_events=with_events)
        evidence = gather_evidence(job, layout, timeline, state)
        cells = judge_transfers(evidence) if evidence.steps else None
        outcome = AnalysedJob(
            job=replace(job, transfers=replace(digest(job.transfers), addresses=())),
            layout=replace(layout, transfer_kind=np.zeros(0, dtype=np.int8)),
            timeline=timeline,
            state=state,
            loads=path_loads(job.transfers),
            cells=None if cells is None else cells.worth_keeping(),
            faults=find_job_faults(evidence, head.shared, known.window),
        )
        return pa.table([heads["job"].slice(0, 1), encode([outcome], AnalysedJob)], schema=OUTCOMES)

    return task


def storage_task(site: BroadcastBytes) -> Callable[[pa.Table], pa.Table]:
    """The pieces between one server outside the jobs and their members → findings on the server."""

    def task(pieces: pa.Table) -> pa.Table:
        server = pieces["server"][0].as_py()
        transfers = transfers_from(pieces, _site(site.value).addresses)
        ends = np.concatenate([transfers.pair_src, transfers.pair_dst])
        findings = find_slow_storage(transfers, frozenset(ends[ends != server].tolist()))
        keys = pa.array([server] * len(findings), type=pa.int32())
        return pa.table([keys, encode(findings, Finding)], schema=FINDINGS)

    return task


@lru_cache(maxsize=2)
def _site(blob: bytes) -> TaskContext:
    """Read once per process, not once per job."""
    (site,) = decode(pa.ipc.open_stream(blob).read_all()["site"], TaskContext)
    return site


def site_blob(site: TaskContext) -> bytes:
    table = pa.table({"site": encode([site], TaskContext)})
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    blob: bytes = sink.getvalue().to_pybytes()
    return blob


def heads_table(heads: Iterable[tuple[int, JobHead]]) -> pa.Table:
    numbered = list(heads)
    return pa.table(
        {
            "job": pa.array([number for number, _ in numbered], type=pa.int32()),
            "head": encode([head for _, head in numbered], JobHead),
        }
    )


def outcomes_of(table: pa.Table, addresses: tuple[str, ...]) -> list[AnalysedJob]:
    """Outcomes in the order of their jobs' numbers; the names of the addresses, which did not travel, put back."""
    table = table.take(np.argsort(table["job"].to_numpy(), kind="stable"))
    return [_named(outcome, addresses) for outcome in decode(table["outcome"], AnalysedJob)]


def faults_of(table: pa.Table) -> list[JobFaults]:
    """Faults in the order of their jobs' numbers."""
    return decode(table.take(np.argsort(table["job"].to_numpy(), kind="stable"))["faults"], JobFaults)


def _named(outcome: AnalysedJob, addresses: tuple[str, ...]) -> AnalysedJob:
    job = outcome.job
    return replace(outcome, job=replace(job, transfers=replace(job.transfers, addresses=addresses)))


def findings_of(table: pa.Table) -> list[Finding]:
    """Findings in the order of their keys."""
    return decode(table.take(np.argsort(table["key"].to_numpy(), kind="stable"))["finding"], Finding)
