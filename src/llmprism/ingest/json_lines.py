"""JSON Lines files → scans.

Each line is kept as one JSON value and the wanted keys are taken out of it as text, so that a value of an odd type in
some rows is that row's problem and nobody else's. A line that is no JSON object is `unreadable`. Which keys exist is
learnt from the first lines; a dotted name that is no key of its own reaches into nested objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import duckdb

from llmprism.ingest.columns import Scan, literal
from llmprism.ingest.mapping import TARGETS, ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import Compression, Source

__all__ = ["json_lines_scans"]

SAMPLED_LINES: Final = 1_000
"""Lines looked at to learn the keys: optional keys that only appear later are ignored, required ones never do."""


def json_lines_scans(
    connection: duckdb.DuckDBPyConnection, sources: Sequence[Source], mapping: ColumnMapping
) -> list[Scan]:
    """One scan per compression among these files."""
    by_compression: dict[Compression, list[Source]] = {}
    for source in sources:
        by_compression.setdefault(source.compression, []).append(source)
    return [_scan(connection, compression, files, mapping) for compression, files in sorted(by_compression.items())]


def _scan(
    connection: duckdb.DuckDBPyConnection, compression: Compression, sources: Sequence[Source], mapping: ColumnMapping
) -> Scan:
    scan = (
        f"read_ndjson_objects({file_list(sources)}, ignore_errors=true, "
        f"compression={literal(compression)}, hive_partitioning=false)"
    )
    names = _keys(connection, scan, mapping)
    columns = resolve(sources[0].path, mapping, dict.fromkeys(names, "VARCHAR"), _extract)
    return Scan(str(sources[0].path), scan, columns, _UNREADABLE)


_UNREADABLE: Final = "json IS NULL OR json_type(json) <> 'OBJECT'"


def _keys(connection: duckdb.DuckDBPyConnection, scan: str, mapping: ColumnMapping) -> list[str]:
    """The keys of the first lines, and the dotted names of the mapping that lead somewhere."""
    sample = f"(SELECT json FROM {scan} LIMIT {SAMPLED_LINES}) WHERE NOT ({_UNREADABLE})"
    query = f"SELECT DISTINCT unnest(json_keys(json)) AS key FROM {sample} ORDER BY key"
    keys = [str(row[0]) for row in connection.execute(query).fetchall()]
    for target in TARGETS:
        name = mapping.source_of(target).column
        if "." in name and name not in keys:
            found = connection.execute(f"SELECT count({_extract(name)}) FROM {sample}").fetchone()
            if found is not None and found[0]:
                keys.append(name)
    return keys


def _extract(name: str) -> str:
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    flat = _at(f'$."{quoted}"')
    if "." not in name:
        return flat
    return f"coalesce({flat}, {_at('$.' + '.'.join(_quote(part) for part in quoted.split('.')))})"


def _at(path: str) -> str:
    return f"json_extract_string(json, {literal(path)})"


def _quote(part: str) -> str:
    return f'"{part}"'
