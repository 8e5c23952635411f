"""Files → transfers, in buckets of pairs, so that memory is bounded by a bucket and not by the records.

The same rules as `read_flows` and `assemble_transfers`, and the same result to the byte; but the records never lie in
arrays all at once. They are interned into a table of DuckDB's, which goes to disk where a memory limit asks for it. A
pair is one number there, in the order of the pairs, and a bucket is a range of them with a bounded number of records:
each bucket is fetched, ordered, freed of duplicates and put together to transfers, a few times fewer than its records;
two buckets are worked on at a time.
Because buckets follow the order of the pairs, their transfers only have to be put one behind the other. With a memory
limit they are kept in files without a name and mapped into memory; the files go when the table does.
"""

from __future__ import annotations

import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.capture_notes import merged
from llmprism.ingest.columns import DUPLICATE, REASONS
from llmprism.ingest.database import Database, Progress, memory_bytes, numpy_columns, open_database, report_progress
from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.flows import only_used, table_of
from llmprism.ingest.loading import (
    Names,
    Rows,
    create_dictionaries,
    loaded_of,
    no_usable_record,
)
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import keep_rows, pair_order
from llmprism.ingest.packets.stats import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, Relation, check_numbers, create_records, explain
from llmprism.ingest.sources import Source, expand, identify, parse_format
from llmprism.ingest.transfers import assemble_transfers
from llmprism.model.flows import AssembledFlows, FlowTable, InputCounts, Int32, Int64, TransferTable, Window

__all__ = ["BUCKET_RECORDS", "read_transfers"]

BUCKET_RECORDS: Final = 4_000_000
"""Records of a bucket without a memory limit: half a gigabyte, and a pair's records close enough for the caches."""

RECORD_BYTES: Final = 128
"""Memory that one record of a bucket takes while it is ordered: its columns twice and two permutations."""

WORKERS: Final = 2
"""Buckets worked on at a time: their kernels leave the interpreter alone, and each takes a bucket's memory."""

BUCKET_SHARE: Final = 0.125
"""Of the memory limit, for a bucket, of which there are two at a time; DuckDB gets DATABASE_SHARE, and the rest is for
the stages and for Python itself."""

DATABASE_SHARE: Final = 0.4

DATABASE_FLOOR_BYTES: Final = 100_000_000
"""DuckDB cannot read a Parquet file with less: some row groups of every column, for each thread."""


