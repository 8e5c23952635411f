"""Which files to read, and how each of them is compressed.

Names and globs become files; the first bytes, never the name, say how a file is compressed. Which format it has is
decided in `formats.py`.
"""

from __future__ import annotations

import glob
import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from llmprism import limits
from llmprism.errors import FormatError, InputError, LimitError
from llmprism.ingest.file_format import Compression
from llmprism.ingest.zstd import check_zstd, first_bytes_of_zstd

__all__ = ["BLANK", "GZIP_MAGIC", "HEAD_BYTES", "STANDARD_INPUT", "ZSTD_MAGIC", "broken_gzip", "expand", "head_of"]

HEAD_BYTES: Final = 65_536
"""How much of a (decompressed) file is looked at to recognise its format: more than any header or first line needs."""

CHECKED_BYTES: Final = 1 << 20
"""Decompressed at once where a file that another reader refused is looked through for the place."""

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
STANDARD_INPUT: Final = "-"
BLANK: Final = b"\xef\xbb\xbf \t\r\n"
"""What may stand before the first record of a text."""

_GLOB_CHARACTERS: Final = frozenset("*?[")


def expand(paths: Sequence[str | Path]) -> list[Path]:
    """The files behind names and globs, each once, in sorted order within a glob."""
    files: dict[Path, None] = {}
    for path in paths:
        for file in _files_of(str(path)):
            files.setdefault(file)
        if len(files) > limits.MAX_INPUT_FILES:
            raise LimitError(f"{path}: more than {limits.MAX_INPUT_FILES} files; read them in parts")
    if not files:
        raise InputError("no input files given")
    return list(files)


def _files_of(name: str) -> list[Path]:
    if name == STANDARD_INPUT:
        return [Path(name)]
    if "\0" in name:
        raise InputError(f"{name!r}: not a file name")
    path = Path(name)
    if path.is_dir():
        raise InputError(f"{name}: is a directory; give its files, for example {path / '*.parquet'}")
    if path.exists():
        return [path]
    if not _GLOB_CHARACTERS.intersection(name):
        raise InputError(f"{name}: no such file")
    found = sorted(file for file in map(Path, glob.glob(name, recursive=True)) if file.is_file())  # noqa: PTH207
    if not found:
        raise InputError(f"{name}: no file matches")
    return found


def head_of(path: Path) -> tuple[Compression, bytes]:
    """The compression of a file and the start of its decompressed bytes."""
    try:
        with path.open("rb") as file:
            head = file.read(HEAD_BYTES)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    if not head:
        raise InputError(f"{path}: is empty; expected flow records or packets")
    if head.startswith(GZIP_MAGIC):
        return Compression.GZIP, _gunzip(path)
    if head.startswith(ZSTD_MAGIC):
        check_zstd(path)
        return Compression.ZSTD, first_bytes_of_zstd(path, HEAD_BYTES)
    return Compression.NONE, head


def _gunzip(path: Path) -> bytes:
    broken = None
    with path.open("rb") as raw:
        try:
            return gzip.GzipFile(fileobj=raw).read(HEAD_BYTES)
        except (OSError, EOFError, zlib.error) as error:
            broken = _broken_gzip(path, raw.tell(), error)
    raise broken


def broken_gzip(path: Path) -> FormatError | None:
    """Where a gzip file is broken, found by reading it once more; None where it is not."""
    with path.open("rb") as raw, gzip.GzipFile(fileobj=raw) as packed:
        try:
            while packed.read(CHECKED_BYTES):
                pass
        except (OSError, EOFError, zlib.error) as error:
            return _broken_gzip(path, raw.tell(), error)
    return None


def _broken_gzip(path: Path, offset: int, error: BaseException) -> FormatError:
    return FormatError(f"{path}: broken gzip data before byte {offset} ({error}); compress or copy it again")
