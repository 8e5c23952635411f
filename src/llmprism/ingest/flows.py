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

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism import limits
from llmprism.errors import InputError
from llmprism.ingest.columns import DUPLICATE, REASONS
from llmprism.ingest.database import Database, Progress, open_database, report_progress
from llmprism.ingest.duplicates import duplicate_rows
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import keep_rows, pair_order
from llmprism.ingest.packets import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, check_numbers, create_records, explain, file_names
from llmprism.ingest.sources import Source, expand, identify, parse_format
from llmprism.model.flows import FlowTable, InputCounts, Int32, Int64

__all__ = ["read_flows"]


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
    """Reads files or globs of flow records or packets into one table; "-" is standard input (packets).

    Parquet, CSV, JSON Lines, pcap and pcapng, plain, gzip or zstd, and the output of the collectors of
    `collectors.py`, told apart by content. `format` forces a format or a collector; `memory_limit` is DuckDB's (for
    example "2GB"). Raises an LLMPrismError with one clear line if a file cannot be used; rows that cannot be used are
    only counted.
    """
    forced, collector = parse_format(format)
    options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress):
        try:
            relation = create_records(connection, spill, sources, options)
            addresses, switch_paths, rows = _intern(connection)
            if not (rows.reason == 0).any():
                check_numbers(connection, relation.scans)
        except duckdb.Error as error:
            raise explain(error, sources) from None
    table = _table(rows, addresses, switch_paths, relation.unreadable)
    if not table.counts.used:
        raise _no_usable_record(sources, table.counts)
    return table


def _intern(connection: Database) -> tuple[tuple[str, ...], tuple[tuple[str, ...], ...], _Rows]:
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


def _dictionary(connection: Database, table: str, values: str, condition: str) -> list[tuple[str | list[str]]]:
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
    message = f"{file_names(sources)}: none of {counts.records:,} records can be used ({reasons})"
    return InputError(f"{message}; check the column mapping and the units of the times (--map start_ns=ts:ms)")
