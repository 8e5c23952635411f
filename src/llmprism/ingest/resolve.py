"""Which column of a source feeds which column of the contract, or one clear line on what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Final

from llmprism.errors import ColumnError
from llmprism.ingest.columns import SourceColumn, literal
from llmprism.ingest.file_format import SourceFile
from llmprism.ingest.mapping import OPTIONAL, REQUIRED, ColumnMapping, ColumnSource

__all__ = ["file_list", "missing_column", "resolve"]

LISTED_COLUMNS: Final = 20
"""So many of the columns that are there are named in an error, so that the line stays readable."""


def file_list(sources: Iterable[SourceFile]) -> str:
    """An SQL list of the file names, with characters that DuckDB would take for a glob made harmless."""
    return "[" + ", ".join(literal(_no_glob(str(source.path))) for source in sources) + "]"


def _no_glob(name: str) -> str:
    return "".join(f"[{character}]" if character in "*?[" else character for character in name)


def resolve(
    path: Path | str, mapping: ColumnMapping, types: Mapping[str, str], expression: Callable[[str], str]
) -> dict[str, SourceColumn]:
    """Target → source column, for the targets that the source has. `types` maps the source's columns to DuckDB types.

    Required targets, and whatever the mapping names, must be there.
    """
    columns: dict[str, SourceColumn] = {}
    for target in REQUIRED + OPTIONAL:
        source = mapping.source_of(target)
        column = _find(source, types, expression)
        if column is not None:
            columns[target] = column
        elif mapping.has(target):
            raise missing_column(path, target, source.column, types)
    if "end_ns" in columns:
        columns.pop("duration_ns", None)
    for target in REQUIRED:
        if target not in columns and not (target == "end_ns" and "duration_ns" in columns):
            raise missing_column(path, target, mapping.source_of(target).column, types)
    return columns


def _find(source: ColumnSource, types: Mapping[str, str], expression: Callable[[str], str]) -> SourceColumn | None:
    """The column itself, or the first that is not NULL of the alternatives `a|b` that are there."""
    names = [source.column] if source.column in types else [name for name in source.column.split("|") if name in types]
    if not names:
        return None
    if len(names) == 1:
        return SourceColumn(expression(names[0]), types[names[0]], source.unit)
    choices = (_unless_zero_date(expression(name), types[name]) for name in names)
    return SourceColumn(f"coalesce({', '.join(choices)})", types[names[0]], source.unit)


def _unless_zero_date(expression: str, kind: str) -> str:
    if kind != "VARCHAR":
        return expression
    return f"CASE WHEN NOT starts_with({expression}, '0000-00-00') AND {expression} <> '' THEN {expression} END"


def missing_column(path: Path | str, target: str, column: str, available: Iterable[str]) -> ColumnError:
    names = [_printable(name) for name in available]
    there = ", ".join(names[:LISTED_COLUMNS]) + (", …" if len(names) > LISTED_COLUMNS else "")
    return ColumnError(
        f"{path}: no column {_printable(column)!r} for {target}; it has: {there or 'no columns'}. "
        f"Name the right one with --map {target}=COLUMN"
    )


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name[:64])
