"""Parquet files → a normalised select. The native format: columns are typed, so hardly any row needs a cast."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb

from llmprism.ingest.columns import identifier, normalised_select
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import Source

__all__ = ["parquet_select"]


def parquet_select(connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], mapping: ColumnMapping) -> str:
    """One SELECT over all these files; a column that some of them lack is NULL there."""
    union = ", union_by_name=true" if len(sources) > 1 else ""
    scan = f"read_parquet({file_list(sources)}, hive_partitioning=false{union})"
    description = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    types = {str(name): str(kind) for name, kind, *_ in description}
    columns = resolve(sources[0].path, mapping, types, identifier)
    return f"SELECT {normalised_select(columns)} FROM {scan}"
