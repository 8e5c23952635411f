"""A private DuckDB: in memory, spilling to a directory of its own, never loading anything from a network."""

from __future__ import annotations

import re
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import duckdb
import numpy as np
from numpy.typing import NDArray

from llmprism.errors import UsageError

__all__ = [
    "QUIETLY",
    "Database",
    "Progress",
    "first_line",
    "memory_bytes",
    "numpy_columns",
    "open_database",
    "report_progress",
    "scalar",
]

Progress = Callable[[float], None]
"""Called with the share of the work that is done, 0..1."""

Database = duckdb.DuckDBPyConnection

QUIETLY: Final = "SET enable_progress_bar_print = false"
"""For every connection and cursor: DuckDB draws bars of its own on the standard output, also where that is a file."""

STREAM_BUFFER: Final = "64MB"
"""What a query may have ready before it waits for its reader: ten batches of records, as many as are numbered at a
time. With DuckDB's own 10 MB its threads wait while a block is numbered, a tenth of the time."""

PROGRESS_SECONDS: Final = 0.2
"""How often progress is looked at: five times a second looks smooth."""


@contextmanager
def open_database(memory_limit: str | None = None, threads: int | None = None) -> Iterator[tuple[Database, Path]]:
    """The connection, and a directory for temporary files; both go when the context ends.

    `threads` is how many the database uses (None: as many as it likes).
    """
    with tempfile.TemporaryDirectory(prefix="llmprism-") as spill:
        options: dict[str, str | bool | int | float | list[str]] = {
            "temp_directory": spill,
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
            "preserve_insertion_order": "false",
        }
        if memory_limit is not None:
            options["memory_limit"] = memory_limit
        if threads is not None:
            options["threads"] = threads
        try:
            connection = duckdb.connect(config=options)
        except duckdb.Error as error:
            raise UsageError(f"memory limit {memory_limit!r}: {first_line(error)}") from None
        with connection:
            connection.execute(QUIETLY)
            if memory_limit is None:
                connection.execute(f"SET streaming_buffer_size = '{STREAM_BUFFER}'")
            yield connection, Path(spill)


@contextmanager
def report_progress(connection: Database, progress: Progress | None) -> Iterator[Progress]:
    """Calls `progress` from a thread while queries run; it never goes backwards and ends with 1.

    Yields a function to call with the share of work that is not a query (reading packets); from then on that counts,
    because the many short queries in between say nothing.
    """
    if progress is None:
        yield lambda _share: None
        return
    done = threading.Event()
    outside_queries: list[float] = []

    def watch() -> None:
        best = 0.0
        while not done.wait(PROGRESS_SECONDS):
            share = outside_queries[-1] if outside_queries else connection.query_progress() / 100.0
            best = max(best, min(share, 0.99))
            progress(best)

    def report_share(share: float) -> None:
        outside_queries[:] = [share]

    thread = threading.Thread(target=watch, name="llmprism-progress", daemon=True)
    thread.start()
    try:
        yield report_share
    finally:
        done.set()
        thread.join()
    progress(1.0)


def numpy_columns(connection: Database, query: str) -> dict[str, NDArray[Any]]:
    """The columns of a query without NULLs."""
    return {name: np.ma.getdata(column) for name, column in connection.execute(query).fetchnumpy().items()}


def memory_bytes(limit: str) -> int:
    """A size such as "4GB", "512 MB" or "2GiB" in bytes; raises UsageError for anything else.

    >>> memory_bytes("1.5GB")
    1500000000
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]i?B)\s*", limit, re.IGNORECASE)
    if match is None:
        raise UsageError(f"memory limit {limit!r}: expected a number and a unit, for example 4GB")
    unit = match.group(2).upper()
    base, power = (1024 if "I" in unit else 1000), "KMGT".index(unit[0]) + 1
    return int(float(match.group(1)) * base**power)


def first_line(error: BaseException) -> str:
    return " ".join(str(error).split("\n\n")[0].split())[:240]


def scalar(connection: Database, query: str) -> int:
    rows = connection.execute(query).fetchall()  # to the end: an unfinished result would block the connection
    return int(rows[0][0]) if rows else 0
