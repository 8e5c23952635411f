"""The formats of flow files, in one list, and which of them a file has.

The first bytes, never the name, say what a file is. A new format is a file of its own and a line here.
"""

from __future__ import annotations

import gzip
import io
import sys
import zlib
from pathlib import Path
from typing import BinaryIO, Final, cast

from llmprism.errors import FormatError, InputError, UsageError
from llmprism.ingest.collectors import COLLECTORS, Collector, collector_named
from llmprism.ingest.csv_text import CSV
from llmprism.ingest.file_format import Compression, Format, SourceFile
from llmprism.ingest.json_lines import JSON_LINES
from llmprism.ingest.nfcapd import NFCAPD
from llmprism.ingest.packet_capture import PACKETS
from llmprism.ingest.parquet import PARQUET
from llmprism.ingest.sources import BLANK, GZIP_MAGIC, STANDARD_INPUT, ZSTD_MAGIC, head_of
from llmprism.ingest.zstd import zstd_stream

__all__ = ["FORMATS", "identify", "parse_format"]

FORMATS: Final[tuple[Format, ...]] = (PACKETS, NFCAPD, PARQUET, JSON_LINES, CSV)
"""The first that matches a file is its format; text that is nothing else is CSV."""


def parse_format(name: str | None) -> tuple[Format | None, Collector | None]:
    """What --format forces: a file format, or a collector whose file format the content shows."""
    if name is None:
        return None, None
    collector = collector_named(name.lower())
    if collector is not None:
        return None, collector
    for one in FORMATS:
        if one.name == name.lower():
            return one, None
    known = ", ".join([*(one.name for one in FORMATS), *(one.name for one in COLLECTORS)])
    raise UsageError(f"unknown format {name!r}; use one of {known}")


def identify(path: Path, forced: Format | None = None) -> SourceFile:
    """What a file is, from its first bytes; `forced` overrides the format but not the compression."""
    if str(path) == STANDARD_INPUT:
        return _identify_stream(cast(BinaryIO, sys.stdin.buffer), forced)
    compression, head = head_of(path)
    found = next((one for one in FORMATS if one.matches(head)), None)
    if found is not None and found.certain and forced is not None and forced is not found:
        raise FormatError(f"{path}: is {found.title}, but --format says {forced.name}")
    if not (found is not None and found.certain) and not head.strip(BLANK + b"\0"):
        raise InputError(f"{path}: holds no records; expected {_expected()}")
    chosen = forced or found
    if chosen is None:
        raise FormatError(
            f"{path}: binary data of an unknown kind (a zero at byte {head.index(0)}); expected {_expected()}"
        )
    source = SourceFile(path, chosen, compression, head if chosen.keeps_head else b"")
    chosen.check(source, head)
    return source


def _expected() -> str:
    *most, last = (one.title for one in reversed(FORMATS))
    return f"{', '.join(most)} or {last}"


def _identify_stream(stream: BinaryIO, forced: Format | None) -> SourceFile:
    """Standard input: packets, compressed or not, as `tcpdump -w -` writes them."""
    name = "standard input"
    if forced is not None and not forced.streamed:
        raise UsageError(f"{name}: only packets are read from there, but --format says {forced.name}; give a file")
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
    found = next((one for one in FORMATS if one.streamed and one.matches(head)), None)
    if found is None:
        raise FormatError(
            f"{name}: not a packet capture: no pcap or pcapng magic number at byte 0; give flow records as a file"
        )
    return SourceFile(Path(STANDARD_INPUT), found, Compression.NONE, stream=cast(BinaryIO, buffered))
