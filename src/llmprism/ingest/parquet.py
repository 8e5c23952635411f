"""Parquet files → a scan. The native format: columns are typed, so hardly any row needs a cast."""

from __future__ import annotations

from collections.abc import Sequence

from llmprism.ingest.collectors import Collector, mappings_for
from llmprism.ingest.columns import Scan, identifier
from llmprism.ingest.database import Database
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import Source

__all__ = ["parquet_scans"]


def parquet_scans(
    connection: Database, sources: Sequence[Source], mapping: ColumnMapping, collector: Collector | None
) -> list[Scan]:
    """One scan over all these files (one per direction of a collector); a column that some of them lack is NULL."""
    union = ", union_by_name=true" if len(sources) > 1 else ""
    scan = f"read_parquet({file_list(sources)}, hive_partitioning=false{union})"
    description = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    types = {str(name): str(kind) for name, kind, *_ in description}
    path = sources[0].path
    origin = "NULL" if "filename" in map(str.lower, types) else "filename"
    return [
        Scan(str(path), scan, resolve(path, one, types, identifier), origin=origin)
        for one in mappings_for(types, mapping, collector)
    ]
