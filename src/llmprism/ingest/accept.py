"""Flow records in files → one Parquet file with only the usable ones: how the live service takes records in.

The same columns and the same rules as `read_flows` decide which rows can be used; the rest are counted by reason. Ports
and exporters stay in the file, because a second report of the same transfer may come in a later file and is found only
when both are read together. Two more reasons belong to a service that has a clock: `too_old` and `future`. A record
from the far future would otherwise move the clock of all windows.

Invariant: `records == stored + sum(dropped)`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from llmprism import limits
from llmprism.errors import InputError, LimitError
from llmprism.ingest.columns import REASONS, Scan
from llmprism.ingest.flows import REJECTED_LINES, explain, open_database, scans_of
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.resolve import file_list
from llmprism.ingest.sources import Format, Source, expand, identify, parse_format

__all__ = ["FUTURE", "TOO_OLD", "Accepted", "TimeBounds", "accept_flows"]

TOO_OLD: Final = "too_old"
FUTURE: Final = "future"


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """Records that end before `oldest_ns` or after `newest_ns` are dropped; those before `late_before_ns` are late."""

    oldest_ns: int
    newest_ns: int
    late_before_ns: int = 0


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of the records of one batch. `start_ns` and `end_ns` span the stored ones (0 without any)."""

    records: int
    stored: int
    late: int
    dropped: tuple[tuple[str, int], ...]
    start_ns: int
    end_ns: int


def accept_flows(
    paths: Sequence[Path],
    target: Path,
    bounds: TimeBounds,
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
) -> Accepted:
    """Writes the usable records of these files to `target` (not made where there are none).

    Raises an LLMPrismError where a file cannot be read at all, and OSError where the target cannot be written.
    """
    sources = [identify(path, parse_format(format)) for path in expand(paths)]
    with open_database(None) as connection:
        try:
            _check_sizes(connection, [source for source in sources if source.format is Format.PARQUET])
            scans = scans_of(connection, sources, mapping or ColumnMapping())
            connection.execute(f"CREATE TEMP TABLE accepted AS {' UNION ALL '.join(_select(scan) for scan in scans)}")
            has_csv = any(source.format is Format.CSV for source in sources)
            unreadable = _count(connection, REJECTED_LINES) if has_csv else 0
        except duckdb.Error as error:
            raise explain(error, sources) from None
        rows = _count(connection, "SELECT count(*) FROM accepted")
        if rows > limits.MAX_BATCH_RECORDS:
            raise LimitError(f"{sources[0].path}: {rows:,} records; a batch holds at most {limits.MAX_BATCH_RECORDS:,}")
        if not rows + unreadable:
            raise InputError(f"{sources[0].path}: holds no records")
        return _write(connection, target, bounds, unreadable)


def _check_sizes(connection: duckdb.DuckDBPyConnection, sources: Sequence[Source]) -> None:
    """What the footers of Parquet files promise, looked at before anything is unpacked."""
    for source in sources:
        row = connection.execute(
            "SELECT coalesce(sum(total_uncompressed_size), 0), coalesce(sum(num_values), 0) "
            f"FROM parquet_metadata({file_list([source])})"
        ).fetchone() or (0, 0)
        if row[0] > limits.MAX_BATCH_BYTES or row[1] > 20 * limits.MAX_BATCH_RECORDS:
            raise LimitError(f"{source.path}: unpacks to {row[0]:,} bytes in {row[1]:,} values; send smaller batches")


def _select(scan: Scan) -> str:
    """The normalised columns of `read_flows` and, beside them, the ports as they came."""
    ports = [
        f"TRY_CAST({scan.columns[name].expression} AS INTEGER) AS {name}" if name in scan.columns else f"NULL AS {name}"
        for name in ("sport", "dport", "protocol")
    ]
    return f"{scan.select().removesuffix(f' FROM {scan.table}')}, {', '.join(ports)} FROM {scan.table}"


def _write(connection: duckdb.DuckDBPyConnection, target: Path, bounds: TimeBounds, unreadable: int) -> Accepted:
    reasons = (*REASONS, TOO_OLD, FUTURE)
    old, future = reasons.index(TOO_OLD), reasons.index(FUTURE)
    connection.execute(
        f"UPDATE accepted SET reason = CASE WHEN end_ns < {bounds.oldest_ns} THEN {old} ELSE {future} END "
        f"WHERE reason = 0 AND (end_ns < {bounds.oldest_ns} OR end_ns > {bounds.newest_ns})"
    )
    counts = dict(connection.execute("SELECT reason, count(*) FROM accepted GROUP BY reason").fetchall())
    summary = connection.execute(
        f"SELECT coalesce(min(start_ns), 0), coalesce(max(end_ns), 0), "
        f"count(*) FILTER (end_ns < {bounds.late_before_ns}) FROM accepted WHERE reason = 0"
    ).fetchone() or (0, 0, 0)
    stored = int(counts.pop(0, 0))
    counts[REASONS.index("unreadable")] = counts.get(REASONS.index("unreadable"), 0) + unreadable
    if stored:
        try:
            connection.execute(_COPY.format(path=str(target).replace("'", "''")))
        except duckdb.Error as error:
            target.unlink(missing_ok=True)
            raise OSError(f"{target}: cannot be written ({' '.join(str(error).split())[:200]})") from None
    return Accepted(
        records=stored + sum(counts.values()),
        stored=stored,
        late=int(summary[2]),
        dropped=tuple((reasons[code], int(count)) for code, count in sorted(counts.items()) if count),
        start_ns=int(summary[0]),
        end_ns=int(summary[1]),
    )


_COPY: Final = (
    "COPY (SELECT start_ns, end_ns, src, dst, bytes, switches, sport, dport, protocol, exporter "
    "FROM accepted WHERE reason = 0 ORDER BY end_ns) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
)


def _count(connection: duckdb.DuckDBPyConnection, query: str) -> int:
    row = connection.execute(query).fetchone()
    return int(row[0]) if row is not None else 0
