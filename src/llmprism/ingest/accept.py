"""Flow records in files → one Parquet file with only the usable ones: how the live service takes records in.

The same columns and the same rules as `read_flows` decide which rows can be used; the rest are counted by reason. Ports
and exporters stay in the file, because a second report of the same transfer may come in a later file and is found only
when both are read together.

A batch consists of parts: the files of one source each. All parts are read in one pass. Whose clock can be believed is
the caller's decision (`judge`): it is shown when the records of each source and exporter end, and answers with an
offset to take off their times and the bounds within which they are kept. Two reasons belong to these bounds: `too_old`
and `future`.

Invariant, per part: `records == stored + sum(dropped)`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import duckdb

from llmprism import limits
from llmprism.errors import FormatError, InputError, LimitError
from llmprism.ingest.columns import REASONS, literal
from llmprism.ingest.database import Database, open_database, scalar
from llmprism.ingest.file_format import ReadOptions, SourceFile
from llmprism.ingest.formats import identify, parse_format
from llmprism.ingest.mapping import ColumnMapping
from llmprism.ingest.parquet import PARQUET
from llmprism.ingest.relation import create_records, explain, file_names
from llmprism.ingest.resolve import file_list
from llmprism.ingest.rules import RULES, IngestRules
from llmprism.ingest.sources import expand

__all__ = ["FUTURE", "TOO_OLD", "Accepted", "Arrival", "FilesOfSource", "TimeBounds", "accept_flows", "accept_parts"]

TOO_OLD: Final = "too_old"
FUTURE: Final = "future"

EXTRA: Final = ("protocol", "packets")
"""Columns that are left out of the file where no sender has them; readers take what is absent for unknown."""

MAX_CLOCKS: Final = 4_096
"""Exporters of one batch whose clocks are judged one by one; with more, each source is judged as a whole."""


@dataclass(frozen=True, slots=True)
class TimeBounds:
    """`offset_ns` is taken off both times first. Records that then end before `oldest_ns` or after `newest_ns` are
    dropped; those before `late_before_ns` are late, and those before `unseen_before_ns` come too late for any window.
    """

    oldest_ns: int
    newest_ns: int
    late_before_ns: int = 0
    unseen_before_ns: int = 0
    offset_ns: int = 0


@dataclass(frozen=True, slots=True)
class Arrival:
    """When the usable records of one source and exporter end: first and last, and the quantiles in between."""

    part: int
    exporter: str
    records: int
    first_ns: int
    low_ns: int
    middle_ns: int
    high_ns: int
    last_ns: int


Judge = Callable[[Sequence[Arrival]], Sequence[TimeBounds]]

Total = tuple[int, int, int, int, int, int]
"""Part, reason, number of records, first start, last end and first end of the records of one exporter."""


@dataclass(frozen=True, slots=True)
class FilesOfSource:
    """The files of one source in a batch."""

    source: str
    paths: tuple[Path, ...]


@dataclass(frozen=True, slots=True)
class Accepted:
    """What became of the records of one part. `start_ns` and `end_ns` span the stored ones (0 without any);
    `first_end_ns` is when the first of them ends."""

    records: int
    stored: int
    late: int
    dropped: tuple[tuple[str, int], ...]
    start_ns: int
    end_ns: int
    first_end_ns: int = 0
    unseen: int = 0


def accept_flows(
    paths: Sequence[Path],
    target: Path,
    bounds: TimeBounds,
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
) -> Accepted:
    """Writes the usable records of these files to `target` (not made where there are none), with one set of bounds."""
    with open_database() as (connection, spill):
        parts = [FilesOfSource("", tuple(paths))]
        (accepted,) = accept_parts(
            connection, spill, parts, target, lambda arrivals: [bounds] * len(arrivals), mapping=mapping, format=format
        )
    return accepted


def accept_parts(
    connection: Database,
    spill: Path,
    parts: Sequence[FilesOfSource],
    target: Path,
    judge: Judge,
    *,
    mapping: ColumnMapping | None = None,
    format: str | None = None,  # noqa: A002 - the name users know from --format
    most: int = limits.MAX_BATCH_RECORDS,
    rules: IngestRules = RULES,
) -> list[Accepted]:
    """Writes the usable records of all parts to `target` (not made where there are none), with their source's name.

    Raises an LLMPrismError where a file cannot be read at all or the files hold more than `most` records, and OSError
    where the target cannot be written.
    """
    forced, collector = parse_format(format)
    part_of = {str(path): number for number, part in enumerate(parts) for path in expand(part.paths)}
    sources = [identify(Path(path), forced) for path in part_of]
    try:
        _check_sizes(connection, [source for source in sources if source.format is PARQUET], most)
        options = ReadOptions(mapping or ColumnMapping(), collector, rules.burst_gap_ns)
        relation = create_records(connection, spill, sources, options, all_columns=True, counted=False)
        rows = _keep(connection, relation.query, part_of, len(parts))
        if rows > most:
            raise LimitError(f"{sources[0].path}: {rows:,} records; a batch holds {most:,} at most")
        if not rows + relation.unreadable:
            raise InputError(f"{file_names(sources)}: holds no records")
        unreadable = _unreadable(connection, part_of, relation.unreadable)
        totals, lates = _apply(connection, judge)
    except duckdb.Error as error:
        raise explain(error, sources) from None
    known = {name for scan in relation.scans for name in scan.columns}
    extra = [name for name in EXTRA if name in known]
    return _write(connection, target, [part.source for part in parts], unreadable, totals, lates, extra)


def _check_sizes(connection: Database, sources: Sequence[SourceFile], most: int) -> None:
    """What the footers of Parquet files promise, looked at before anything is unpacked."""
    if not sources:
        return
    files = file_list(sources)
    rows = connection.execute(f"SELECT file_name, num_rows FROM parquet_file_metadata({files})").fetchall()
    parts = connection.execute(
        "SELECT file_name, max(row_group_num_rows), sum(total_uncompressed_size), sum(num_values) "
        f"FROM parquet_metadata({files}) GROUP BY file_name"
    ).fetchall()
    for name, count in [*rows, *(part[:2] for part in parts)]:
        if (count or 0) > most:
            raise LimitError(f"{name}: {count:,} records; a batch holds {most:,} at most")
    for name, _, size, values in parts:
        if (size or 0) > limits.MAX_BATCH_BYTES or (values or 0) > 20 * most:
            raise LimitError(f"{name}: unpacks to {size:,} bytes in {values:,} values; send smaller batches")


def _keep(connection: Database, query: str, part_of: dict[str, int], parts: int) -> int:
    """Makes the table `accepted` of all rows with the number of their part; returns how many there are."""
    if parts == 1:
        kept = f"SELECT * EXCLUDE (origin, connection), 0 AS part FROM ({query})"
        return scalar(connection, f"CREATE TEMP TABLE accepted AS {kept}")
    connection.execute(
        "CREATE TEMP TABLE origins AS SELECT unnest($1::VARCHAR[]) AS origin, unnest($2::INTEGER[]) AS part",
        [list(part_of), list(part_of.values())],
    )
    rows = scalar(
        connection,
        "CREATE TEMP TABLE accepted AS SELECT records.* EXCLUDE (origin, connection), origins.part "
        f"FROM ({query}) AS records LEFT JOIN origins USING (origin)",
    )
    row = connection.execute("SELECT count(*) FROM accepted WHERE part IS NULL").fetchone()
    if row is None or row[0]:
        raise FormatError("a batch of several sources holds a format whose rows do not say their file")
    return rows


def _unreadable(connection: Database, part_of: dict[str, int], total: int) -> dict[int, int]:
    """Lines per part that could not be split into fields."""
    if not total:
        return {}
    rows = connection.execute(
        "SELECT file_path, count(*) FROM (SELECT DISTINCT scan_id, file_id, line FROM reject_errors) "
        "JOIN (SELECT DISTINCT scan_id, file_id, file_path FROM reject_scans) USING (scan_id, file_id) GROUP BY ALL"
    ).fetchall()
    found: dict[int, int] = {}
    for path, count in rows:
        part = part_of.get(path, 0)
        found[part] = found.get(part, 0) + count
    return found


def _apply(connection: Database, judge: Judge) -> tuple[list[Total], dict[int, tuple[int, int]]]:
    """Takes the offsets off and marks what lies outside the bounds; in the usual case, where nothing of that is so,
    the records are looked at once. Returns the totals, and (late, unseen) by part."""
    arrivals, totals = _arrivals(connection, "coalesce(exporter, '')")
    by_exporter = len(arrivals) <= MAX_CLOCKS
    if not by_exporter:
        arrivals, totals = _arrivals(connection, "''")
    bounds = judge(arrivals)
    judged = list(zip(arrivals, bounds, strict=True))
    touched = any(_touches(arrival, bound) for arrival, bound in judged)
    late = any(arrival.first_ns - bound.offset_ns < bound.late_before_ns for arrival, bound in judged)
    if not touched and not late:
        return totals, {}
    _bounds_table(connection, judged)
    clock = "coalesce(accepted.exporter, '')" if by_exporter else "''"
    mine = f"bounds.part = accepted.part AND bounds.clock = {clock}"
    if touched:
        reasons = (*REASONS, TOO_OLD, FUTURE)
        old, future = reasons.index(TOO_OLD), reasons.index(FUTURE)
        end = "accepted.end_ns - bounds.taken"
        connection.execute(
            f"UPDATE accepted SET start_ns = accepted.start_ns - bounds.taken, end_ns = {end}, "
            f"reason = CASE WHEN {end} < bounds.oldest THEN {old} WHEN {end} > bounds.newest THEN {future} ELSE 0 END "
            f"FROM bounds WHERE accepted.reason = 0 AND {mine}"
        )
        _, totals = _arrivals(connection, "''")
    if not late:
        return totals, {}
    rows = connection.execute(
        "SELECT accepted.part, count(*) FILTER (accepted.end_ns < bounds.late), "
        "count(*) FILTER (accepted.end_ns < bounds.unseen) FROM accepted JOIN bounds "
        f"ON {mine} WHERE accepted.reason = 0 GROUP BY 1"
    ).fetchall()
    return totals, {part: (count, unseen) for part, count, unseen in rows}


def _bounds_table(connection: Database, judged: Sequence[tuple[Arrival, TimeBounds]]) -> None:
    connection.execute(
        "CREATE TEMP TABLE bounds AS SELECT unnest($1::INTEGER[]) AS part, unnest($2::VARCHAR[]) AS clock, "
        "unnest($3::BIGINT[]) AS taken, unnest($4::BIGINT[]) AS oldest, unnest($5::BIGINT[]) AS newest, "
        "unnest($6::BIGINT[]) AS late, unnest($7::BIGINT[]) AS unseen",
        [
            [arrival.part for arrival, _ in judged],
            [arrival.exporter for arrival, _ in judged],
            [bound.offset_ns for _, bound in judged],
            [bound.oldest_ns for _, bound in judged],
            [bound.newest_ns for _, bound in judged],
            [bound.late_before_ns for _, bound in judged],
            [bound.unseen_before_ns for _, bound in judged],
        ],
    )


def _touches(arrival: Arrival, bound: TimeBounds) -> bool:
    """Does the bound change or drop any of these records?"""
    first, last = arrival.first_ns - bound.offset_ns, arrival.last_ns - bound.offset_ns
    return bool(bound.offset_ns) or first < bound.oldest_ns or last > bound.newest_ns


def _arrivals(connection: Database, exporter: str) -> tuple[list[Arrival], list[Total]]:
    """When the usable records of each source and exporter end, and the totals of all records."""
    rows = connection.execute(
        f"SELECT part, {exporter} AS clock, reason, count(*), min(start_ns), min(end_ns), "
        "quantile_disc(end_ns, [0.1, 0.5, 0.9]), max(end_ns) FROM accepted GROUP BY 1, 2, 3"
    ).fetchall()
    rows.sort(key=lambda row: row[:3])  # planning an order takes longer than making it
    usable = [row for row in rows if not row[2]]
    arrivals = [
        Arrival(part, clock, count, first, low, middle, high, last)
        for part, clock, _, count, _, first, (low, middle, high), last in usable
    ]
    return arrivals, [
        (part, reason, count, start, last, first) for part, _, reason, count, start, first, _, last in rows
    ]


def _write(
    connection: Database,
    target: Path,
    names: Sequence[str],
    unreadable: dict[int, int],
    totals: Sequence[Total],
    lates: dict[int, tuple[int, int]],
    extra: Sequence[str],
) -> list[Accepted]:
    reasons = (*REASONS, TOO_OLD, FUTURE)
    counts: list[dict[int, int]] = [{} for _ in names]
    spans: dict[int, tuple[int, int, int]] = {}
    for part, reason, count, start, end, first in totals:
        counts[part][reason] = counts[part].get(reason, 0) + count
        if not reason:
            known = spans.get(part, (start, end, first))
            spans[part] = min(known[0], start), max(known[1], end), min(known[2], first)
    for part, count in unreadable.items():
        code = REASONS.index("unreadable")
        counts[part][code] = counts[part].get(code, 0) + count
    if spans:
        _copy(connection, target, names, extra)
    made = []
    for part, found in enumerate(counts):
        stored = int(found.pop(0, 0))
        start, end, first = spans.get(part, (0, 0, 0))
        late, unseen = lates.get(part, (0, 0))
        dropped = tuple((reasons[code], int(count)) for code, count in sorted(found.items()) if count)
        made.append(Accepted(stored + sum(found.values()), stored, late, dropped, start, end, first, unseen))
    return made


def _copy(connection: Database, target: Path, names: Sequence[str], extra: Sequence[str]) -> None:
    """Writes the usable records; `names` are the parts' sources, `extra` the columns that not every sender has. Their
    order in the file is that of arrival: readers sort by pair. Snappy over the encodings of the second version takes
    less than half the time of zstd over the first's, and 7 % more room."""
    kept, source = "accepted", literal(names[0])
    if len(names) > 1:
        connection.execute(
            "CREATE TEMP TABLE names AS SELECT unnest($1::INTEGER[]) AS part, unnest($2::VARCHAR[]) AS source",
            [list(range(len(names))), list(names)],
        )
        kept, source = "accepted JOIN names USING (part)", "source"
    columns = ", ".join(("start_ns, end_ns, src, dst, bytes, switches, sport, dport", *extra, "exporter"))
    try:
        connection.execute(
            f"COPY (SELECT {columns}, {source} AS source FROM {kept} WHERE reason = 0) "
            f"TO {literal(str(target))} (FORMAT parquet, COMPRESSION snappy, PARQUET_VERSION v2)"
        )
    except duckdb.Error as error:
        target.unlink(missing_ok=True)
        raise OSError(f"{target}: cannot be written ({' '.join(str(error).split())[:200]})") from None
