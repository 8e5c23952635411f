"""Numbered records are kept until all names are known, then dealt to buckets of pairs; in memory, or in files.

Records come in blocks and leave in buckets, and only one copy of them is held: a block goes as soon as it is dealt. The
files have no name and go when they are closed. They are written and read, not mapped, so that they take no memory that
counts as the process's own.
"""

from __future__ import annotations

import os
import tempfile
import threading
from collections import deque
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Int32, Int64
from llmprism.ingest.fresh_memory import fresh_array
from llmprism.ingest.interning import NUMBERED, Ids, Records
from llmprism.ingest.record_order import counting_order
from llmprism.kernel import kernel

__all__ = ["Buckets", "Spool", "nameless_file"]


def nameless_file() -> IO[bytes]:
    """A file that goes when it is closed and the last array that is mapped to it is gone."""
    return tempfile.TemporaryFile(prefix="llmprism-", buffering=0)


class Spool:
    """Blocks of records, first in, first out."""

    def __init__(self, *, spilled: bool) -> None:
        self.kind: np.dtype[Any] = NUMBERED
        self._file = nameless_file() if spilled else None
        self._blocks: deque[Records] = deque()
        self._sizes: deque[int] = deque()

    def add(self, records: Records) -> None:
        self.kind = records.dtype
        if self._file is None:
            self._blocks.append(records)
        else:
            _write(self._file, records, sum(self._sizes) * self.kind.itemsize)
            self._sizes.append(records.size)

    def blocks(self) -> Iterator[Records]:
        """All blocks; each is forgotten when it is handed out."""
        while self._blocks:
            yield self._blocks.popleft()
        first = 0
        while self._file is not None and self._sizes:
            block = np.empty(self._sizes.popleft(), dtype=self.kind)
            _read(self._file, block, first * self.kind.itemsize)
            first += block.size
            yield block


class Buckets:
    """As many records in each bucket as `sizes` says, filled bit by bit; several threads may deal at a time."""

    def __init__(self, sizes: Int64, kind: np.dtype[Any], *, spilled: bool) -> None:
        self._kind = kind
        self._sizes = sizes
        self._first = np.cumsum(sizes) - sizes
        self._filled = np.zeros(sizes.size, dtype=np.int64)
        self._file = nameless_file() if spilled else None
        self._arrays = [] if spilled else [fresh_array(size, kind) for size in sizes.tolist()]
        self._turn = threading.Lock()

    def deal(self, records: Records, ids: Ids, bucket_of_pair: Int32) -> None:
        """Gives the numbered records ids and puts each where its pair belongs."""
        if ids.exporter.size:
            records["exporter"] = ids.exporter[records["exporter"]]
        order, offsets = _dealt(records["pair"], records["path"], ids.pair, ids.path, bucket_of_pair, self._sizes.size)
        with self._turn:
            places = self._filled.copy()
            self._filled += np.diff(offsets)
        for number in np.flatnonzero(np.diff(offsets)).tolist():
            chosen = order[offsets[number] : offsets[number + 1]]
            self._put(records, chosen, number, int(places[number]))

    def _put(self, records: Records, chosen: Int64, number: int, place: int) -> None:
        if self._file is None:
            target = self._arrays[number][place : place + chosen.size]
            records.take(chosen, out=target, mode="clip")  # "raise" would copy once more
        else:
            _write(self._file, records.take(chosen), int(self._first[number] + place) * self._kind.itemsize)

    def take(self, number: int) -> Records:
        """The records of a bucket, which forgets them."""
        if self._file is None:
            records, self._arrays[number] = self._arrays[number], self._arrays[number][:0].copy()
            return records
        records = np.empty(self._sizes[number], dtype=self._kind)
        _read(self._file, records, int(self._first[number]) * self._kind.itemsize)
        return records


@kernel
def _dealt(
    pair: Int32, path: Int32, pair_ids: Int32, path_ids: Int32, bucket_of_pair: Int32, bucket_count: int
) -> tuple[Int64, Int64]:
    """Replaces the numbers by ids; (order of the rows by bucket, offsets of the buckets)."""
    bucket = np.empty(pair.size, dtype=np.int32)
    offsets = np.zeros(bucket_count + 1, dtype=np.int64)
    for row in range(pair.size):
        pair[row] = pair_ids[pair[row]]
        if path_ids.size:
            path[row] = path_ids[path[row]]
        bucket[row] = bucket_of_pair[pair[row]]
        offsets[bucket[row] + 1] += 1
    for number in range(bucket_count):
        offsets[number + 1] += offsets[number]
    return counting_order(bucket, offsets), offsets


def _write(file: IO[bytes], array: NDArray[Any], place: int) -> None:
    rest = memoryview(array.view(np.uint8).data)
    while rest:
        written = os.pwrite(file.fileno(), rest, place)
        rest, place = rest[written:], place + written


def _read(file: IO[bytes], array: NDArray[Any], place: int) -> None:
    rest = memoryview(array.view(np.uint8).data)
    while rest:
        read = os.preadv(file.fileno(), [rest], place)
        if not read:
            raise OSError("a temporary file is shorter than what was written to it")
        rest, place = rest[read:], place + read
