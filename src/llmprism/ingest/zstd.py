"""Zstandard streams outside DuckDB.

DuckDB itself decompresses text (CSV, JSON Lines), so the core needs no other library for it. Packet captures are read
as bytes: they need the `zstandard` package (extra `zstd`), and where it is missing a clear line says so.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import BinaryIO, cast

import duckdb

from llmprism.errors import FormatError

__all__ = ["first_bytes_of_zstd", "open_zstd"]


def open_zstd(path: Path) -> BinaryIO:
    """The decompressed bytes of a file as a stream."""
    if not _installed():
        raise FormatError(f"{path}: reading packets from a .zst file needs the extra: pip install 'llmprism[zstd]'")
    zstandard = importlib.import_module("zstandard")
    return cast(BinaryIO, zstandard.open(path, "rb"))


def first_bytes_of_zstd(path: Path, size: int) -> bytes:
    """The start of the decompressed bytes; without the package its first line, enough for text formats."""
    if not _installed():
        return _first_line(path)
    zstandard = importlib.import_module("zstandard")
    try:
        with open_zstd(path) as stream:
            return stream.read(size)
    except (OSError, EOFError, zstandard.ZstdError) as error:
        raise _broken(path, error) from None


def _installed() -> bool:
    return importlib.util.find_spec("zstandard") is not None


def _first_line(path: Path) -> bytes:
    options = "auto_detect=false, header=false, delim='', quote='', escape='', columns={'line': 'VARCHAR'}"
    try:
        with duckdb.connect() as connection:
            query = f"SELECT line FROM read_csv(?, {options}, compression='zstd') LIMIT 1"
            row = connection.execute(query, [str(path)]).fetchone()
    except duckdb.Error as error:
        raise _broken(path, error) from None
    return b"" if row is None else str(row[0]).encode() + b"\n"


def _broken(path: Path, error: BaseException) -> FormatError:
    detail = " ".join(str(error).split())[:160]
    return FormatError(f"{path}: broken zstd data ({detail}); compress or copy it again")
