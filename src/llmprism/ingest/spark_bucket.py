"""Some pairs' records, wherever they were read → their transfers.

Records may be split into buckets by pair and read elsewhere, by Spark for example. Here one bucket, as a table that
DuckDB can see, goes through the same rules as a whole file: the same SQL decides which rows can be used, the same
order, the same duplicates. Ids of addresses and paths are the bucket's own; they follow the order of the names, as they
do in a whole file, so nothing that is ordered by them changes.

One thing cannot be known from a bucket: whether all records have one exporter, which decides how duplicates are looked
for (`several_exporters`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from llmprism.arrays import Int64
from llmprism.ingest.collectors import mappings_for
from llmprism.ingest.columns import DUPLICATE, REASONS, Scan, identifier
from llmprism.ingest.database import open_database, scalar
from llmprism.ingest.flow_table import flow_table, rows_by_pair
from llmprism.ingest.formats import parse_format
from llmprism.ingest.mapping import TARGETS, ColumnMapping
from llmprism.ingest.resolve import resolve
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.ingest.transfers import assemble_transfers
from llmprism.ingest.whole_read import intern_records
from llmprism.model.flows import TransferTable

__all__ = ["TABLE", "Bucket", "ScanPlan", "exporters_of", "read_bucket", "reading_of"]

TABLE: Final = "bucket"
"""The name under which DuckDB sees the records."""


@dataclass(frozen=True, slots=True)
class ScanPlan:
    """How to read tables of one shape: one scan per direction of a collector, and the `columns` that they use.

    `ends` names, for each scan, the columns of source and destination: of several the first that has a value.
    """

    scans: tuple[Scan, ...]
    columns: tuple[str, ...]
    ends: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...]


@dataclass(frozen=True, slots=True)
class Bucket:
    """`dropped` counts by reason code (`columns.REASONS`)."""

    transfers: TransferTable
    dropped: Int64


def reading_of(name: str, table: Any, mapping: ColumnMapping | None, format: str | None) -> ScanPlan:  # noqa: A002
    """How to read tables with these columns; `table` may be empty.

    Raises a ColumnError that names `name` where a required column is absent.
    """
    _, collector = parse_format(format)
    with open_database() as (connection, _):
        connection.register(TABLE, table)
        description = connection.execute(f"DESCRIBE SELECT * FROM {TABLE}").fetchall()
    types = {str(column): str(kind) for column, kind, *_ in description}
    mappings = mappings_for(types, mapping or ColumnMapping(), collector)
    scans = tuple(Scan(name, TABLE, resolve(name, one, types, identifier)) for one in mappings)
    used = {column: None for one in mappings for target in TARGETS for column in _named(one, target, types)}
    ends = tuple((_named(one, "src", types), _named(one, "dst", types)) for one in mappings)
    return ScanPlan(scans, tuple(used), ends)


def _named(mapping: ColumnMapping, target: str, types: Mapping[str, str]) -> tuple[str, ...]:
    column = mapping.source_of(target).column
    return (column,) if column in types else tuple(name for name in column.split("|") if name in types)


def exporters_of(table: Any, scans: Sequence[Scan]) -> list[str | None]:
    """The exporters of the usable records of a table; None stands for records that name none."""
    with open_database() as (connection, _):
        connection.register(TABLE, table)
        rows = " UNION ALL ".join(scan.select() for scan in scans)
        found = connection.execute(f"SELECT DISTINCT exporter FROM ({rows}) WHERE reason = 0 LIMIT 2").fetchall()
    return [exporter for (exporter,) in found]


def read_bucket(table: Any, scans: Sequence[Scan], rules: IngestRules = RULES, *, several_exporters: bool) -> Bucket:
    """The transfers of all pairs in the table, which must hold every record of each of them."""
    with open_database() as (connection, _):
        connection.execute("SET threads = 1")  # other buckets are read at the same time
        connection.register(TABLE, table)
        connection.execute(f"CREATE TEMP VIEW records AS {' UNION ALL '.join(scan.select() for scan in scans)}")
        count = scalar(connection, "SELECT count(*) FROM records")
        names, ids, records = intern_records(connection, scans, count)
    usable = records["pair"] >= 0
    dropped = np.bincount(-records["pair"][~usable], minlength=len(REASONS)).astype(np.int64)
    rows, offsets = rows_by_pair(records[usable], ids.pair_src.size)
    flows = flow_table(
        rows, offsets, names, ids.pair_src, ids.pair_dst, several_exporters=several_exporters, rules=rules
    )
    dropped[DUPLICATE] = flows.counts.records - flows.counts.used
    return Bucket(assemble_transfers(flows, rules), dropped)
