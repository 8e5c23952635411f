"""A log's text → blocks of whole lines, without the wrappers that collectors put around them.

A line longer than MAX_LOG_LINE_BYTES is cut and its tail skipped; a file with many control bytes at its start is
dropped as binary. The last block of a file may lack its line break: then the file was cut, or is still being written.
"""

from __future__ import annotations

import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any, Final, cast

import numpy as np

from llmprism import limits
from llmprism.arrays import UInt8
from llmprism.logs.masking import ESCAPE
from llmprism.logs.sources import Dropped, OpenLog
from llmprism.logs.wrappers import is_json_wrapped, strip_escapes, unwrap_json

__all__ = ["BLOCK_BYTES", "Block", "LineBuffer", "read_blocks"]

BLOCK_BYTES: Final = 1 << 22
"""4 MiB per read: large enough that the work per block is small against the work per byte, small enough for caches."""

_MAX_CONTROL_SHARE: Final = 0.05
"""Share of control bytes at the start above which a file is binary: random bytes have 11 %, coloured logs under 1 %."""

_CONTROL: Final = bytes(set(range(32)) - {9, 10, 13, 27} | {127})


@dataclass(frozen=True, slots=True)
class Block:
    """`buffer[:size]` are whole lines, except that the last block of a file may lack its line break."""

    buffer: UInt8
    size: int


def is_binary(head: bytes) -> bool:
    return len(head) - len(head.translate(None, _CONTROL)) > _MAX_CONTROL_SHARE * len(head)


class LineBuffer:
    """A buffer that always holds whole lines plus the unfinished rest of the last read; one serves many files."""

    def __init__(self) -> None:
        self.bytes: UInt8 = np.empty(BLOCK_BYTES + limits.MAX_LOG_LINE_BYTES + 1, dtype=np.uint8)
        self._view = memoryview(cast(Any, self.bytes))
        self.held = 0
        self.cut_lines = 0
        self._skipping = False

    def begin(self) -> None:
        """Forget what is held: another file follows."""
        self.held, self.cut_lines, self._skipping = 0, 0, False

    def fill(self, stream: IO[bytes]) -> int:
        """Read behind what is held until the buffer has a block or the stream ends; the number of bytes read."""
        total = 0
        limit = BLOCK_BYTES + limits.MAX_LOG_LINE_BYTES
        while self.held < BLOCK_BYTES and self.held < limit:
            read = self._fill_once(stream, limit - self.held)
            if not read:
                break
            total += read
        return total

    def _fill_once(self, stream: IO[bytes], room: int) -> int:
        read = int(cast(Any, stream).readinto(self._view[self.held : self.held + room]) or 0)
        if self._skipping and read:
            fresh = self.bytes[self.held : self.held + read]
            breaks = np.flatnonzero(fresh == 10)
            if breaks.size:
                first = int(breaks[0])
                kept = read - first
                self.bytes[self.held : self.held + kept] = fresh[first:].copy()
                self.held += kept
                self._skipping = False
            return read
        self.held += read
        return read

    def whole_lines(self) -> int:
        """How many of the held bytes are whole lines; a line beyond the cap is cut and its tail skipped."""
        last = self._last_break()
        if last >= 0:
            return last + 1
        if self.held > limits.MAX_LOG_LINE_BYTES and not self._skipping:
            self.held = limits.MAX_LOG_LINE_BYTES
            self._skipping = True
            self.cut_lines += 1
        return 0

    def _last_break(self) -> int:
        stop = self.held
        while stop > 0:
            start = max(0, stop - (1 << 16))
            breaks = np.flatnonzero(self.bytes[start:stop] == 10)
            if breaks.size:
                return start + int(breaks[-1])
            stop = start
        return -1

    def drop(self, used: int) -> None:
        rest = self.held - used
        if rest > limits.MAX_LOG_LINE_BYTES:
            rest = limits.MAX_LOG_LINE_BYTES
            self._skipping = True
            self.cut_lines += 1
        self.bytes[:rest] = self.bytes[used : used + rest].copy()
        self.held = rest


def read_blocks(log: OpenLog, dropped: Dropped, buffer: LineBuffer | None = None) -> Iterator[Block]:
    """The file's text in blocks of whole lines, each valid until the next. A broken file ends early and is counted.

    `buffer`: one that is free; new memory for every file costs as much time as a tenth of the reading.
    """
    head = log.text.head
    if not head:
        return
    if is_binary(head):
        dropped.add("binary file")
        return
    unwrapped = np.empty(2 * (BLOCK_BYTES + limits.MAX_LOG_LINE_BYTES), np.uint8) if is_json_wrapped(head) else None
    buffer = buffer or LineBuffer()
    buffer.begin()
    while True:
        try:
            read = buffer.fill(cast(IO[bytes], log.text))
        except (OSError, EOFError, zlib.error, tarfile.TarError, zipfile.BadZipFile, ValueError):
            dropped.add("broken file")
            break
        if not read:
            break
        whole = buffer.whole_lines()
        if whole:
            yield _clean(buffer.bytes, whole, unwrapped)
            buffer.drop(whole)
    if buffer.held:
        yield _clean(buffer.bytes[: buffer.held].copy(), buffer.held, unwrapped)
    dropped.add("lines cut at the cap", buffer.cut_lines)


def _clean(buffer: UInt8, size: int, unwrapped: UInt8 | None) -> Block:
    """The block without JSON and colours. Colours may stand inside JSON, so that comes first."""
    if unwrapped is not None:
        size = unwrap_json(buffer, size, unwrapped)
        buffer = unwrapped
    if (buffer[:size] == ESCAPE).any():
        size = strip_escapes(buffer, size)
    return Block(buffer, size)
