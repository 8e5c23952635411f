"""CSV files → scans.

The header line is parsed here and DuckDB gets every column by name, as text: nothing is left to sniffing, so one
odd row cannot change how a whole file is read. Lines with too few or too many fields go to DuckDB's reject table,
where they are counted. Quotes are honoured only if the header or the first line uses them; otherwise one stray quote
in a garbage row would swallow the rest of the file.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from llmprism import limits
from llmprism.errors import FormatError, InputError
from llmprism.ingest.collectors import mappings_for
from llmprism.ingest.columns import Scan, identifier, literal
from llmprism.ingest.database import Database
from llmprism.ingest.file_format import Compression, Format, Read, ReadOptions, SourceFile
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.resolve import file_list, resolve
from llmprism.ingest.sources import BLANK

__all__ = ["CSV"]

DELIMITERS: Final = (",", "\t", "|", ";", " ")


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a file is written; files with the same dialect are read in one scan."""

    names: tuple[str, ...]
    delimiter: str
    quote: str
    compression: Compression
    comments: bool = False


def _scans(_connection: Database, sources: Sequence[SourceFile], options: ReadOptions) -> Read:
    """One scan per dialect among these files (and per direction of a collector)."""
    by_dialect: dict[Dialect, list[SourceFile]] = {}
    for source in sources:
        by_dialect.setdefault(_dialect(source), []).append(source)
    return [
        _scan(dialect, files, one)
        for dialect, files in by_dialect.items()
        for one in mappings_for(dialect.names, options.mapping, options.collector)
    ], []


def _scan(dialect: Dialect, sources: Sequence[SourceFile], mapping: ColumnMapping) -> Scan:
    columns = resolve(sources[0].path, mapping, dict.fromkeys(dialect.names, "VARCHAR"), identifier)
    names = ", ".join(f"{literal(name)}: 'VARCHAR'" for name in dialect.names)
    header = "header=false, comment='#'" if dialect.comments else "header=true"
    scan = (
        f"read_csv({file_list(sources)}, auto_detect=false, {header}, delim={literal(dialect.delimiter)}, "
        f"quote={literal(dialect.quote)}, escape={literal(dialect.quote)}, columns={{{names}}}, nullstr=['', '-'], "
        f"compression={literal(dialect.compression)}, store_rejects=true, hive_partitioning=false)"
    )
    origin = "NULL" if "filename" in map(str.lower, dialect.names) else "filename"
    return Scan(str(sources[0].path), scan, columns, origin=origin)


def _zeek_dialect(source: SourceFile) -> Dialect:
    """Zeek writes the names in a comment line and tabs between the fields."""
    for line in source.head.decode(errors="replace").splitlines():
        if line.startswith("#fields\t"):
            return Dialect(tuple(line.split("\t")[1:]), "\t", "", source.compression, comments=True)
    raise FormatError(f"{source.path}: a Zeek log without a #fields line; write it as TSV with tabs, or as JSON")


def _dialect(source: SourceFile) -> Dialect:
    if source.head.startswith(b"#separator"):
        return _zeek_dialect(source)
    header, first_row = _first_lines(source)
    delimiter = max(DELIMITERS, key=header.count) if any(map(header.count, DELIMITERS)) else ","
    quote = '"' if '"' in header + first_row else ""
    try:
        fields = next(csv.reader([header], delimiter=delimiter), [])
    except csv.Error as error:
        raise FormatError(f"{source.path}: the first line is not a CSV header ({error})") from None
    names = tuple(name.strip() for name in fields)
    if len(set(map(str.lower, names))) != len(names) or "" in names:
        raise FormatError(f"{source.path}: the first line is not a CSV header (empty or repeated column names)")
    return Dialect(names, delimiter, quote, source.compression)


def _first_lines(source: SourceFile) -> tuple[str, str]:
    text = source.head.removeprefix(b"\xef\xbb\xbf").lstrip(b"\r\n")
    lines = text.replace(b"\r\n", b"\n").split(b"\n", 2)
    if len(lines) == 1 and len(text) >= limits.MAX_HEADER_BYTES:
        raise FormatError(f"{source.path}: the first line is longer than any CSV header; check --format")
    try:
        header = lines[0].decode()
    except UnicodeDecodeError:
        raise FormatError(f"{source.path}: the first line is not text; expected a CSV header") from None
    if not header.strip():
        raise InputError(f"{source.path}: holds no records; expected a CSV header and rows")
    return header, lines[1].decode(errors="replace") if len(lines) > 1 else ""


def _is_text(head: bytes) -> bool:
    return b"\0" not in head.lstrip(BLANK).split(b"\n", 1)[0]


CSV: Final = Format("csv", "CSV", _is_text, _scans, certain=False, rejects=True, keeps_head=True)
