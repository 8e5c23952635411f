"""What a format of flow files says about itself, and a file that is of one.

A format is one file of this package that makes a `Format`, and one line in `formats.FORMATS`: reading, `--format` and
the messages about unknown files follow from that. Its `scans` turn files into SQL over the columns of the contract.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from llmprism.ingest.collectors import Collector
from llmprism.ingest.columns import Scan
from llmprism.ingest.database import Database, Progress
from llmprism.ingest.mapping import ColumnMapping

if TYPE_CHECKING:
    from llmprism.ingest.capture_notes import CaptureNotes

__all__ = ["Compression", "Format", "Read", "ReadOptions", "SourceFile"]


class Compression(StrEnum):
    NONE = "none"
    GZIP = "gzip"
    ZSTD = "zstd"


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """How to read: the user's mapping, a collector that is forced, the pause that ends a burst of packets.

    `report_packets` is called with the share of the packets that has been read. `with_notes`: look for what a file
    says besides its records (`capture_notes`).
    """

    mapping: ColumnMapping
    collector: Collector | None
    burst_gap_ns: int
    report_packets: Progress = lambda _share: None
    with_notes: bool = True


@dataclass(frozen=True, slots=True)
class SourceFile:
    """One file with what its content says it is; `head` is the start of the decompressed bytes where the format wants
    to keep it.

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


Read = tuple[list[Scan], list["CaptureNotes"]]
"""How the rows of some files are selected, and what captures say besides."""


def _as_it_is(source: SourceFile, _folder: Path) -> SourceFile:
    return source


def _unchecked(_source: SourceFile, _head: bytes) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Format:
    """`name` is what --format takes, `title` what a message calls a file of it ("a Parquet file").

    `matches` looks at the first decompressed bytes. `check` raises where a file is broken although they match, or of
    another format than the user says. `scans` reads all files of the format. `prepare` may write a file anew, as one of
    another format, into a folder. `certain`: no file of another format matches, so that another --format is an error.
    `in_place`: scanned where it is, because reading a column twice is cheaper than a copy. `rejects`: lines that cannot
    be split into fields go to DuckDB's table of rejects. `keeps_head`: `scans` looks at `Source.head`. `streamed`: may
    come from standard input.
    """

    name: str
    title: str
    matches: Callable[[bytes], bool]
    scans: Callable[[Database, Sequence[SourceFile], ReadOptions], Read]
    check: Callable[[SourceFile, bytes], None] = _unchecked
    prepare: Callable[[SourceFile, Path], SourceFile] = _as_it_is
    certain: bool = True
    in_place: bool = False
    rejects: bool = False
    keeps_head: bool = False
    streamed: bool = False
