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
from llmprism.errors import LimitError
from llmprism.ingest.columns import REASONS
from llmprism.ingest.database import Database, open_database
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.packets.stats import BURST_GAP_NS
from llmprism.ingest.relation import ReadOptions, create_records, explain
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
    forced, collector = parse_format(format)
    sources = [identify(path, forced) for path in expand(paths)]
    with open_database() as (connection, spill):
        try:
            _check_sizes(connection, [source for source in sources if source.format is Format.PARQUET])
            options = ReadOptions(mapping or ColumnMapping(), collector, BURST_GAP_NS)
            relation = create_records(connection, spill, sources, options, all_columns=True)
            if relation.rows > limits.MAX_BATCH_RECORDS:
                raise LimitError(
                    f"{sources[0].path}: {relation.rows:,} records; a batch holds {limits.MAX_BATCH_RECORDS:,} at most"
                )
            connection.execute("CREATE TEMP TABLE accepted AS SELECT * FROM records")
        except duckdb.Error as error:
            raise explain(error, sources) from None
        return _write(connection, target, bounds, relation.unreadable)


def _check_sizes(connection: Database, sources: Sequence[Source]) -> None:
    """What the footers of Parquet files promise, looked at before anything is unpacked."""
    for source in sources:
        row = connection.execute(
            "SELECT coalesce(sum(total_uncompressed_size), 0), coalesce(sum(num_values), 0) "
            f"FROM parquet_metadata({file_list([source])})"
        ).fetchone() or (0, 0)
        if row[0] > limits.MAX_BATCH_BYTES or row[1] > 20 * limits.MAX_BATCH_RECORDS:
            raise LimitError(f"{source.path}: unpacks to {row[0]:,} bytes in {row[1]:,} values; send smaller batches")


def _write(connection: Database, target: Path, bounds: TimeBounds, unreadable: int) -> Accepted:
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
    "COPY (SELECT start_ns, end_ns, src, dst, bytes, switches, sport, dport, protocol, packets, exporter "
    "FROM accepted WHERE reason = 0 ORDER BY end_ns) TO '{path}' (FORMAT parquet, COMPRESSION zstd)"
)
