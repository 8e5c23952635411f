"""Bytes → lines → (prefix, time, shape hash): one pass of numba kernels over a block of log text.

Line ends are found eight bytes at a time; prefix.py finds where the text begins and who wrote it; masking.py hashes the
shape of the text. A line's hash does not depend on its prefix or its leading time. Nothing here makes a Python object
per line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Int64, UInt8, UInt64
from llmprism.kernel_cache import compiled
from llmprism.logs.masking import BYTE_CLASSES, hash_masked
from llmprism.logs.prefix import line_head

__all__ = ["Lines", "scan_block"]


_LINE_BREAK, _CARRIAGE_RETURN = 10, 13


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one block. Offsets are into the block; `number` is the line in the file, from 1; `time_ns` 0: none.

    `prefix` is the hash of the tags before the text (0: none); `text_start` is where the text begins; tags end at
    `head_end`, which lies behind `text_start` where a rank stands among the words of a logger.
    """

    start: Int64
    text_start: Int64
    end: Int64
    number: Int64
    prefix: UInt64
    shape: UInt64
    time_ns: Int64
    head_end: Int64

    @property
    def count(self) -> int:
        return int(self.start.size)


_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_BREAKS = np.uint64(0x0A0A0A0A0A0A0A0A)
_RETURNS = np.uint64(0x0D0D0D0D0D0D0D0D)


@compiled
def _line_end(buf: UInt8, words: UInt64, i: int, size: int) -> int:
    """The offset of the next line break or carriage return at or after `i`, or `size`; eight bytes at a time."""
    while i < size and (i & 7) != 0:
        if buf[i] == _LINE_BREAK or buf[i] == _CARRIAGE_RETURN:
            return i
        i += 1
    while i + 8 <= size and (i >> 3) < words.size:
        word = words[i >> 3]
        a, b = word ^ _BREAKS, word ^ _RETURNS
        if (((a - _ONES) & ~a) | ((b - _ONES) & ~b)) & _HIGHS != np.uint64(0):
            break
        i += 8
    while i < size and buf[i] != _LINE_BREAK and buf[i] != _CARRIAGE_RETURN:
        i += 1
    return i


@compiled
def _scan(
    buf: UInt8,
    words: UInt64,
    size: int,
    at: int,
    number: int,
    host_prefix: bool,
    max_line: int,
    classes: UInt8,
    longs: Int64,
    hashes: UInt64,
) -> tuple[int, int, int, int]:
    """Lines from `at` on, until the block or the room for lines ends: (lines, next offset, next number, cut lines)."""
    row = 0
    cut = 0
    room = longs.shape[1]
    while at < size and row < room:
        end = _line_end(buf, words, at, size)
        stop = end
        if stop - at > max_line:
            stop = at + max_line
            cut += 1
        if stop > at:
            text, head_end, tags, when = line_head(buf, at, stop, host_prefix)
            longs[0, row], longs[1, row], longs[2, row], longs[3, row] = at, text, stop, number
            longs[4, row], longs[5, row] = when, head_end
            hashes[0, row], hashes[1, row] = tags, hash_masked(buf, text, stop, classes)
            row += 1
        if end < size and buf[end] == _LINE_BREAK:
            number += 1
        at = end + 1
    return row, min(at, size), number, cut


def scan_block(
    buf: UInt8, size: int, at: int, number: int, room: int, *, host_prefix: bool, max_line: int
) -> tuple[Lines, int, int, int]:
    """At most `room` lines of `buf[at:size]`, which ends with a line break or the file; blank lines are left out.

    Returns the lines, the offset and line number to go on from, and how many lines were cut at `max_line` bytes.
    A lone carriage return (progress bars) ends a line but not a line number.
    """
    longs = np.empty((6, room), dtype=np.int64)
    hashes = np.empty((2, room), dtype=np.uint64)
    words: UInt64 = buf[: buf.size & ~7].view(np.uint64)
    count, at, number, cut = _scan(buf, words, size, at, number, host_prefix, max_line, BYTE_CLASSES, longs, hashes)
    start, text_start, end, numbers, times, head_end = (column[:count] for column in longs)
    lines = Lines(start, text_start, end, numbers, hashes[0, :count], hashes[1, :count], times, head_end)
    return lines, int(at), int(number), int(cut)
