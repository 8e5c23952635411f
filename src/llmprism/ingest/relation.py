"""Files of any format → one SQL relation `records` with the columns of the contract.

Text formats and packets are read once into temporary tables; Parquet is scanned in place, because reading a column
twice is cheaper there than a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from llmprism import limits
from llmprism.errors import ColumnError, FormatError, InputError, LimitError
from llmprism.ingest.capture_notes import CaptureNotes, stored_notes
from llmprism.ingest.collectors import Collector
from llmprism.ingest.columns import Scan
from llmprism.ingest.csv_text import csv_scans
from llmprism.ingest.database import Database, Progress, first_line, scalar
from llmprism.ingest.json_lines import json_lines_scans
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.nfcapd import dumped
from llmprism.ingest.packet_capture import packet_scan
from llmprism.ingest.parquet import parquet_scans
from llmprism.ingest.sources import Compression, Format, Source, broken_gzip

__all__ = ["READERS", "ReadOptions", "Relation", "check_numbers", "create_records", "explain", "file_names"]


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


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read: the user's mapping, a collector that is forced, the pause that ends a burst of packets.

    `report_packets` is called with the share of the packets that has been read.
    """

    mapping: ColumnMapping
    collector: Collector | None
    burst_gap_ns: int
    report_packets: Progress = lambda _share: None


def create_records(
    connection: Database,
    spill: Path,
    sources: Sequence[Source],
    options: ReadOptions,
    *,
    all_columns: bool = False,
    counted: bool = True,
) -> Relation:
    """Creates `records`. With `all_columns` it has those of the contract besides the normalised ones.

    Whoever copies the rows anyway learns then how many there are: with `counted=False` neither rows nor sampling rates
    nor the notes of captures are looked at beforehand (`rows` is 0), and Parquet gets no view (`query`).
    """
    sources = [dumped(source, spill) if source.format is Format.NFCAPD else source for source in sources]
    scans, captures = _scans(connection, sources, options, with_notes=counted)
    formats = {source.format for source in sources}
    kind = "VIEW" if formats == {Format.PARQUET} else "TABLE"
    selects = (scan.select_all() if all_columns else scan.select() for scan in scans)
    union = " UNION ALL ".join(selects)
    if not counted and kind == "VIEW":
        return Relation(tuple(scans), 0, 0, tuple(captures), query=union)
    connection.execute(f"CREATE TEMP {kind} records AS {union}")
    unreadable = scalar(connection, _REJECTED) if Format.CSV in formats else 0
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
    connection: Database, sources: Sequence[Source], options: ReadOptions, *, with_notes: bool
) -> tuple[list[Scan], list[CaptureNotes]]:
    scans: list[Scan] = []
    notes: list[CaptureNotes] = []
    for kind, read in READERS.items():
        files = [source for source in sources if source.format is kind]
        if files:
            found, of_captures = read(connection, files, options)
            scans += found
            notes += of_captures
            notes += stored_notes(connection, files) if kind is Format.PARQUET and with_notes else []
    return scans, notes


Read = tuple[list[Scan], list[CaptureNotes]]
"""How the rows of some files are selected, and what captures say besides."""


def _csv(_connection: Database, files: Sequence[Source], options: ReadOptions) -> Read:
    return csv_scans(files, options.mapping, options.collector), []


def _json_lines(connection: Database, files: Sequence[Source], options: ReadOptions) -> Read:
    return json_lines_scans(connection, files, options.mapping, options.collector), []


def _parquet(connection: Database, files: Sequence[Source], options: ReadOptions) -> Read:
    return parquet_scans(connection, files, options.mapping, options.collector), []


def _packets(connection: Database, sources: Sequence[Source], options: ReadOptions) -> Read:
    scans, notes = [], []
    for number, source in enumerate(sources):

        def report_share(share: float, done: int = number) -> None:
            options.report_packets((done + share) / len(sources))

        scan, note = packet_scan(connection, source, f"packets_{number}", options.burst_gap_ns, report_share)
        scans.append(scan)
        notes.append(note)
    return scans, notes


READERS: Final = {
    Format.PCAP: _packets,
    Format.CSV: _csv,
    Format.JSONL: _json_lines,
    Format.PARQUET: _parquet,
}
"""How files of each format are read, in the order in which their rows stand in `records`. `nfcapd` files are dumped to
JSON lines before."""


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


def explain(error: duckdb.Error, sources: Sequence[Source]) -> InputError | LimitError:
    """DuckDB's error in one line that names the file."""
    line = first_line(error)
    if isinstance(error, duckdb.OutOfMemoryException):
        return LimitError(f"{file_names(sources)}: out of memory while reading ({line}); read a shorter time range")
    guilty = [source for source in sources if str(source.path) in line] or list(sources)
    for source in guilty:
        if source.compression is Compression.GZIP and (broken := broken_gzip(source.path)):
            return broken
    kinds = "/".join(sorted({str(source.format) for source in guilty}))
    return FormatError(f"{file_names(guilty)}: cannot be read as {kinds} ({line})")


def file_names(sources: Sequence[Source]) -> str:
    more = f" and {len(sources) - 1} more" if len(sources) > 1 else ""
    return f"{sources[0].path}{more}"
