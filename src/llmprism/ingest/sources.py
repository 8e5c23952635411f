"""Which files to read, and what each of them is.

Names and globs become files; the first bytes, never the name, say how a file is compressed and which format it has.
"""

from __future__ import annotations

import glob
import gzip
import io
import sys
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import BinaryIO, Final, cast

from llmprism import limits
from llmprism.errors import FormatError, InputError, LimitError, UsageError
from llmprism.ingest.collectors import COLLECTORS, Collector, collector_named
from llmprism.ingest.packets.magic import is_packets
from llmprism.ingest.zstd import check_zstd, first_bytes_of_zstd, zstd_stream

__all__ = ["Compression", "Format", "Source", "broken_gzip", "expand", "head_of", "identify", "parse_format"]

HEAD_BYTES: Final = 65_536
"""How much of a (decompressed) file is looked at to recognise its format: more than any header or first line needs."""

CHECKED_BYTES: Final = 1 << 20
"""Decompressed at once where a file that another reader refused is looked through for the place."""

GZIP_MAGIC: Final = b"\x1f\x8b"
ZSTD_MAGIC: Final = b"\x28\xb5\x2f\xfd"
PARQUET_MAGIC: Final = b"PAR1"
NFCAPD_MAGIC: Final = b"\x0c\xa5"
STANDARD_INPUT: Final = "-"
_GLOB_CHARACTERS: Final = frozenset("*?[")


class Format(StrEnum):
    PARQUET = "parquet"
    CSV = "csv"
    JSONL = "jsonl"
    PCAP = "pcap"
    NFCAPD = "nfcapd"


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class Source:
    """One file with what its content says it is; `head` is the start of the decompressed bytes.

    `stream` is set where the bytes cannot be read twice (standard input); then they come decompressed from there.
    """

    path: Path
    format: Format
    compression: Compression
    head: bytes = b""
    stream: BinaryIO | None = None

    @property
    def name(self) -> str:
        """What messages call it."""
        return "standard input" if self.stream is not None else str(self.path)


def parse_format(name: str | None) -> tuple[Format | None, Collector | None]:
    """What --format forces: a file format, or a collector whose file format the content shows."""
    if name is None:
        return None, None
    collector = collector_named(name.lower())
    if collector is not None:
        return None, collector
    try:
        return Format(name.lower()), None
    except ValueError:
        known = ", ".join([*Format, *(one.name for one in COLLECTORS)])
        raise UsageError(f"unknown format {name!r}; use one of {known}") from None


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


def identify(path: Path, forced: Format | None = None) -> Source:
    """What a file is, from its first bytes; `forced` overrides the format but not the compression."""
    if str(path) == STANDARD_INPUT:
        return _identify_stream(cast(BinaryIO, sys.stdin.buffer), forced)
    compression, head = head_of(path)
    if is_packets(head) or forced is Format.PCAP:
        return _captured(path, compression, head, forced)
    if head.startswith(NFCAPD_MAGIC) and forced in (None, Format.NFCAPD):
        return Source(path, Format.NFCAPD, compression)
    if not head.strip(b"\0 \t\r\n\xef\xbb\xbf"):
        raise InputError(f"{path}: holds no records; expected Parquet, CSV, JSON Lines or packets")
    if compression is Compression.NONE and (head.startswith(PARQUET_MAGIC) or forced is Format.PARQUET):
        _check_parquet(path, head)
        if forced not in (None, Format.PARQUET):
            raise FormatError(f"{path}: is a Parquet file, but --format says {forced}")
        return Source(path, Format.PARQUET, compression)
    if forced is Format.PARQUET or head.startswith(PARQUET_MAGIC):
        raise FormatError(f"{path}: a Parquet file inside {compression}; decompress it first")
    source = Source(path, forced or _text_format(path, head), compression, head)
    if source.format is Format.JSONL and compression is Compression.NONE:
        _check_array(path, head)
    return source


def _captured(path: Path, compression: Compression, head: bytes, forced: Format | None) -> Source:
    if not is_packets(head):
        raise FormatError(f"{path}: not a packet capture: no pcap or pcapng magic number at byte 0; check --format")
    if forced not in (None, Format.PCAP):
        raise FormatError(f"{path}: is a packet capture, but --format says {forced}")
    return Source(path, Format.PCAP, compression)


def _identify_stream(stream: BinaryIO, forced: Format | None) -> Source:
    """Standard input: packets, compressed or not, as `tcpdump -w -` writes them."""
    name = "standard input"
    if forced not in (None, Format.PCAP):
        raise UsageError(f"{name}: only packets are read from there, but --format says {forced}; give a file")
    buffered = cast(io.BufferedReader, stream)
    head = buffered.peek(4)
    if head.startswith(GZIP_MAGIC):
        buffered = io.BufferedReader(cast(io.RawIOBase, gzip.GzipFile(fileobj=buffered)))
    elif head.startswith(ZSTD_MAGIC):
        buffered = io.BufferedReader(cast(io.RawIOBase, zstd_stream(buffered, name)))
    try:
        head = buffered.peek(4)
    except (OSError, EOFError, zlib.error) as error:
        raise FormatError(f"{name}: broken compressed data at byte 0 ({error}); compress or copy it again") from None
    if not head:
        raise InputError(f"{name}: is empty; expected a pcap or pcapng stream")
    if not is_packets(head):
        raise FormatError(
            f"{name}: not a packet capture: no pcap or pcapng magic number at byte 0; give flow records as a file"
        )
    return Source(Path(STANDARD_INPUT), Format.PCAP, Compression.NONE, stream=cast(BinaryIO, buffered))


def _check_parquet(path: Path, head: bytes) -> None:
    """A Parquet file starts and ends with the same four bytes; one that was cut off lacks the end."""
    if not head.startswith(PARQUET_MAGIC):
        raise FormatError(f"{path}: not a Parquet file: expected PAR1 at byte 0; check --format")
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(4, size), 2)
        if file.read(4) != PARQUET_MAGIC or size < 12:
            raise FormatError(
                f"{path}: truncated Parquet file: expected PAR1 again at byte {max(size - 4, 4)}, its end; "
                "copy or export it again"
            )


def _check_array(path: Path, head: bytes) -> None:
    """One JSON array ends with its bracket; DuckDB takes a cut one for a short one."""
    if not head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"["):
        return
    size = path.stat().st_size
    with path.open("rb") as file:
        file.seek(-min(size, HEAD_BYTES), 2)
        if not file.read().rstrip().endswith(b"]"):
            raise FormatError(f"{path}: truncated JSON array: expected ] at byte {size - 1}, its end; copy it again")


def _text_format(path: Path, head: bytes) -> Format:
    text = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if b"\0" in text.split(b"\n", 1)[0]:
        raise FormatError(
            f"{path}: binary data of an unknown kind (a zero at byte {head.index(0)}); expected Parquet, CSV, "
            "JSON Lines, pcap, pcapng or nfcapd"
        )
    return Format.JSONL if text.startswith((b"{", b"[")) else Format.CSV
