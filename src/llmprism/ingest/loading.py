"""Files → interned integer columns, ordered by pair: what is common to reading flows and to inspecting them.

Addresses, switch paths and exporters are interned by a join with their sorted distinct values, so that ids follow the
order of the names and the result does not depend on threads or file order. Then everything is integers in NumPy
arrays: rows that cannot be used are dropped and counted by reason, and the rest is ordered by pair (`order.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism import limits
from llmprism.errors import InputError
from llmprism.ingest.capture_notes import CaptureNotes
from llmprism.ingest.columns import REASONS
from llmprism.ingest.database import Database, Progress, numpy_columns, open_database, report_progress
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.order import pair_order
from llmprism.ingest.packets.stats import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, Relation, check_numbers, create_records, explain, file_names
from llmprism.ingest.sources import Source, expand, identify, parse_format
from llmprism.model.flows import Int32, Int64

__all__ = [
    "Loaded",
    "Names",
    "Rows",
    "create_dictionaries",
    "intern_records",
    "load_records",
    "loaded_of",
    "no_usable_record",
]


@dataclass(frozen=True, slots=True)
class Rows:
    """Records as columns; ids are -1 where the value is missing, `exporter` is None where no record names one."""

    reason: NDArray[np.uint8]
    src: Int32
    dst: Int32
    start_ns: Int64
    end_ns: Int64
    bytes: Int64
    path: Int32
    connection: NDArray[np.uint64]
    exporter: Int32 | None

    def select(self, keep: NDArray[np.bool_] | Int64) -> Rows:
        return Rows(
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

    def ordered(self, order: Int64) -> Rows:
        """The rows in this order; what only told how to order them (the reason and the ends) is left behind."""
        none = np.zeros(0, dtype=np.int32)
        return Rows(
            self.reason[:0],
            none,
            none,
            self.start_ns[order],
            self.end_ns[order],
            self.bytes[order],
            self.path[order],
            self.connection[order],
            None if self.exporter is None else self.exporter[order],
        )


@dataclass(frozen=True, slots=True)
class Loaded:
    """Usable rows in the order of the FlowTable, the pairs they belong to, and what became of the others.

    `dropped` counts by reason code (`columns.REASONS`); `records` is everything that was read.
    """

    rows: Rows
    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    exporters: tuple[str, ...]
    pair_src: Int32
    pair_dst: Int32
    pair_offsets: Int64
    records: int
    dropped: Int64
    captures: tuple[CaptureNotes, ...]
    sampling: int = 1


def load_records(
    paths: Sequence[str | Path],
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> Loaded:
    """Reads everything that `read_flows` reads. Raises where no record at all can be used."""
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress) as tell:
        options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS, tell)
        try:
            return loaded_of(connection, create_records(connection, spill, sources, options), sources)
        except duckdb.Error as error:
            raise explain(error, sources) from None


def loaded_of(connection: Database, relation: Relation, sources: Sequence[Source]) -> Loaded:
    """The records of the relation `records`, all at once. Raises where none of them can be used."""
    names, rows = intern_records(connection)
    if not (rows.reason == 0).any():
        check_numbers(connection, relation.scans)
    dropped = np.bincount(rows.reason, minlength=len(REASONS)).astype(np.int64)
    used, dropped[0] = int(dropped[0]), 0
    dropped[REASONS.index("unreadable")] += relation.unreadable
    records = rows.reason.size + relation.unreadable
    if not used:
        raise no_usable_record(sources, records, dropped)
    if used < rows.reason.size:
        rows = rows.select(rows.reason == 0)
    order, pair_src, pair_dst, offsets = pair_order(
        rows.src, rows.dst, rows.start_ns, rows.end_ns, rows.bytes, rows.path, len(names.addresses)
    )
    return Loaded(
        rows.ordered(order),
        names.addresses,
        names.paths,
        names.exporters,
        pair_src,
        pair_dst,
        offsets,
        records,
        dropped,
        relation.captures,
        relation.sampling,
    )


@dataclass(frozen=True, slots=True)
class Names:
    """Sorted; a row's ids index them."""

    addresses: tuple[str, ...]
    paths: tuple[tuple[str, ...], ...]
    exporters: tuple[str, ...]


def intern_records(connection: Database) -> tuple[Names, Rows]:
    """The names of addresses, paths and exporters in order, and all rows with integers in their place."""
    names, ids, joins = create_dictionaries(connection)
    columns = ["reason"] + [f"coalesce({name}, 0) AS {name}" for name in ("start_ns", "end_ns", "bytes")]
    columns += ["connection"] + [f"{identifier} AS {name}" for name, identifier in ids.items()]
    arrays = numpy_columns(connection, f"SELECT {', '.join(columns)} FROM {joins}")
    path = arrays["path"] if "path" in arrays else np.full(arrays["src"].size, -1, dtype=np.int32)
    rows = Rows(
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
    return names, rows


def create_dictionaries(connection: Database) -> tuple[Names, dict[str, str], str]:
    """The names in `records`, the SQL expression of each id column (-1: unknown), and the joins that these need.

    Paths and exporters have no column where no record names any.
    """
    longest = limits.MAX_ADDRESS_CHARS
    both = "SELECT src AS name FROM records UNION SELECT dst FROM records"
    addresses = _dictionary(connection, "addresses", both, f"name <> '' AND length(name) <= {longest}")
    paths = _dictionary(connection, "paths", _PATHS, "name IS NOT NULL", "hash")
    exporters = _dictionary(
        connection, "exporters", "SELECT DISTINCT exporter AS name FROM records", "name IS NOT NULL"
    )
    ids = {"src": "coalesce(s.id, -1)", "dst": "coalesce(d.id, -1)"}
    joins = ["records AS r LEFT JOIN addresses AS s ON s.name = r.src LEFT JOIN addresses AS d ON d.name = r.dst"]
    if paths:
        ids["path"] = "coalesce(p.id, -1)"
        joins.append("LEFT JOIN paths AS p ON p.hash = hash(r.switches)")
    if exporters:
        ids["exporter"] = "coalesce(e.id, -1)"
        joins.append("LEFT JOIN exporters AS e ON e.name = r.exporter")
    names = Names(
        tuple(str(name) for (name,) in addresses),
        tuple(tuple("?" if switch is None else str(switch) for switch in name) for (name,) in paths),
        tuple(str(name) for (name,) in exporters),
    )
    return names, ids, " ".join(joins)


_PATHS: Final = "SELECT hash(switches) AS hash, any_value(switches) AS name FROM records GROUP BY hash(switches)"
"""Paths are told apart by 64 bits of hash: comparing lists of names costs as much as all the rest of reading."""


def _dictionary(
    connection: Database, table: str, values: str, condition: str, key: str = "name"
) -> list[tuple[str | list[str]]]:
    """Creates a table of `key` and id, with ids in the order of the names; returns the names in that order."""
    columns = "name" if key == "name" else f"{key}, name"
    connection.execute(
        f"CREATE TEMP TABLE {table} AS "
        f"SELECT {columns}, (row_number() OVER (ORDER BY name) - 1)::INTEGER AS id FROM ({values}) WHERE {condition}"
    )
    return connection.execute(f"SELECT name FROM {table} ORDER BY id").fetchall()


def no_usable_record(sources: Sequence[Source], records: int, dropped: Int64) -> InputError:
    reasons = ", ".join(f"{REASONS[code]} {dropped[code]:,}" for code in np.flatnonzero(dropped))
    return InputError(
        f"{file_names(sources)}: none of {records:,} records can be used ({reasons}); check the column mapping and the "
        "units of the times (--map start_ns=ts:ms)"
    )
