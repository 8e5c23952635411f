"""Anything that read_flows reads → one Parquet file of flow records in the contract's form.

Rows that cannot be used are left out and counted; reports of the same transfer by two exporters are kept, with the
exporter, because the reader decides about them. What the packets said besides goes into the file's metadata
(`capture_notes.py`). The file appears under its name only when it is complete.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from llmprism.errors import InputError, UsageError
from llmprism.ingest.capture_notes import METADATA_KEY, encoded, merged
from llmprism.ingest.columns import REASONS, identifier, literal
from llmprism.ingest.database import Database, Progress, open_database, report_progress
from llmprism.ingest.file_format import ReadOptions
from llmprism.ingest.formats import identify, parse_format
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.packets.stats import PacketStats
from llmprism.ingest.relation import check_numbers, create_records, explain, file_names
from llmprism.ingest.rules import RULES
from llmprism.ingest.sources import expand
from llmprism.model.congestion import CongestionTable
from llmprism.model.flows import InputCounts

__all__ = ["Conversion", "convert_flows"]

_PROTOCOL: Final = (
    "(CASE lower(protocol) WHEN 'tcp' THEN 6 WHEN 'udp' THEN 17 WHEN 'icmp' THEN 1 WHEN 'ipv6-icmp' THEN 58 "
    "ELSE TRY_CAST(protocol AS SMALLINT) END)"
)
_OPTIONAL: Final = {
    "sport": "TRY_CAST(sport AS INTEGER)",
    "dport": "TRY_CAST(dport AS INTEGER)",
    "protocol": f"{_PROTOCOL}::SMALLINT",
    "packets": "packets",
    "switches": "switches",
    "exporter": "exporter",
}


@dataclass(frozen=True, slots=True)
class Conversion:
    """What was written, and what was seen in the packets where there were any."""

    out: Path
    counts: InputCounts
    packets: tuple[PacketStats, ...]
    congestion: CongestionTable | None = None


def convert_flows(
    paths: Sequence[str | Path],
    out: str | Path,
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    burst_gap_ns: int = RULES.burst_gap_ns,
    progress: Progress | None = None,
    memory_limit: str | None = None,
) -> Conversion:
    """Writes `out` (Parquet, sorted by start). `burst_gap_ns` is the pause that ends a record made of TCP packets."""
    target = Path(out)
    if target.suffix != ".parquet":
        raise UsageError(f"{target}: convert writes Parquet; give the file a name that ends in .parquet")
    if burst_gap_ns <= 0:
        raise UsageError("the burst gap must be positive")
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database(memory_limit) as (connection, spill), report_progress(connection, progress) as report_packets:
        options = ReadOptions(mapping or ColumnMapping(), collector, burst_gap_ns, report_packets)
        try:
            relation = create_records(connection, spill, sources, options, all_columns=True)
            counts = _counts(connection, relation.unreadable)
            if not counts.used:
                check_numbers(connection, relation.scans)
                raise InputError(f"{file_names(sources)}: none of {counts.records:,} records can be used")
            _write(connection, target, encoded(relation.captures) if relation.captures else None)
        except duckdb.Error as error:
            raise explain(error, sources) from None
    return Conversion(target, counts, tuple(capture.stats for capture in relation.captures), merged(relation.captures))


def _counts(connection: Database, unreadable: int) -> InputCounts:
    rows = connection.execute("SELECT reason, count(*) FROM records GROUP BY reason ORDER BY reason").fetchall()
    counts = {int(reason): int(count) for reason, count in rows}
    code = REASONS.index("unreadable")
    counts[code] = counts.get(code, 0) + unreadable
    dropped = tuple((REASONS[reason], count) for reason, count in sorted(counts.items()) if reason and count)
    return InputCounts(sum(counts.values()), counts.get(0, 0), dropped)


def _write(connection: Database, target: Path, notes: str | None) -> None:
    """Columns that no record has are left out. `notes` go into the file's metadata."""
    present = (
        connection.execute(
            f"SELECT {', '.join(f'count({name}) > 0' for name in _OPTIONAL)} FROM records WHERE reason = 0"
        ).fetchone()
        or ()
    )
    optional = [
        f"{expression} AS {name}" for (name, expression), there in zip(_OPTIONAL.items(), present, strict=True) if there
    ]
    columns = ", ".join(["start_ns", "end_ns", "src", "dst", "bytes", *optional])
    metadata = f", KV_METADATA {{{identifier(METADATA_KEY)}: {literal(notes)}}}" if notes else ""
    partial = target.with_name(target.name + ".partial")
    try:
        connection.execute(
            f"COPY (SELECT {columns} FROM records WHERE reason = 0 ORDER BY start_ns, end_ns, src, dst) "
            f"TO {literal(str(partial))} (FORMAT parquet, COMPRESSION zstd{metadata})"
        )
        partial.replace(target)
    except (OSError, duckdb.IOException) as error:
        raise InputError(f"{target}: cannot be written ({' '.join(str(error).split())[:160]})") from None
    finally:
        partial.unlink(missing_ok=True)
