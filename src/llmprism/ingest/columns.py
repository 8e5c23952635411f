"""SQL that turns a source's columns into the contract's, with a reason code for rows that cannot be used.

Every format hands in, per target column, an SQL expression and the DuckDB type it has; what comes out is one select
list with fixed names and types, so that all formats meet in one UNION. A value that is there but is no number gives
`bad_number`; casts never raise. `reason` 0 means usable, otherwise it indexes REASONS.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from llmprism import limits
from llmprism.ingest.mapping import Unit

__all__ = ["DUPLICATE", "REASONS", "Scan", "SourceColumn", "identifier", "literal"]

REASONS: Final = (
    "",
    "unreadable",
    "bad_number",
    "missing_time",
    "negative_time",
    "missing_address",
    "long_address",
    "same_address",
    "end_before_start",
    "long_record",
    "no_bytes",
    "huge_bytes",
    "duplicate",
)
DUPLICATE: Final = REASONS.index("duplicate")

_INTEGERS: Final = frozenset(
    ("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "UTINYINT", "USMALLINT", "UINTEGER"),
)


@dataclass(frozen=True, slots=True)
class SourceColumn:
    """An SQL expression over the source, its DuckDB type, and the unit of its values (times only)."""

    expression: str
    type: str
    unit: Unit = Unit.NS


@dataclass(frozen=True, slots=True)
class Scan:
    """Some files as an SQL table function, and the columns of the contract in it.

    `unreadable` is an SQL condition for rows that the format itself could not parse; `origin` an SQL expression for
    the file that a row comes from (NULL where the format does not say).
    """

    name: str
    table: str
    columns: Mapping[str, SourceColumn]
    unreadable: str | None = None
    origin: str = "NULL"

    def select(self) -> str:
        return f"SELECT {_normalised(self.columns, self.unreadable)} FROM {self.table}"

    def select_all(self) -> str:
        """The normalised columns and the others of the contract, for writing the records out again."""
        others = ", ".join(
            f"{_integer(self.columns[name]) if name in self.columns else 'NULL::BIGINT'} AS {name}"
            for name in ("sport", "dport", "packets")
        )
        protocol = _text(self.columns["protocol"]) if "protocol" in self.columns else "NULL"
        normalised = _normalised(self.columns, self.unreadable)
        origin = f"({self.origin})::VARCHAR AS origin"
        return f"SELECT {normalised}, {others}, ({protocol})::VARCHAR AS protocol, {origin} FROM {self.table}"

    def select_sampling(self) -> str | None:
        """A query for the largest sampling rate; None where the source does not give one."""
        if "sampling" not in self.columns:
            return None
        return f"SELECT coalesce(max({_integer(self.columns['sampling'])}), 1) FROM {self.table}"

    def select_not_a_number(self, target: str) -> str | None:
        """A query for one value of the column that is there but is no number; None where the type rules that out."""
        column = self.columns.get(target)
        condition = _bad_number(column) if column is not None else None
        if column is None or condition is None:
            return None
        return f"SELECT ({column.expression})::VARCHAR FROM {self.table} WHERE {condition} LIMIT 1"


def literal(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def identifier(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _normalised(columns: Mapping[str, SourceColumn], unreadable: str | None) -> str:
    """The select list `reason, start_ns, end_ns, bytes, src, dst, switches, connection, exporter`.

    Absent optional targets become NULL (0 for `connection`).
    """
    start = _time(columns["start_ns"])
    end = _time(columns["end_ns"]) if "end_ns" in columns else _end_from_duration(start, columns["duration_ns"])
    size = _size(columns)
    numbers = [columns[name] for name in ("start_ns", "end_ns", "duration_ns", "bytes") if name in columns]
    src, dst = _text(columns["src"]), _text(columns["dst"])
    exporter = _text(columns["exporter"]) if "exporter" in columns else "NULL"
    reason = _reason(start, end, size, src, dst, [_bad_number(column) for column in numbers], unreadable)
    return (
        f"{reason} AS reason, {start} AS start_ns, {end} AS end_ns, {size} AS bytes, {src} AS src, {dst} AS dst, "
        f"{_switches(columns.get('switches'))} AS switches, {_connection(columns)} AS connection, "
        f"{exporter}::VARCHAR AS exporter"
    )


def _reason(
    start: str, end: str, size: str, src: str, dst: str, bad_numbers: list[str | None], unreadable: str | None
) -> str:
    bad = " OR ".join(condition for condition in bad_numbers if condition)
    cases = (
        ("unreadable", unreadable),
        ("bad_number", bad),
        ("missing_time", f"{start} IS NULL OR {end} IS NULL"),
        ("negative_time", f"{start} < 0 OR {end} < 0"),
        ("missing_address", f"coalesce({src}, '') = '' OR coalesce({dst}, '') = ''"),
        ("long_address", f"length({src}) > {limits.MAX_ADDRESS_CHARS} OR length({dst}) > {limits.MAX_ADDRESS_CHARS}"),
        ("same_address", f"{src} = {dst}"),
        ("end_before_start", f"{end} < {start}"),
        ("long_record", f"{end} - {start} > {limits.MAX_RECORD_NS}"),
        ("no_bytes", f"{size} IS NULL OR {size} <= 0"),
        ("huge_bytes", f"{size} > {limits.MAX_RECORD_BYTES}"),
    )
    branches = " ".join(f"WHEN {when} THEN {REASONS.index(name)}" for name, when in cases if when)
    return f"(CASE {branches} ELSE 0 END)::UTINYINT"


def _integer(column: SourceColumn, scale: int = 1) -> str:
    """A nullable BIGINT; anything that does not fit is NULL."""
    if column.type in _INTEGERS and scale == 1:
        return f"({column.expression})::BIGINT"
    if column.type in _INTEGERS:
        return f"TRY_CAST(({column.expression})::HUGEINT * {scale} AS BIGINT)"
    if scale == 1:
        return f"TRY_CAST({column.expression} AS BIGINT)"
    if column.type in ("DOUBLE", "FLOAT"):
        return f"TRY_CAST({column.expression} * {scale} AS BIGINT)"
    return f"TRY_CAST(TRY_CAST({column.expression} AS DECIMAL(28, 9)) * {scale} AS BIGINT)"


def _time(column: SourceColumn) -> str:
    if column.type.startswith("TIMESTAMP"):
        return f"epoch_ns({column.expression})"
    if column.unit is Unit.ISO:
        return _date(column)
    return _integer(column, column.unit.nanoseconds)


def _date(column: SourceColumn) -> str:
    """A date as text, or seconds since the epoch, which some collectors print in the same column."""
    seconds = _integer(column, Unit.S.nanoseconds)
    if column.type != "VARCHAR":
        return seconds
    offset = f"regexp_matches({column.expression}, '[+-][0-9]{{2}}:?[0-9]{{2}}$')"
    return (
        f"(CASE WHEN {offset} THEN epoch_ns(TRY_CAST({column.expression} AS TIMESTAMPTZ)) "
        f"ELSE coalesce(epoch_ns(TRY_CAST({column.expression} AS TIMESTAMP_NS)), {seconds}) END)"
    )


def _end_from_duration(start: str, duration: SourceColumn) -> str:
    """Start plus duration; a missing duration is a record of one packet, which has none."""
    length = f"CASE WHEN {_absent(duration)} THEN 0 ELSE {_time(duration)} END"
    return f"TRY_CAST({start}::HUGEINT + ({length}) AS BIGINT)"


def _absent(column: SourceColumn) -> str:
    if column.type == "VARCHAR":
        return f"coalesce({column.expression}, '') = ''"
    return f"{column.expression} IS NULL"


def _size(columns: Mapping[str, SourceColumn]) -> str:
    size = _integer(columns["bytes"])
    if "sampling" not in columns:
        return size
    return f"TRY_CAST({size}::HUGEINT * greatest(coalesce({_integer(columns['sampling'])}, 1), 1) AS BIGINT)"


def _bad_number(column: SourceColumn) -> str | None:
    """Condition: a value is there, but it is no number (or no time). None where the type rules that out."""
    if (column.type in _INTEGERS and column.unit is Unit.NS) or column.type.startswith("TIMESTAMP"):
        return None
    return f"(NOT ({_absent(column)}) AND {_time(column)} IS NULL)"


def _text(column: SourceColumn) -> str:
    return column.expression if column.type == "VARCHAR" else f"({column.expression})::VARCHAR"


def _switches(column: SourceColumn | None) -> str:
    """A list of names, or NULL where it is unknown, empty or too long to be a path."""
    if column is None:
        return "NULL::VARCHAR[]"
    if column.type == "VARCHAR[]":
        names = column.expression
    elif column.type == "VARCHAR":
        json_list = f"TRY_CAST({column.expression} AS VARCHAR[])"
        joined = f"string_split({column.expression}, ';')"
        names = f"(CASE WHEN starts_with({column.expression}, '[') THEN {json_list} ELSE {joined} END)"
    else:
        names = f"TRY_CAST({column.expression} AS VARCHAR[])"
    usable = f"len({names}) BETWEEN 1 AND {limits.MAX_PATH_SWITCHES} AND {names} <> ['']"
    return f"(CASE WHEN {usable} THEN {names} END)"


def _connection(columns: Mapping[str, SourceColumn]) -> str:
    """A hash of the ports and the protocol; 0 where a port is not known."""
    if "sport" not in columns or "dport" not in columns:
        return "0::UBIGINT"
    sport, dport = _integer(columns["sport"]), _integer(columns["dport"])
    protocol = _text(columns["protocol"]) if "protocol" in columns else "NULL"
    return f"(CASE WHEN {sport} IS NULL OR {dport} IS NULL THEN 0 ELSE hash({sport}, {dport}, {protocol}) END)::UBIGINT"
