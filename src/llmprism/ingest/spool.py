"""Numbered rows are kept until all names are known, then dealt to buckets of pairs; in memory, or in files.

Rows come in blocks and leave in buckets, and only one copy of them is held: a block goes as soon as it is dealt. The
files have no name and go when they are closed. They are written and read, not mapped, so that they take no memory that
counts as the process's own.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.ingest.interning import Rows
from llmprism.ingest.order import counting_order
from llmprism.model.flows import Int32, Int64

__all__ = ["Buckets", "Spool", "nameless_file"]

_TYPES: Final = {
    "pair": np.int32, "start_ns": np.int64, "end_ns": np.int64, "bytes": np.int64, "path": np.int32,
    "connection": np.uint64, "exporter": np.int32,
}  # fmt: skip
_NAMES: Final = tuple(_TYPES)


def nameless_file() -> IO[bytes]:
    """A file that goes when it is closed and the last array that is mapped to it is gone."""
    return tempfile.TemporaryFile(prefix="llmprism-", buffering=0)


class Spool:
    """Blocks of rows, first in, first out."""

    def __init__(self, *, spilled: bool) -> None:
        self._file = nameless_file() if spilled else None
        self._blocks: deque[Rows | list[_Stretch | None]] = deque()
        self._written = 0

    def add(self, rows: Rows) -> None:
        self._blocks.append(rows if self._file is None else [self._write(getattr(rows, name)) for name in _NAMES])

    def blocks(self) -> Iterator[Rows]:
        """All blocks; each is forgotten when it is handed out."""
        while self._blocks:
            block = self._blocks.popleft()
            yield block if isinstance(block, Rows) else Rows(*(self._read(stretch) for stretch in block))

    def _write(self, column: NDArray[Any] | None) -> _Stretch | None:
        if self._file is None or column is None:
            return None
        stretch = _Stretch(self._written, column.size, column.dtype)
        stretch.write(self._file, column, 0)
        self._written += column.nbytes
        return stretch

    def _read(self, stretch: _Stretch | None) -> Any:
        return None if self._file is None or stretch is None else stretch.read(self._file)


class Buckets:
    """As many rows in each bucket as `sizes` says, filled bit by bit; several threads may deal at a time."""

    def __init__(self, sizes: Int64, *, exporters: bool, spilled: bool) -> None:
        self._filled = np.zeros(sizes.size, dtype=np.int64)
        self._file = nameless_file() if spilled else None
        self._turn = threading.Lock()
        types = [np.dtype(_TYPES[name]) if exporters or name != "exporter" else None for name in _NAMES]
        self._columns = list(self._stretches(sizes, types) if spilled else self._arrays(sizes, types))

    @staticmethod
    def _arrays(sizes: Int64, types: Sequence[Any]) -> Iterator[list[Any]]:
        for size in sizes:
            yield [None if kind is None else np.empty(size, dtype=kind) for kind in types]

    @staticmethod
    def _stretches(sizes: Int64, types: Sequence[Any]) -> Iterator[list[Any]]:
        first = 0
        for size in sizes.tolist():
            stretches: list[_Stretch | None] = []
            for kind in types:
                stretches.append(None if kind is None else _Stretch(first, size, kind))
                first += 0 if kind is None else size * kind.itemsize
            yield stretches

    def deal(self, rows: Rows, bucket_of_pair: Int32) -> None:
        """Puts every row where its pair belongs."""
        bucket = bucket_of_pair[rows.pair]
        counts = np.bincount(bucket, minlength=self._filled.size)
        offsets = np.concatenate([[0], np.cumsum(counts)])
        order = counting_order(bucket, offsets)
        with self._turn:
            places = self._filled.copy()
            self._filled += counts
        for number in np.flatnonzero(counts):
            chosen = order[offsets[number] : offsets[number + 1]]
            for name, target in zip(_NAMES, self._columns[number], strict=True):
                if target is not None:
                    self._put(getattr(rows, name), chosen, target, int(places[number]))

    def _put(self, column: NDArray[Any], chosen: Int64, target: Any, place: int) -> None:
        if self._file is None:
            column.take(chosen, out=target[place : place + chosen.size], mode="clip")  # "raise" would copy once more
        else:
            target.write(self._file, column[chosen], place)

    def take(self, number: int) -> Rows:
        """The rows of a bucket, which forgets them."""
        columns, self._columns[number] = self._columns[number], []
        if self._file is None:
            return Rows(*columns)
        return Rows(*(None if stretch is None else stretch.read(self._file) for stretch in columns))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Where in a file the values of an array lie."""

    first: int
    size: int
    kind: np.dtype[Any]

    def write(self, file: IO[bytes], part: NDArray[Any], place: int) -> None:
        """Writes some values, the first of which is the array's number `place`."""
        bits, at = memoryview(np.ascontiguousarray(part)).cast("B"), self.first + place * self.kind.itemsize
        while bits:
            written = os.pwrite(file.fileno(), bits, at)
            bits, at = bits[written:], at + written

    def read(self, file: IO[bytes]) -> NDArray[Any]:
        array = np.empty(self.size, dtype=self.kind)
        bits, at = memoryview(array).cast("B"), self.first
        while bits:
            read = os.preadv(file.fileno(), [bits], at)
            if not read:
                raise OSError("a file of our own is shorter than what was written to it")
            bits, at = bits[read:], at + read
        return array
