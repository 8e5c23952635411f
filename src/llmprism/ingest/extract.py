"""The records of some addresses in a span of time, taken out of many Parquet files of our own into one.

A live service looks at one slow job over many minutes of a whole cluster's records; only that job's are worth reading
into memory. Files that cannot be read are left out and named.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import duckdb

from llmprism.ingest.database import Database, first_line, open_database

__all__ = ["extract_flows", "readable"]


def extract_flows(
    paths: Sequence[Path], target: Path, addresses: Sequence[str], start_ns: int, end_ns: int, most: int
) -> int:
    """Writes the records that end in (start, end] and come from or go to one of the addresses; returns how many there
    are. Where there are more than `most`, nothing is written."""
    with open_database() as (connection, _):
        connection.execute("CREATE TEMP TABLE wanted AS SELECT unnest(?::VARCHAR[]) AS address", [list(addresses)])
        chosen = (
            f"FROM read_parquet({_list(paths)}, union_by_name=true) WHERE end_ns > {start_ns} AND end_ns <= {end_ns} "
            "AND (src IN (FROM wanted) OR dst IN (FROM wanted))"
        )
        row = connection.execute(f"SELECT count(*) {chosen}").fetchone()
        count = int(row[0]) if row else 0
        if 0 < count <= most:
            connection.execute(f"COPY (SELECT * {chosen}) TO '{_quoted(target)}' (FORMAT parquet)")
        return count


def readable(paths: Sequence[Path]) -> tuple[list[Path], list[tuple[Path, str]]]:
    """(files whose footers can be read, the others with the reason)."""
    good: list[Path] = []
    bad: list[tuple[Path, str]] = []
    with open_database() as (connection, _):
        for path in paths:
            reason = _trouble(connection, path)
            if reason:
                bad.append((path, reason))
            else:
                good.append(path)
    return good, bad


def _trouble(connection: Database, path: Path) -> str:
    try:
        connection.execute(
            f"SELECT count(end_ns), count(src), count(bytes) FROM read_parquet('{_quoted(path)}')"
        ).fetchall()
    except duckdb.Error as error:
        return first_line(error)
    return ""


def _list(paths: Sequence[Path]) -> str:
    return "[" + ", ".join(f"'{_quoted(path)}'" for path in paths) + "]"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")
