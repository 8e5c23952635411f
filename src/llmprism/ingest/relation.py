"""Files of any format (`formats.py`) → one SQL relation `records` with the columns of the contract.

Text formats and packets are read once into temporary tables; Parquet is scanned in place, because reading a column
twice is cheaper there than a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import duckdb

from llmprism import limits
from llmprism.errors import ColumnError, FormatError, InputError, LimitError
from llmprism.ingest.capture_notes import CaptureNotes
from llmprism.ingest.columns import Scan
from llmprism.ingest.database import Database, first_line, scalar
from llmprism.ingest.file_format import Compression, ReadOptions, SourceFile
from llmprism.ingest.sources import broken_gzip

__all__ = ["Relation", "check_numbers", "create_records", "explain", "file_names"]


@dataclass(frozen=True, slots=True)
class Relation:
    """`rows` are in the table or view `records`; `unreadable` lines are not: they could not be split into fields.

    `sampling` is the largest rate that a source states, 1 where none does. `query` selects the rows.
    """

    scans: tuple[Scan, ...]
    rows: int
    unreadable: int
    captures: tuple[CaptureNotes, ...] = ()
    sampling: int = 1
    query: str = "SELECT * FROM records"


def create_records(
    connection: Database,
    spill: Path,
    sources: Sequence[SourceFile],
    options: ReadOptions,
    *,
    all_columns: bool = False,
    counted: bool = True,
) -> Relation:
    """Creates `records`. With `all_columns` it has those of the contract besides the normalised ones.

    Whoever copies the rows anyway learns then how many there are: with `counted=False` neither rows nor sampling rates
    nor the notes of captures are looked at beforehand (`rows` is 0), and formats whose readers list no bad lines get no
    `records` (`query` reads the files).
    """
    sources = [source.format.prepare(source, spill) for source in sources]
    scans, captures = _scans(connection, sources, replace(options, with_notes=counted))
    formats = {source.format for source in sources}
    kind = "VIEW" if all(one.in_place for one in formats) else "TABLE"
    selects = (scan.select_all() if all_columns else scan.select() for scan in scans)
    union = " UNION ALL ".join(selects)
    rejects = any(one.rejects for one in formats)
    if not counted and not rejects:
        return Relation(tuple(scans), 0, 0, tuple(captures), query=union)
    connection.execute(f"CREATE TEMP {kind} records AS {union}")
    unreadable = scalar(connection, _REJECTED) if rejects else 0
    if not counted:
        return Relation(tuple(scans), 0, unreadable, tuple(captures))
    rows = scalar(connection, "SELECT count(*) FROM records")
    if rows > limits.MAX_RECORDS:
        raise LimitError(f"{rows:,} records; at most {limits.MAX_RECORDS:,} fit in one run: read a shorter time range")
    if not rows + unreadable:
        raise InputError(f"{file_names(sources)}: holds no records")
    rates = [scalar(connection, query) for scan in scans if (query := scan.select_sampling())]
    return Relation(tuple(scans), rows, unreadable, tuple(captures), max(rates, default=1))


_REJECTED: Final = "SELECT count(*) FROM (SELECT DISTINCT scan_id, file_id, line FROM reject_errors)"


def _scans(
    connection: Database, sources: Sequence[SourceFile], options: ReadOptions
) -> tuple[list[Scan], list[CaptureNotes]]:
    """Of the files of each format together, in the order in which the formats first appear."""
    scans: list[Scan] = []
    notes: list[CaptureNotes] = []
    for one in dict.fromkeys(source.format for source in sources):
        found, of_captures = one.scans(connection, [source for source in sources if source.format is one], options)
        scans += found
        notes += of_captures
    return scans, notes


def check_numbers(connection: Database, scans: Sequence[Scan]) -> None:
    """No row can be used: if a number column holds text, say which and show it."""
    for scan in scans:
        for target in ("start_ns", "end_ns", "duration_ns", "bytes"):
            query = scan.select_not_a_number(target)
            row = connection.execute(query).fetchone() if query else None
            if row is not None:
                expected = "whole numbers" if target == "bytes" else "nanoseconds (or the unit that --map gives)"
                raise ColumnError(
                    f"{scan.name}: the column for {target} holds text ({row[0][:40]!r}), expected {expected}; "
                    f"map the right column and unit, for example --map {target}=COLUMN"
                )


def explain(error: duckdb.Error, sources: Sequence[SourceFile]) -> InputError | LimitError:
    """DuckDB's error in one line that names the file."""
    line = first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return LimitError(f"{file_names(sources)}: out of memory while reading ({line}); read a shorter time range")
    guilty = [source for source in sources if str(source.path) in line] or list(sources)
    for source in guilty:
        if source.compression is Compression.GZIP and (broken := broken_gzip(source.path)):
            return broken
    kinds = "/".join(sorted({source.format.name for source in guilty}))
    return FormatError(f"{file_names(guilty)}: cannot be read as {kinds} ({line})")


def file_names(sources: Sequence[SourceFile]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].path}{more}"
