"""Parquet files → a scan. The native format: columns are typed, so hardly any row needs a cast."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from llmprism.ingest.columns import Scan, identifier
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import Source

__all__ = ["parquet_scan"]


def parquet_scan(connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], mapping: ColumnMapping) -> Scan:
    """One scan over all these files; a column that some of them lack is NULL there."""
    union = ", union_by_name=true" if len(sources) > 1 else ""
    scan = f"read_parquet({file_list(sources)}, hive_partitioning=false{union})"
    description = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    types = {str(name): str(kind) for name, kind, *_ in description}
    columns = resolve(sources[0].path, mapping, types, identifier)
    return Scan(str(sources[0].path), scan, columns)
