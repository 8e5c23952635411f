"""JSON Lines files → scans.

Each line (or element, where the file is one array) is kept as one JSON value and the wanted keys are taken out of it
as text, so that a value of an odd type in some rows is that row's problem and nobody else's. A line that is no JSON
object is `unreadable`. Which keys exist is learnt from the first lines; a dotted name that is no key of its own reaches
into nested objects.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llmprism.errors import FormatError
from llmprism.ingest.collectors import mappings_for, nested_names
from llmprism.ingest.columns import Scan, literal
from llmprism.ingest.database import Database
from llmprism.ingest.file_format import Compression, Format, Read, ReadOptions, SourceFile
from llmprism.ingest.mapping import TARGETS, ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import BLANK, HEAD_BYTES

__all__ = ["JSON_LINES"]

SAMPLED_LINES: Final = 1_000
"""Lines looked at to learn the keys: optional keys that only appear later are ignored, required ones never do."""


def _scans(connection: Database, sources: Sequence[SourceFile], options: ReadOptions) -> Read:
    """One scan per compression and shape among these files (and per direction of a collector)."""
    groups: dict[tuple[Compression, bool], list[SourceFile]] = {}
    for source in sources:
        is_array = _first(source.head) == b"["
        groups.setdefault((source.compression, is_array), []).append(source)
    scans: list[Scan] = []
    for (compression, is_array), files in sorted(groups.items()):
        shape = "format='array'" if is_array else "format='newline_delimited', ignore_errors=true"
        lines = (
            f"read_json_objects({file_list(files)}, {shape}, compression={literal(compression)}, "
            "hive_partitioning=false)"
        )
        whole = f"(SELECT {_UNWRAPPED} AS json, line.filename FROM {lines} AS line)"
        names = _keys(connection, whole, options.mapping)
        types = dict.fromkeys(names, "VARCHAR")
        for one in mappings_for(names, options.mapping, options.collector):
            values = _Values()
            columns = resolve(files[0].path, one, types, values.expression)
            scans.append(Scan(str(files[0].path), values.table(whole), columns, _UNREADABLE, "filename"))
    return scans, []


class _Values:
    """The keys that are wanted of a line, taken out of it together: every call of a JSON function parses the line.
    Each then is a column: the many places that use it are planned in half the time of as many list subscripts."""

    def __init__(self) -> None:
        self._paths: list[str] = []

    def expression(self, name: str) -> str:
        found = [self._value(path) for path in _paths(name)]
        return found[0] if len(found) == 1 else f"coalesce({', '.join(found)})"

    def _value(self, path: str) -> str:
        if path not in self._paths:
            self._paths.append(path)
        return f"val{self._paths.index(path) + 1}"

    def table(self, whole: str) -> str:
        paths = ", ".join(literal(path) for path in self._paths)
        taken = f"(SELECT json, filename, json_extract_string(json, [{paths}]) AS vals FROM {whole})"
        columns = ", ".join(f"vals[{number}] AS val{number}" for number in range(1, len(self._paths) + 1))
        return f"(SELECT json, filename, {columns} FROM {taken})"


_UNREADABLE: Final = "json IS NULL OR (CASE WHEN val1 IS NULL THEN json_type(json) <> 'OBJECT' ELSE false END)"
_NO_OBJECT: Final = "json IS NULL OR json_type(json) <> 'OBJECT'"
_UNWRAPPED: Final = (
    "CASE WHEN json_type(line.json, '$.payload') = 'VARCHAR' "
    "THEN TRY_CAST(json_extract_string(line.json, '$.payload') AS JSON) ELSE line.json END"
)
"""Kafka tools print a message as an object with the value as text in `payload`."""


def _keys(connection: Database, table: str, mapping: ColumnMapping) -> list[str]:
    """The keys of the first lines, and the dotted names that lead somewhere."""
    sample = f"(SELECT json FROM {table} LIMIT {SAMPLED_LINES}) WHERE NOT ({_NO_OBJECT})"
    query = f"SELECT DISTINCT unnest(json_keys(json)) AS key FROM {sample} ORDER BY key"
    keys = [str(row[0]) for row in connection.execute(query).fetchall()]
    wanted = {name for target in TARGETS for name in mapping.source_of(target).column.split("|")} | nested_names()
    dotted = sorted(name for name in wanted if "." in name and name not in keys and name.split(".")[0] in keys)
    if dotted:
        counts = ", ".join(f"count({_extract(name)})" for name in dotted)
        (found,) = connection.execute(f"SELECT {counts} FROM {sample}").fetchall()
        keys += [name for name, count in zip(dotted, found, strict=True) if count]
    return keys


def _extract(name: str) -> str:
    found = ", ".join(f"json_extract_string(json, {literal(path)})" for path in _paths(name))
    return f"coalesce({found})"


def _paths(name: str) -> list[str]:
    """Where the key may be: at the top, or inside nested objects where the name has dots."""
    quoted = name.replace("\\", "\\\\").replace('"', '\\"')
    flat = f'$."{quoted}"'
    return [flat, "$." + ".".join(_quote(part) for part in quoted.split("."))] if "." in name else [flat]


def _quote(part: str) -> str:
    return f'"{part}"'


def _first(head: bytes) -> bytes:
    return head.lstrip(BLANK)[:1]


def _check(source: SourceFile, head: bytes) -> None:
    """One JSON array ends with its bracket; DuckDB takes a cut one for a short one."""
    if source.compression is not Compression.NONE or _first(head) != b"[":
        return
    size = source.path.stat().st_size
    with source.path.open("rb") as file:
        file.seek(-min(size, HEAD_BYTES), 2)
        if not file.read().rstrip().endswith(b"]"):
            raise FormatError(
                f"{source.path}: truncated JSON array: expected ] at byte {size - 1}, its end; copy it again"
            )


JSON_LINES: Final = Format(
    "jsonl", "JSON Lines", lambda head: _first(head) in (b"{", b"["), _scans, _check, certain=False, keeps_head=True
)
