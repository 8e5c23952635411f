"""Files → transfers, in buckets of pairs, so that memory is bounded by a bucket and not by the records.

The same rules as `read_flows` and `assemble_transfers`, and the same result to the byte; but the records never lie in
columns all at once. They stream by once and are numbered (`interning.py`); when all names are known they are dealt to
buckets (`bucket_store.py`), ranges of pairs in their order with a bounded number of records. Each bucket becomes a
FlowTable (`flow_table.py`) and then transfers, fewer than its records; several buckets are worked on at a time.
Because buckets follow the order of the pairs, their transfers only have to be put one behind the other. With a memory
limit records and transfers are kept in files without a name; the transfers are mapped into memory, and their files go
when the table does.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Int64
from llmprism.ingest.bucket_store import Buckets, Spool, nameless_file
from llmprism.ingest.capture_notes import merged
from llmprism.ingest.columns import DUPLICATE, REASONS
from llmprism.ingest.database import Database, Progress, memory_bytes, open_database, report_progress
from llmprism.ingest.file_format import ReadOptions, SourceFile
from llmprism.ingest.flow_table import flow_table, rows_by_pair
from llmprism.ingest.formats import identify, parse_format
from llmprism.ingest.fresh_memory import fresh_array
from llmprism.ingest.interning import Ids, Interner, Names, Records
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.relation import Relation, check_numbers, create_records, explain
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.ingest.sources import expand
from llmprism.ingest.transfers import assemble_transfers
from llmprism.ingest.whole_read import loaded_of, no_usable_record, table_of
from llmprism.model.flows import AssembledFlows, InputCounts, TransferTable, Window

__all__ = ["read_transfers"]

WHOLE_RECORDS: Final = 4_000_000
"""Records up to which an input is read as a whole: half a gigabyte."""

BUCKET_RECORDS: Final = 100_000
"""Records of a bucket at most: four megabytes, near enough to the caches to be put in order there (48 ns a record, with
five times as many 72), and what is made of them is small enough to be made in the same memory again."""

RECORD_BYTES: Final = 128
"""Memory that one record of a bucket takes while it is ordered: row, columns, permutation and transfers, with room."""

BLOCK_RECORDS: Final = 1_000_000
"""Records that are numbered at a time: few enough for their keys to stay near the caches, enough to make the calls
count for nothing."""

MAX_WORKERS: Final = 8
"""Buckets worked on at a time at most: their kernels leave the interpreter alone, but what is between them takes turns,
and each takes a bucket's memory. Two were measured; more than eight threads of one interpreter rarely pay."""

USUAL_WORKERS: Final = 2

BUCKETS_SHARE: Final = 0.25
"""Of the memory limit, for all buckets that are worked on at a time; DuckDB gets DATABASE_SHARE, and the rest is for
the stages and for Python itself."""

DATABASE_SHARE: Final = 0.4

DATABASE_FLOOR_BYTES: Final = 100_000_000
"""DuckDB cannot read a Parquet file with less: some row groups of every column, for each thread."""

T = TypeVar("T")
R = TypeVar("R")