def read_transfers(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
    bucket_records: int | None = None,
) -> AssembledFlows:
    """Reads everything that `read_flows` reads, as transfers.

    `memory_limit` (for example "4GB") bounds what reading takes; `bucket_records` is for tests.
    """
    limit = None if memory_limit is None else memory_bytes(memory_limit)
    most = bucket_records or (BUCKET_RECORDS if limit is None else int(BUCKET_SHARE * limit / RECORD_BYTES))
    of_database = None if limit is None else f"{max(int(DATABASE_SHARE * limit), DATABASE_FLOOR_BYTES) // 10**6}MB"
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(of_database) as (connection, spill), report_progress(connection, progress) as tell:
        options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS, tell)
        try:
            relation = create_records(connection, spill, sources, options)
            if relation.rows > most:
                return _in_buckets(connection, relation, sources, most, spilled=limit is not None)
            loaded = loaded_of(connection, relation, sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None
    flows = table_of(loaded)
    return AssembledFlows(assemble_transfers(flows), flows.counts, flows.window, flows.congestion)


def _in_buckets(
    connection: Database, relation: Relation, sources: Sequence[Source], most: int, *, spilled: bool
) -> AssembledFlows:
    names, several_exporters = _create_interned(connection)
    keys, counts = _pairs(connection)
    dropped = np.zeros(len(REASONS), dtype=np.int64)
    dropped[-keys[keys < 0]] = counts[keys < 0]
    dropped[REASONS.index("unreadable")] += relation.unreadable
    records = int(counts.sum()) + relation.unreadable
    keys, counts = keys[keys >= 0], counts[keys >= 0]
    if not keys.size:
        check_numbers(connection, relation.scans)
        raise no_usable_record(sources, records, dropped)
    store = _Store(spilled=spilled)
    for transfers, window, copies in _worked(
        connection, list(_buckets(keys, counts, most)), names, several_exporters=several_exporters
    ):
        dropped[DUPLICATE] += copies
        store.add(transfers, window)
    connection.execute("DROP TABLE interned")
    used = records - int(dropped.sum())
    reasons = tuple((REASONS[code], int(dropped[code])) for code in np.flatnonzero(dropped))
    return AssembledFlows(
        store.table(names), InputCounts(records, used, reasons), store.window, merged(relation.captures)
    )


def _create_interned(connection: Database) -> tuple[Names, bool]:
    """Creates `interned`: a record's `pair` is its source's id times the number of addresses plus its destination's,
    or minus the reason why it cannot be used. Also says whether several exporters report usable records."""
    names, ids, joins = create_dictionaries(connection)
    pair = f"({ids.pop('src')})::BIGINT * {len(names.addresses)} + {ids.pop('dst')}"
    columns = [f"CASE WHEN reason = 0 THEN {pair} ELSE -(reason::BIGINT) END AS pair", "connection"]
    columns += [f"coalesce({name}, 0) AS {name}" for name in ("start_ns", "end_ns", "bytes")]
    columns += [f"{identifier} AS {name}" for name, identifier in ids.items()]
    connection.execute(f"CREATE TABLE interned AS SELECT {', '.join(columns)} FROM {joins}")
    if "exporter" not in ids:
        return names, False
    row = connection.execute("SELECT min(exporter) < max(exporter) FROM interned WHERE pair >= 0").fetchone()
    return names, bool(row and row[0])


def _pairs(connection: Database) -> tuple[Int64, Int64]:
    """The pairs (and the reasons, below 0) in order, with the number of their records."""
    found = numpy_columns(connection, "SELECT pair, count(*) AS records FROM interned GROUP BY pair")
    order = np.argsort(found["pair"])
    return found["pair"][order], found["records"][order]


def _buckets(keys: Int64, counts: Int64, most: int) -> Iterator[tuple[int, int]]:
    """First and last pair of each bucket: as many pairs as hold at most `most` records, one at least."""
    passed = np.concatenate([[0], np.cumsum(counts)])
    first = 0
    while first < keys.size:
        after = max(int(np.searchsorted(passed, passed[first] + most, side="right")) - 1, first + 1)
        yield int(keys[first]), int(keys[after - 1])
        first = after


def _worked(
    connection: Database, buckets: list[tuple[int, int]], names: Names, *, several_exporters: bool
) -> Iterator[tuple[TransferTable, Window, int]]:
    """Transfers, time and copies of one bucket after the other; while one is taken, the next ones are worked on."""

    def work(bucket: tuple[int, int]) -> tuple[TransferTable, Window, int]:
        query = f"SELECT * FROM interned WHERE pair BETWEEN {bucket[0]} AND {bucket[1]}"
        with connection.cursor() as cursor:
            arrays = numpy_columns(cursor, query)
        flows, copies = _bucket(arrays, names, several_exporters=several_exporters)
        return assemble_transfers(flows), flows.window, copies

    with ThreadPoolExecutor(WORKERS, "llmprism-bucket") as threads:
        coming = deque(threads.submit(work, bucket) for bucket in buckets[:WORKERS])
        for bucket in buckets[WORKERS:]:
            yield coming.popleft().result()
            coming.append(threads.submit(work, bucket))
        while coming:
            yield coming.popleft().result()


def _bucket(arrays: dict[str, NDArray[Any]], names: Names, *, several_exporters: bool) -> tuple[FlowTable, int]:
    """The records of some pairs, each transfer once, and how many were copies. Empties `arrays`."""
    pair = arrays.pop("pair")
    count = len(names.addresses)
    src, dst = (pair // count).astype(np.int32), (pair % count).astype(np.int32)
    del pair
    path = arrays.pop("path", None)
    rows = Rows(
        np.zeros(0, dtype=np.uint8), src, dst, arrays.pop("start_ns"), arrays.pop("end_ns"), arrays.pop("bytes"),
        np.full(src.size, -1, dtype=np.int32) if path is None else path,
        arrays.pop("connection"), arrays.pop("exporter", None) if several_exporters else None,
    )  # fmt: skip
    order, pair_src, pair_dst, offsets = pair_order(
        rows.src, rows.dst, rows.start_ns, rows.end_ns, rows.bytes, rows.path, count
    )
    rows = rows.ordered(order)
    copies = duplicate_rows(offsets, rows.start_ns, rows.end_ns, rows.bytes, rows.connection, rows.exporter)
    if copies.any():
        rows, offsets = rows.ordered(np.flatnonzero(~copies)), keep_rows(offsets, ~copies)
    used = int(rows.start_ns.size)
    flows = FlowTable(
        names.addresses, names.paths, pair_src, pair_dst, offsets, rows.start_ns, rows.end_ns, rows.bytes, rows.path,
        InputCounts(used, used),
    )  # fmt: skip
    return flows, int(np.count_nonzero(copies))


@dataclass(frozen=True, slots=True)
class _Column:
    """One column of the transfers: parts in memory, or behind each other in a file."""

    parts: list[NDArray[Any]]
    file: IO[bytes] | None

    def add(self, part: NDArray[Any]) -> None:
        if self.file is None:
            self.parts.append(part)
        else:
            self.parts[:] = [part[:0]]
            part.tofile(self.file)

    def array(self) -> NDArray[Any]:
        """The whole column; the parts go."""
        if self.file is None:
            whole = self.parts[0] if len(self.parts) == 1 else np.concatenate(self.parts)
            self.parts.clear()
            return whole
        self.file.flush()
        kind = self.parts[0].dtype
        return np.asarray(np.memmap(self.file, dtype=kind, mode="r+"))


def _nameless_file() -> IO[bytes]:
    """A file that goes when the last array that is mapped to it does."""
    return tempfile.TemporaryFile(prefix="llmprism-")


class _Store:
    """Takes the transfers of one bucket after the other."""

    _COLUMNS: Final = ("start_ns", "end_ns", "bytes", "active_ns", "path", "records")

    def __init__(self, *, spilled: bool) -> None:
        self._columns = {name: _Column([], _nameless_file() if spilled else None) for name in self._COLUMNS}
        self._pairs: list[tuple[Int32, Int32, Int64, Int64]] = []
        self._spans: list[Window] = []

    def add(self, transfers: TransferTable, window: Window) -> None:
        for name, column in self._columns.items():
            column.add(getattr(transfers, name))
        self._pairs.append(
            (transfers.pair_src, transfers.pair_dst, np.diff(transfers.pair_offsets), transfers.pair_gap_ns)
        )
        self._spans.append(window)

    @property
    def window(self) -> Window:
        return Window(min(span.start_ns for span in self._spans), max(span.end_ns for span in self._spans))

    def table(self, names: Names) -> TransferTable:
        src, dst, rows, gap = (np.concatenate(column) for column in zip(*self._pairs, strict=True))
        addresses, src, dst = only_used(names.addresses, src, dst)
        offsets = np.concatenate([[0], np.cumsum(rows)])
        columns = (column.array() for column in self._columns.values())
        return TransferTable(addresses, names.paths, src, dst, offsets, gap, *columns)
