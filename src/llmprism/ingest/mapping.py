"""Column names of a source → columns of the contract.

Written either on the command line (`start_ns=ts:ms,bytes=octets`) or in a small TOML file:

    [columns]
    start_ns = "ts:ms"      # a column, with the unit of its values after a colon
    bytes = "octets"

A name with dots that is no column of its own reaches into nested JSON (`src=connection.src_ip`). Columns that are not
mapped keep the contract's name. Times are nanoseconds unless a unit says otherwise (`ns`, `us`, `ms`, `s`, `iso`).
`duration_ns` stands in for `end_ns` where a source gives start and duration; `sampling` multiplies bytes and packets.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from llmprism import limits
from llmprism.errors import InputError, LimitError, UsageError

__all__ = ["OPTIONAL", "REQUIRED", "TARGETS", "ColumnMapping", "ColumnSource", "Unit"]

REQUIRED: Final = ("start_ns", "end_ns", "src", "dst", "bytes")
OPTIONAL: Final = ("switches", "sport", "dport", "protocol", "packets", "exporter", "duration_ns", "sampling")
TARGETS: Final = REQUIRED + OPTIONAL
TIME_TARGETS: Final = ("start_ns", "end_ns", "duration_ns")


class Unit(StrEnum):
    """What one unit of a time column is."""

    NS = "ns"
    US = "us"
    MS = "ms"
    S = "s"
    ISO = "iso"
    """A date as text (UTC unless it has an offset), or seconds since the epoch."""

    @property
    def nanoseconds(self) -> int:
        return {"ns": 1, "us": 1_000, "ms": 1_000_000, "s": 1_000_000_000, "iso": 1}[self.value]


@dataclass(frozen=True, slots=True)
class ColumnSource:
    """Where a target column comes from: the source's column and the unit of its values (times only)."""

    column: str
    unit: Unit = Unit.NS


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """Target → source; targets that are absent keep their own name."""

    sources: tuple[tuple[str, ColumnSource], ...] = field(default=())

    def source_of(self, target: str) -> ColumnSource:
        return dict(self.sources).get(target, ColumnSource(target))

    def has(self, target: str) -> bool:
        return target in dict(self.sources)

    def merged(self, other: ColumnMapping) -> ColumnMapping:
        """This mapping, overridden by the other where both name a target."""
        return ColumnMapping(tuple(sorted((dict(self.sources) | dict(other.sources)).items())))

    @classmethod
    def parse(cls, text: str) -> Self:
        """`start_ns=ts:ms,bytes=octets`; several such strings may be merged."""
        pairs = []
        for item in filter(None, (part.strip() for part in text.split(","))):
            target, equals, source = item.partition("=")
            if not equals or not source.strip():
                raise UsageError(f"--map: {item!r} is not of the form target=column; example: --map start_ns=ts:ms")
            pairs.append((target.strip(), source.strip()))
        return cls._of(pairs, "--map")

    @classmethod
    def from_file(cls, path: str | Path) -> Self:
        """Reads the `[columns]` table of a TOML file."""
        file = Path(path)
        try:
            if file.stat().st_size > limits.MAX_MAPPING_BYTES:
                raise LimitError(f"{file}: a mapping file has at most {limits.MAX_MAPPING_BYTES} bytes")
            document = tomllib.loads(file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            raise InputError(f"{file}: no such mapping file") from None
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError) as error:
            raise InputError(f"{file}: not a readable TOML mapping file ({_one_line(error)})") from None
        columns = document.get("columns")
        if not isinstance(columns, dict) or not all(isinstance(value, str) for value in columns.values()):
            raise InputError(f'{file}: expected a [columns] table of strings, for example start_ns = "ts:ms"')
        return cls._of(columns.items(), str(file))

    @classmethod
    def _of(cls, pairs: Iterable[tuple[str, str]], origin: str) -> Self:
        sources: dict[str, ColumnSource] = {}
        for target, source in pairs:
            if target not in TARGETS:
                raise UsageError(
                    f"{origin}: {target!r} is not a column of flow records; use one of {', '.join(TARGETS)}"
                )
            if target in sources:
                raise UsageError(f"{origin}: {target} is mapped twice")
            sources[target] = _parse_source(target, source)
        return cls(tuple(sorted(sources.items())))


def _parse_source(target: str, text: str) -> ColumnSource:
    column, colon, unit = text.rpartition(":")
    if colon and column and unit in set(Unit) and target in TIME_TARGETS:
        return ColumnSource(column, Unit(unit))
    return ColumnSource(text)


def _one_line(error: BaseException) -> str:
    return " ".join(str(error).split())[:200]
