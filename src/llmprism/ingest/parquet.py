"""Parquet files → a scan. The native format: columns are typed, so hardly any row needs a cast."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llmprism.errors import FormatError
from llmprism.ingest.capture_notes import stored_notes
from llmprism.ingest.collectors import mappings_for
from llmprism.ingest.columns import Scan, identifier
from llmprism.ingest.database import Database
from llmprism.ingest.file_format import Compression, Format, Read, ReadOptions, SourceFile
from llmprism.ingest.resolve import file_list, resolve

__all__ = ["PARQUET"]

MAGIC: Final = b"PAR1"


def _scans(connection: Database, sources: Sequence[SourceFile], options: ReadOptions) -> Read:
    """One scan over all these files (one per direction of a collector); a column that some of them lack is NULL."""
    union = ", union_by_name=true" if len(sources) > 1 else ""
    scan = f"read_parquet({file_list(sources)}, hive_partitioning=false{union})"
    description = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    types = {str(name): str(kind) for name, kind, *_ in description}
    path = sources[0].path
    origin = "NULL" if "filename" in map(str.lower, types) else "filename"
    scans = [
        Scan(str(path), scan, resolve(path, one, types, identifier), origin=origin)
        for one in mappings_for(types, options.mapping, options.collector)
    ]
    return scans, stored_notes(connection, sources) if options.with_notes else []


def _check(source: SourceFile, head: bytes) -> None:
    """A Parquet file starts and ends with the same four bytes; one that was cut off lacks the end."""
    path = source.path
    if source.compression is not Compression.NONE:
        raise FormatError(f"{path}: a Parquet file inside {source.compression}; decompress it first")
    if not head.startswith(MAGIC):
        raise FormatError(f"{path}: not a Parquet file: expected PAR1 at byte 0; check --format")
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(4, size), 2)
        if file.read(4) != MAGIC or size < 12:
            raise FormatError(
                f"{path}: truncated Parquet file: expected PAR1 again at byte {max(size - 4, 4)}, its end; "
                "copy or export it again"
            )


PARQUET: Final = Format("parquet", "a Parquet file", lambda head: head.startswith(MAGIC), _scans, _check, in_place=True)