def read_transfers(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
    cores: int | None = None,
    bucket_records: int | None = None,
    rules: IngestRules = RULES,
) -> AssembledFlows:
    """Reads everything that `read_flows` reads, as transfers.

    `memory_limit` (for example "4GB") bounds what reading takes, `cores` how many threads it uses; `bucket_records` is
    for tests.
    """
    limit = None if memory_limit is None else memory_bytes(memory_limit)
    workers = max(min(cores or USUAL_WORKERS, MAX_WORKERS), 1)
    share = BUCKETS_SHARE / workers
    most = bucket_records or (WHOLE_RECORDS if limit is None else int(share * limit / RECORD_BYTES))
    of_database = None if limit is None else f"{max(int(DATABASE_SHARE * limit), DATABASE_FLOOR_BYTES) // 10**6}MB"
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with (
        open_database(of_database, cores) as (connection, spill),
        report_progress(connection, progress) as report_packets,
    ):
        options = ReadOptions(mapping or ColumnMapping(), collector, rules.burst_gap_ns, report_packets)
        try:
            relation = create_records(connection, spill, sources, options)
            if relation.rows > most:
                block, bucket = min(BLOCK_RECORDS, 2 * most), min(BUCKET_RECORDS, most)
                work = _BucketWork(block, bucket, workers, limit is not None, rules)
                return _in_buckets(connection, relation, sources, work)
            loaded = loaded_of(connection, relation, sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None
    flows = table_of(loaded, rules)
    return AssembledFlows(assemble_transfers(flows, rules), flows.counts, flows.window, flows.congestion)


@dataclass(frozen=True, slots=True)
class _BucketWork:
    """How buckets are worked on: records that are numbered at a time, records of a bucket at most, buckets at a time,
    kept in files or in memory, the rules."""

    block: int
    most: int
    workers: int
    spilled: bool
    rules: IngestRules


def _in_buckets(
    connection: Database, relation: Relation, sources: Sequence[SourceFile], work: _BucketWork
) -> AssembledFlows:
    interner = Interner(connection, relation.scans)
    spool, tally = Spool(spilled=work.spilled), _RecordCounts()
    for block in interner.blocks(work.block):
        spool.add(tally.usable(block))
    dropped = tally.dropped
    dropped[REASONS.index("unreadable")] += relation.unreadable
    records = relation.rows + relation.unreadable
    if not tally.pair_records.size:
        check_numbers(connection, relation.scans)
        raise no_usable_record(sources, records, dropped)
    names, ids = interner.names()
    store = _TransferStore(int(tally.pair_records.sum()), spilled=work.spilled)
    pair_records = np.empty_like(tally.pair_records)
    pair_records[ids.pair] = tally.pair_records
    several = tally.several_exporters
    for transfers, window, copies in _worked(spool, ids, names, pair_records, work, several_exporters=several):
        dropped[DUPLICATE] += copies
        store.add(transfers, window)
    used = records - int(dropped.sum())
    reasons = tuple((REASONS[code], int(dropped[code])) for code in np.flatnonzero(dropped))
    return AssembledFlows(
        store.table(names, ids), InputCounts(records, used, reasons), store.window, merged(relation.captures)
    )


class _RecordCounts:
    """Counts the records of every numbered pair, and those that cannot be used by reason."""

    def __init__(self) -> None:
        self.dropped = np.zeros(len(REASONS), dtype=np.int64)
        self.pair_records = np.zeros(0, dtype=np.int64)
        self._exporters: set[int] = set()

    @property
    def several_exporters(self) -> bool:
        """Whether usable records have different exporters (or some one and some none)."""
        return len(self._exporters) > 1

    def usable(self, records: Records) -> Records:
        """The usable ones of these records, counted."""
        usable = records["pair"] >= 0
        if not usable.all():
            self.dropped += np.bincount(-records["pair"][~usable], minlength=len(REASONS))
            records = records[usable]
        counts = np.bincount(records["pair"], minlength=self.pair_records.size)
        counts[: self.pair_records.size] += self.pair_records
        self.pair_records = counts
        if "exporter" in (records.dtype.names or ()) and records.size:
            self._exporters |= {int(records["exporter"].min()), int(records["exporter"].max())}
        return records


def _bucket_bounds(pair_records: Int64, most: int) -> Int64:
    """First pair of each bucket, and the end: as many pairs as hold at most `most` records, one at least."""
    passed = np.concatenate([[0], np.cumsum(pair_records)])
    bounds = [0]
    while bounds[-1] < pair_records.size:
        after = int(np.searchsorted(passed, passed[bounds[-1]] + most, side="right")) - 1
        bounds.append(max(after, bounds[-1] + 1))
    return np.array(bounds)


def _worked(
    spool: Spool, ids: Ids, names: Names, pair_records: Int64, work: _BucketWork, *, several_exporters: bool
) -> Iterator[tuple[TransferTable, Window, int]]:
    """Transfers, time and copies of one bucket after the other; while one is taken, the next ones are worked on."""
    bounds = _bucket_bounds(pair_records, work.most)
    bucket_of_pair = np.repeat(np.arange(bounds.size - 1, dtype=np.int32), np.diff(bounds))
    buckets = Buckets(np.add.reduceat(pair_records, bounds[:-1]), spool.kind, spilled=work.spilled)

    def deal(block: Records) -> None:
        buckets.deal(block, ids, bucket_of_pair)

    def assemble(bucket: int) -> tuple[TransferTable, Window, int]:
        low, high = int(bounds[bucket]), int(bounds[bucket + 1])
        rows, offsets = rows_by_pair(buckets.take(bucket), high - low, low, one_of_many=True)
        src, dst = ids.pair_src[low:high], ids.pair_dst[low:high]
        flows = flow_table(rows, offsets, names, src, dst, several_exporters=several_exporters, rules=work.rules)
        return assemble_transfers(flows, work.rules), flows.window, flows.counts.records - flows.counts.used

    with ThreadPoolExecutor(work.workers, "llmprism-bucket") as threads:
        for _ in _in_turn(threads, work.workers, deal, spool.blocks()):
            pass
        yield from _in_turn(threads, work.workers, assemble, range(bounds.size - 1))


def _in_turn(threads: ThreadPoolExecutor, workers: int, task: Callable[[T], R], work: Iterable[T]) -> Iterator[R]:
    """The results in order; work is taken up only when a thread is free for it."""
    coming: deque[Future[R]] = deque()
    for one in work:
        if len(coming) == workers:
            yield coming.popleft().result()
        coming.append(threads.submit(task, one))
    while coming:
        yield coming.popleft().result()


class _Column:
    """One column of the transfers, filled from its beginning: in memory, or in a file."""

    def __init__(self, kind: type, most: int, *, spilled: bool) -> None:
        self._kind = kind
        self._file = nameless_file() if spilled else None
        self._array: NDArray[Any] = fresh_array(0 if spilled else most, kind)
        self._filled = 0

    def add(self, part: NDArray[Any]) -> None:
        if self._file is None:
            self._array[self._filled : self._filled + part.size] = part
        else:
            part.tofile(self._file)
        self._filled += part.size

    def array(self) -> NDArray[Any]:
        """What was added."""
        if self._file is None:
            return self._array[: self._filled]
        return np.asarray(np.memmap(self._file, dtype=self._kind, mode="r+"))


class _TransferStore:
    """Takes the transfers of one bucket after the other: at most as many as there are records."""

    def __init__(self, most: int, *, spilled: bool) -> None:
        kinds = (np.int64, np.int64, np.int64, np.int64, np.int32, np.int32)
        self._columns = [_Column(kind, most, spilled=spilled) for kind in kinds]
        self._pairs: list[tuple[Int64, Int64]] = []
        self._spans: list[Window] = []

    def add(self, transfers: TransferTable, window: Window) -> None:
        parts: tuple[NDArray[Any], ...] = (
            transfers.start_ns, transfers.end_ns, transfers.bytes, transfers.active_ns, transfers.path,
            transfers.records,
        )  # fmt: skip
        for column, part in zip(self._columns, parts, strict=True):
            column.add(part)
        self._pairs.append((np.diff(transfers.pair_offsets), transfers.pair_gap_ns))
        self._spans.append(window)

    @property
    def window(self) -> Window:
        return Window(min(span.start_ns for span in self._spans), max(span.end_ns for span in self._spans))

    def table(self, names: Names, ids: Ids) -> TransferTable:
        rows, gap = (np.concatenate(column) for column in zip(*self._pairs, strict=True))
        offsets = np.concatenate([[0], np.cumsum(rows)])
        columns = (column.array() for column in self._columns)
        return TransferTable(names.addresses, names.paths, ids.pair_src, ids.pair_dst, offsets, gap, *columns)
