"""Flow records in files → FlowTable.

All formats become one SQL relation with the same columns (`columns.py`). Text formats are parsed once into a temporary
table, Parquet is scanned in place, because reading a column twice is cheaper there than a copy. Addresses, switch
paths and exporters are interned by a join with their sorted distinct values, so that ids follow the order of the names
and the result does not depend on threads or file order. Then everything is integers in NumPy arrays: rows that cannot
be used are dropped and counted by reason, the rest is ordered by pair (`order.py`), and second reports of the same
transfer are dropped (`duplicates.py`).

Invariants: `counts.records == counts.used + sum(counts.dropped)`; rows sorted by (src, dst, start, end, bytes, path);
every pair has at least one row; every address is used.
"""

from __future__ import annotations

import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism import limits
from llmprism.errors import ColumnError, FormatError, InputError, LimitError, UsageError
from llmprism.ingest.columns import DUPLICATE, REASONS, Scan
from llmprism.ingest.csv_text import csv_scans
from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.json_lines import json_lines_scans
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import keep_rows, pair_order
from llmprism.ingest.parquet import parquet_scan
from llmprism.ingest.sources import Format, Source, expand, identify, parse_format
from llmprism.model.flows import FlowTable, InputCounts, Int32, Int64

__all__ = ["Progress", "explain", "open_database", "read_flows", "scans_of"]

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0..1."""

PROGRESS_SECONDS: Final = 0.2
"""How often progress is looked at: five times a second looks smooth."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """All rows as read, in no particular order; ids -1 where the value is missing."""

    reason: NDArray[np.uint8]
    src: Int32
    dst: Int32
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    connection: NDArray[np.uint64]
    exporter: Int32 | None

    def select(self, keep: NDArray[np.bool_] | Int64) -> _Rows:
        return _Rows(
            self.reason[keep],
            self.src[keep],
            self.dst[keep],
            self.start_ns[keep],
            self.end_ns[keep],
            self.bytes[keep],
            self.path[keep],
            self.connection[keep],
            None if self.exporter is None else self.exporter[keep],
        )


def read_flows(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> FlowTable:
    """Reads files or globs of flow records (Parquet, CSV, JSON Lines; plain, gzip or zstd) into one table.

    `format` forces a format that is otherwise told from the content; `memory_limit` is DuckDB's (for example "2GB").
    Raises an LLMPrismError with one clear line if a file cannot be used; rows that cannot be used are only counted.
    """
    forced = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as connection, _reported(connection, progress):
        try:
            scans = scans_of(connection, sources, mapping or ColumnMapping())
            unreadable = _create_records(connection, scans, sources)
            addresses, switch_paths, rows = _intern(connection)
            if not (rows.reason == 0).any():
                _check_numbers(connection, scans)
        except duckdb.Error as error:
            raise explain(error, sources) from None
    table = _table(rows, addresses, switch_paths, unreadable)
    if not table.counts.used:
        raise _no_usable_record(sources, table.counts)
    return table


@contextmanager
def open_database(memory_limit: str | None) -> Iterator[duckdb.DuckDBPyConnection]:
    """An in-memory database that spills to a directory of its own and never loads anything from a network."""
    with tempfile.TemporaryDirectory(prefix="llmprism-") as spill:
        options: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        if memory_limit is not None:
            options["memory_limit"] = memory_limit
        try:
            connection = duckdb.connect(config=options)
        except duckdb.Error as error:
            raise UsageError(f"memory limit {memory_limit!r}: {_first_line(error)}") from None
        with connection:
            yield connection


@contextmanager
def _reported(connection: duckdb.DuckDBPyConnection, progress: Progress | None) -> Iterator[None]:
    """Calls `progress` from a thread while queries run; it never goes backwards and ends with 1."""
    if progress is None:
        yield
        return
    done = threading.Event()

    def watch() -> None:
        best = 0.0
        while not done.wait(PROGRESS_SECONDS):
            best = max(best, min(connection.query_progress() / 100.0, 0.99))
            progress(best)

    thread = threading.Thread(target=watch, name="llmprism-progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()
    progress(1.0)


def scans_of(connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], mapping: ColumnMapping) -> list[Scan]:
    by_format = {kind: [source for source in sources if source.format is kind] for kind in Format}
    scans: list[Scan] = []
    if by_format[Format.CSV]:
        scans += csv_scans(by_format[Format.CSV], mapping)
    if by_format[Format.JSONL]:
        scans += json_lines_scans(connection, by_format[Format.JSONL], mapping)
    if by_format[Format.PARQUET]:
        scans.append(parquet_scan(connection, by_format[Format.PARQUET], mapping))
    return scans


def _create_records(connection: duckdb.DuckDBPyConnection, scans: Sequence[Scan], sources: Sequence[Source]) -> int:
    """Creates the relation `records` over all files; returns how many lines could not even be split into fields."""
    formats = {source.format for source in sources}
    kind = "VIEW" if formats == {Format.PARQUET} else "TABLE"
    connection.execute(f"CREATE TEMP {kind} records AS {' UNION ALL '.join(scan.select() for scan in scans)}")
    unreadable = _scalar(connection, REJECTED_LINES) if Format.CSV in formats else 0
    count = _scalar(connection, "SELECT count(*) FROM records")
    if count > limits.MAX_RECORDS:
        raise LimitError(f"{count:,} records; at most {limits.MAX_RECORDS:,} fit in one run: read a shorter time range")
    if not count + unreadable:
        raise InputError(f"{_names(sources)}: holds no records")
    return unreadable


REJECTED_LINES: Final = "SELECT count(*) FROM (SELECT DISTINCT scan_id, file_id, line FROM reject_errors)"


def _check_numbers(connection: duckdb.DuckDBPyConnection, scans: Sequence[Scan]) -> None:
    """No row can be used: if a number column holds text, say which and show it."""
    for scan in scans:
        for target in ("start_ns", "end_ns", "duration_ns", "bytes"):
            query = scan.select_not_a_number(target)
            row = connection.execute(query).fetchone() if query else None
            if row is not None:
                expected = "whole numbers" if target == "bytes" else "nanoseconds (or the unit that --map gives)"
                raise ColumnError(
                    f"{scan.name}: the column for {target} holds text ({row[0][:40]!r}), expected {expected}; "
                    f"map the right column and unit, for example --map {target}=COLUMN"
                )


def _intern(connection: duckdb.DuckDBPyConnection) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], _Rows]:
    """The names of addresses and paths in order, and all rows with integers in their place."""
    longest = limits.MAX_ADDRESS_CHARS
    both = "SELECT src AS name FROM records UNION SELECT dst FROM records"
    addresses = _dictionary(connection, "addresses", both, f"name <> '' AND length(name) <= {longest}")
    paths = _dictionary(connection, "paths", "SELECT DISTINCT switches AS name FROM records", "name IS NOT NULL")
    exporters = _dictionary(
        connection, "exporters", "SELECT DISTINCT exporter AS name FROM records", "name IS NOT NULL"
    )
    columns = ["reason"] + [f"coalesce({name}, 0) AS {name}" for name in ("start_ns", "end_ns", "bytes")]
    columns += ["connection", "coalesce(s.id, -1) AS src", "coalesce(d.id, -1) AS dst"]
    joins = ["records AS r LEFT JOIN addresses AS s ON s.name = r.src LEFT JOIN addresses AS d ON d.name = r.dst"]
    if paths:
        columns.append("coalesce(p.id, -1) AS path")
        joins.append("LEFT JOIN paths AS p ON p.name = r.switches")
    if exporters:
        columns.append("coalesce(e.id, -1) AS exporter")
        joins.append("LEFT JOIN exporters AS e ON e.name = r.exporter")
    fetched = connection.execute(f"SELECT {', '.join(columns)} FROM {' '.join(joins)}").fetchnumpy()
    arrays = {name: np.ma.getdata(column) for name, column in fetched.items()}
    path = arrays["path"] if paths else np.full(arrays["src"].size, -1, dtype=np.int32)
    rows = _Rows(
        arrays["reason"],
        arrays["src"],
        arrays["dst"],
        arrays["start_ns"],
        arrays["end_ns"],
        arrays["bytes"],
        path,
        arrays["connection"],
        arrays.get("exporter"),
    )
    return tuple(str(name) for (name,) in addresses), tuple(tuple(map(str, name)) for (name,) in paths), rows


def _dictionary(
    connection: duckdb.DuckDBPyConnection, table: str, values: str, condition: str
) -> list[tuple[str | list[str]]]:
    """Creates `table(name, id)` with ids in the order of the names; returns the names in that order."""
    connection.execute(
        f"CREATE TEMP TABLE {table} AS "
        f"SELECT name, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS id FROM ({values}) WHERE {condition}"
    )
    return connection.execute(f"SELECT name FROM {table} ORDER BY id").fetchall()


def _table(
    rows: _Rows, addresses: tuple[str, ...], switch_paths: tuple[tuple[str, ...], ...], unreadable: int
) -> FlowTable:
    """Drops, orders and cuts the rows."""
    dropped = np.bincount(rows.reason, minlength=len(REASONS))
    records = rows.reason.size + unreadable
    dropped[REASONS.index("unreadable")] += unreadable
    if dropped[0] < rows.reason.size:
        rows = rows.select(rows.reason == 0)
    order, pair_src, pair_dst, offsets = pair_order(
        rows.src, rows.dst, rows.start_ns, rows.end_ns, rows.bytes, rows.path, len(addresses)
    )
    rows = rows.select(order)
    copies = duplicate_rows(offsets, rows.start_ns, rows.end_ns, rows.bytes, rows.connection, rows.exporter)
    if copies.any():
        dropped[DUPLICATE] = np.count_nonzero(copies)
        rows, offsets = rows.select(~copies), keep_rows(offsets, ~copies)
    addresses, pair_src, pair_dst = _only_used(addresses, pair_src, pair_dst)
    counts = InputCounts(
        records=int(records),
        used=int(rows.start_ns.size),
        dropped=tuple((REASONS[code], int(dropped[code])) for code in range(1, len(REASONS)) if dropped[code]),
    )
    return FlowTable(
        addresses,
        switch_paths,
        pair_src,
        pair_dst,
        offsets,
        rows.start_ns,
        rows.end_ns,
        rows.bytes,
        rows.path,
        counts,
    )


def _only_used(addresses: tuple[str, ...], pair_src: Int32, pair_dst: Int32) -> tuple[tuple[str, ...], Int32, Int32]:
    """Addresses that only dropped rows name disappear; the ids keep their order."""
    used = np.zeros(len(addresses), dtype=np.bool_)
    used[pair_src] = used[pair_dst] = True
    if used.all():
        return addresses, pair_src, pair_dst
    new_id = np.cumsum(used, dtype=np.int32) - np.int32(1)
    names = tuple(addresses[address] for address in np.flatnonzero(used))
    return names, new_id[pair_src].astype(np.int32), new_id[pair_dst].astype(np.int32)


def _no_usable_record(sources: Sequence[Source], counts: InputCounts) -> InputError:
    reasons = ", ".join(f"{reason} {count:,}" for reason, count in counts.dropped)
    message = f"{_names(sources)}: none of {counts.records:,} records can be used ({reasons})"
    return InputError(f"{message}; check the column mapping and the units of the times (--map start_ns=ts:ms)")


def explain(error: duckdb.Error, sources: Sequence[Source]) -> InputError | LimitError:
    line = _first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return LimitError(f"{_names(sources)}: out of memory while reading ({line}); read a shorter time range")
    guilty = [source for source in sources if str(source.path) in line] or list(sources)
    kinds = "/".join(sorted({str(source.format) for source in guilty}))
    return FormatError(f"{_names(guilty)}: cannot be read as {kinds} ({line})")


def _names(sources: Sequence[Source]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].path}{more}"


def _first_line(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:240]


def _scalar(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row is not None else 0
