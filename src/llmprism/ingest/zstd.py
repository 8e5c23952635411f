"""Zstandard streams outside DuckDB.

DuckDB itself decompresses text (CSV, JSON Lines), so the core needs no other library for it. Packet captures are read
as bytes: they need the `zstandard` package (extra `zstd`), and where it is missing a clear line says so. DuckDB takes
the end of a truncated zstd file for the end of the data, so the frames are walked here first (RFC 8878, section 3.1:
only the few bytes of the headers are read).
"""

from __future__ import annotations

import importlib
import importlib.util
import io
from pathlib import Path
from typing import Any, BinaryIO, Final, cast

import duckdb

from llmprism.errors import FormatError

__all__ = ["check_zstd", "first_bytes_of_zstd", "zstd_stream"]

FRAME_MAGIC: Final = 0xFD2FB528
SKIPPABLE_MAGIC: Final = 0x184D2A50
RAW_BLOCK, RLE_BLOCK, COMPRESSED_BLOCK = 0, 1, 2


def check_zstd(path: Path) -> None:
    """Raises FormatError where the file ends inside a frame or holds anything else than frames."""
    size = path.stat().st_size
    position = 0
    with path.open("rb") as file:
        while position < size:
            end = _end_of_frame(file, position)
            if end < 0 or end > size:
                raise FormatError(
                    f"{path}: truncated or broken zstd data: expected a whole frame at byte {position} of {size}; "
                    "compress or copy it again"
                )
            position = end


def _end_of_frame(file: BinaryIO, position: int) -> int:
    """Where the frame that starts at `position` ends, or -1 if there is none."""
    file.seek(position)
    head = file.read(8)
    magic = int.from_bytes(head[:4], "little")
    if len(head) == 8 and magic & 0xFFFFFFF0 == SKIPPABLE_MAGIC:
        return position + 8 + int.from_bytes(head[4:], "little")
    if len(head) < 6 or magic != FRAME_MAGIC:
        return -1
    descriptor = head[4]
    single_segment = descriptor >> 5 & 1
    window = 1 - single_segment
    dictionary = (0, 1, 2, 4)[descriptor & 3]
    content_size = (single_segment, 2, 4, 8)[descriptor >> 6]
    position += 5 + window + dictionary + content_size
    last = False
    while not last:
        file.seek(position)
        header = file.read(3)
        if len(header) < 3:
            return -1
        value = int.from_bytes(header, "little")
        last, kind, size = bool(value & 1), value >> 1 & 3, value >> 3
        if kind > COMPRESSED_BLOCK:
            return -1
        position += 3 + (1 if kind == RLE_BLOCK else size)
    return position + (4 if descriptor >> 2 & 1 else 0)


def zstd_stream(stream: BinaryIO, name: str) -> BinaryIO:
    """The decompressed bytes of a stream, across frames. Broken data raise OSError, as they do for gzip."""
    if not _installed():
        raise FormatError(f"{name}: reading packets from zstd data needs the extra: pip install 'llmprism[zstd]'")
    return cast(BinaryIO, _Decompressed(stream))


class _Decompressed(io.RawIOBase):
    def __init__(self, stream: BinaryIO) -> None:
        zstandard = importlib.import_module("zstandard")
        self._error: type[Exception] = zstandard.ZstdError
        self._reader = zstandard.ZstdDecompressor().stream_reader(stream, read_across_frames=True, closefd=True)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        try:
            return int(self._reader.readinto(buffer))
        except self._error as error:
            raise OSError(str(error)) from None

    def close(self) -> None:
        self._reader.close()
        super().close()


def first_bytes_of_zstd(path: Path, size: int) -> bytes:
    """The start of the decompressed bytes; without the package its first line, enough for text formats."""
    if not _installed():
        return _first_line(path)
    try:
        with path.open("rb") as file:
            return io.BufferedReader(cast(io.RawIOBase, zstd_stream(file, str(path)))).read(size)
    except (OSError, EOFError) as error:
        raise _broken(path, error) from None


def _installed() -> bool:
    return importlib.util.find_spec("zstandard") is not None


def _first_line(path: Path) -> bytes:
    options = "auto_detect=false, header=false, delim='', quote='', escape='', columns={'line': 'VARCHAR'}"
    try:
        with duckdb.connect() as connection:
            query = f"SELECT line FROM read_csv(?, {options}, compression='zstd') LIMIT 1"
            row = connection.execute(query, [str(path)]).fetchone()
    except duckdb.Error:
        raise FormatError(
            f"{path}: zstd data that is no text; to read packets in it: pip install 'llmprism[zstd]', or decompress it"
        ) from None
    return b"" if row is None else str(row[0]).encode() + b"\n"


def _broken(path: Path, error: BaseException) -> FormatError:
    detail = " ".join(str(error).split())[:160]
    return FormatError(f"{path}: broken zstd data after byte 0 ({detail}); compress or copy it again")
