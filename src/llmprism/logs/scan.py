"""Bytes → lines → (prefix, time, shape hash), one pass of numba kernels over a block of log text.

For every line the kernel finds the *prefix* (the tags that launchers put before the text: `12: `, `[rank3]:`,
`[1,3]<stdout>:`, `(Worker pid=1, ip=10.0.0.1)`, `host:pid:tid [0] ` of NCCL), the *time* where the line begins with
one of the usual forms, and the hash of the *shape*: the text with everything that varies masked. Masking, byte by byte:

- a run of letters, digits and `_` that begins with a digit, or is six or more hexadecimal digits, is `*`;
- in any other run that holds digits the digits become `*` and the letters stay (`node0400` → `node*`);
- `*` joined by one of `. , : - / + x` to a following number is one `*` (`1.5e-05`, `10.0.0.1:80`, `2026-11-15`);
- a sign before a number vanishes, blanks count once, ANSI escape sequences and control bytes do not exist.

Invariants: two texts with the same mask have the same hash, and a line's hash does not depend on its prefix or its
leading time. Nothing here makes a Python object per line.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

from llmprism.logs.clock import find_time

__all__ = ["Lines", "mask_text", "scan_block", "shape_hash"]

UInt8 = NDArray[np.uint8]
UInt64 = NDArray[np.uint64]
Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_OTHER, _LETTER, _DIGIT, _JOINER, _BLANK, _CONTROL = 0, 1, 2, 3, 4, 5
_HEX = 8


def _byte_classes() -> UInt8:
    classes = np.full(256, _OTHER, dtype=np.uint8)
    classes[0:32] = _CONTROL
    classes[127] = _CONTROL
    for byte in b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_":
        classes[byte] = _LETTER
    for byte in b"0123456789":
        classes[byte] = _DIGIT
    for byte in b".,:-/+":
        classes[byte] = _JOINER
    for byte in b" \t":
        classes[byte] = _BLANK
    for byte in b"abcdefABCDEFx0123456789":
        classes[byte] |= _HEX
    return classes


_CLASS: UInt8 = _byte_classes()
_KIND = 7
_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x9E3779B97F4A7C15)
_STAR_BYTE = 42
_SPACE = np.uint64(32)
_MIN_HEX_RUN = 6
"""Bytes. A letter-first run this long of hexadecimal digits only, with a digit in it, is an identifier."""

_LINE_BREAK, _CARRIAGE_RETURN, _ESCAPE = 10, 13, 27
_MAX_PREFIX_PIECES = 4
_MAX_PIECE_BYTES = 200


@dataclass(frozen=True, slots=True)
class Lines:
    """The lines of one block. Offsets are into the block; `number` is the line in the file, from 1; `time_ns` 0: none.

    `prefix` is the hash of the tags before the text (0: none); `text_start` is where the text begins.
    """

    start: Int64
    text_start: Int64
    end: Int64
    number: Int64
    prefix: UInt64
    shape: UInt64
    time_ns: Int64

    @property
    def count(self) -> int:
        return int(self.start.size)


@njit(cache=True)  # type: ignore[untyped-decorator]
def _skip_escape(buf: UInt8, i: int, end: int) -> int:
    """The offset after the escape sequence that begins at `i`: CSI to its final byte, OSC to BEL or ST, else 2 bytes."""
    i += 1
    if i >= end:
        return i
    if buf[i] == 91:
        i += 1
        while i < end and not (64 <= buf[i] <= 126):
            i += 1
        return i + 1 if i < end else end
    if buf[i] == 93:
        while i < end and buf[i] != 7 and buf[i] != _ESCAPE:
            i += 1
        return min(i + 1, end)
    return i + 1


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mix_bytes(buf: UInt8, start: int, end: int, h: np.uint64) -> np.uint64:
    for k in range(start, end):
        h = (h ^ np.uint64(buf[k])) * _HASH_PRIME
    return h


@njit(cache=True)  # type: ignore[untyped-decorator]
def _is_identifier(buf: UInt8, i: int, end: int, classes: UInt8) -> int:
    """The end of the run at `i` if it is six or more hexadecimal digits with a decimal one among them, else `i`."""
    j = i
    decimal = False
    while j < end and (classes[buf[j]] & _HEX) != 0:
        decimal = decimal or (classes[buf[j]] & _KIND) == _DIGIT
        j += 1
    if not decimal or j - i < _MIN_HEX_RUN:
        return i
    if j < end and 1 <= (classes[buf[j]] & _KIND) <= 2:
        return i
    return j


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mask(buf: UInt8, start: int, end: int, classes: UInt8, out: UInt8) -> int:
    """The masked text into `out`; its length. `_hash_masked` walks the same way and must change with it."""
    used = 0
    i = start
    in_word = after_star = blank = False
    while i < end:
        c = buf[i]
        kind = classes[c] & _KIND
        symbol = c
        after = i + 1
        if kind == _LETTER:
            if not in_word and (classes[c] & _HEX) != 0:
                identifier = _is_identifier(buf, i, end, classes)
                if identifier > i:
                    symbol, after = _STAR_BYTE, identifier
            in_word = symbol != _STAR_BYTE
        elif kind == _DIGIT:
            symbol = _STAR_BYTE
            while after < end and (classes[buf[after]] & _KIND) == _DIGIT:
                after += 1
            if not in_word:
                while after < end and 1 <= (classes[buf[after]] & _KIND) <= 2:
                    after += 1
        else:
            in_word = False
            if kind == _BLANK:
                blank = used > 0
                i += 1
                continue
            if kind == _CONTROL:
                i = _skip_escape(buf, i, end) if c == _ESCAPE else i + 1
                continue
            if kind == _JOINER and i + 1 < end and (48 <= buf[i + 1] <= 57 or buf[i + 1] == _STAR_BYTE):
                if (after_star and not blank) or c == 45 or c == 43:
                    i += 1
                    continue
        if blank:
            used = _emit(out, used, 32)
            blank = after_star = False
        if symbol != _STAR_BYTE or not after_star:
            used = _emit(out, used, symbol)
        after_star = symbol == _STAR_BYTE
        i = after
    return used


@njit(cache=True)  # type: ignore[untyped-decorator]
def _emit(out: UInt8, used: int, byte: int) -> int:
    if used < out.size:
        out[used] = byte
        return used + 1
    return used


@njit(cache=True, inline="always")  # type: ignore[untyped-decorator]
def _stir(h: np.uint64, gathered: np.uint64) -> np.uint64:
    h = (h ^ gathered) * _HASH_PRIME
    return h ^ (h >> np.uint64(29))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _hash_masked(buf: UInt8, start: int, end: int, classes: UInt8) -> np.uint64:
    """The hash of what `_mask` would write, without writing it: eight bytes are gathered per multiplication.

    Runs of letters and of digits have loops of their own, because most bytes are in them.
    """
    h = _HASH_SEED
    gathered = np.uint64(0)
    held = 0
    i = start
    in_word = after_star = blank = begun = False
    while i < end:
        c = buf[i]
        k = classes[c]
        kind = k & _KIND
        star = False
        if kind == _BLANK:
            blank = begun
            in_word = False
            i += 1
            continue
        if kind == _LETTER:
            if not in_word and (k & _HEX) != 0:
                identifier = _is_identifier(buf, i, end, classes)
                if identifier > i:
                    star = True
                    i = identifier
            in_word = not star
        elif kind == _DIGIT:
            star = True
            i += 1
            while i < end and 48 <= buf[i] <= 57:
                i += 1
            if not in_word:
                while i < end and 1 <= (classes[buf[i]] & _KIND) <= 2:
                    i += 1
        else:
            in_word = False
            if kind == _CONTROL:
                i = _skip_escape(buf, i, end) if c == _ESCAPE else i + 1
                continue
            if kind == _JOINER and i + 1 < end and (48 <= buf[i + 1] <= 57 or buf[i + 1] == _STAR_BYTE):
                if (after_star and not blank) or c == 45 or c == 43:
                    i += 1
                    continue
        if blank:
            gathered = (gathered << np.uint64(8)) | _SPACE
            held += 1
            if held == 8:
                h = _stir(h, gathered)
                gathered, held = np.uint64(0), 0
            blank = after_star = False
        begun = True
        if in_word and not star:
            while True:
                gathered = (gathered << np.uint64(8)) | np.uint64(c)
                held += 1
                if held == 8:
                    h = _stir(h, gathered)
                    gathered, held = np.uint64(0), 0
                i += 1
                if i >= end:
                    break
                c = buf[i]
                if (classes[c] & _KIND) != _LETTER:
                    break
            after_star = False
            continue
        if star:
            if after_star:
                continue
            c = np.uint8(_STAR_BYTE)
        else:
            i += 1
            if c == _STAR_BYTE and after_star:
                continue
        gathered = (gathered << np.uint64(8)) | np.uint64(c)
        held += 1
        if held == 8:
            h = _stir(h, gathered)
            gathered, held = np.uint64(0), 0
        after_star = c == _STAR_BYTE
    h = _stir(h, gathered)
    return _stir(h, np.uint64(held))


@njit(cache=True)  # type: ignore[untyped-decorator]
def _digits(buf: UInt8, i: int, end: int) -> int:
    """The offset after the digits at `i`."""
    while i < end and 48 <= buf[i] <= 57:
        i += 1
    return i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _bracket_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`[rank3]:`, `[default3]:`, `[3]:`, `[1,3]<stdout>:`, `[pod/name/container] `: (after it, end of the tag)."""
    j = i + 1
    if j + 4 < end and buf[j] == 112 and buf[j + 1] == 111 and buf[j + 2] == 100 and buf[j + 3] == 47:
        while j < end and buf[j] != 93 and j - i < _MAX_PIECE_BYTES:
            j += 1
        return (j + 1, j) if j < end and buf[j] == 93 else (i, i)
    while j < end and ((97 <= buf[j] <= 122) or (65 <= buf[j] <= 90) or buf[j] == 95) and j - i < 32:
        j += 1
    k = _digits(buf, j, end)
    if k == j or k - j > 7 or k >= end:
        return i, i
    if buf[k] == 44:
        k2 = _digits(buf, k + 1, end)
        if k2 > k + 1 and k2 + 1 < end and buf[k2] == 93 and buf[k2 + 1] == 60:
            tag_end = k2
            while k2 < end and buf[k2] != 62 and k2 - tag_end < 16:
                k2 += 1
            if k2 + 1 < end and buf[k2] == 62 and buf[k2 + 1] == 58:
                return k2 + 2, tag_end
        return i, i
    if k + 1 < end and buf[k] == 93 and buf[k + 1] == 58:
        return k + 2, k
    return i, i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _worker_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`(RayTrainWorker pid=123, ip=10.0.0.1) `: (after it, end of the tag)."""
    j = i + 1
    seen = False
    while j < end and j - i < _MAX_PIECE_BYTES and buf[j] != 41:
        if j + 4 < end and buf[j] == 112 and buf[j + 1] == 105 and buf[j + 2] == 100 and buf[j + 3] == 61:
            seen = True
        j += 1
    if seen and j < end and buf[j] == 41:
        return j + 1, j
    return i, i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _nccl_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host:pid:tid [device] `: (after it, end of `host:pid`)."""
    j = i
    colon_1 = colon_2 = -1
    stop = min(end, i + _MAX_PIECE_BYTES)
    while j < stop and buf[j] != 32:
        if buf[j] == 58:
            colon_1, colon_2 = colon_2, j
        j += 1
    if colon_1 <= i or j + 3 >= end or buf[j + 1] != 91:
        return i, i
    if _digits(buf, colon_1 + 1, end) != colon_2 or colon_2 == colon_1 + 1:
        return i, i
    if _digits(buf, colon_2 + 1, end) != j or j == colon_2 + 1:
        return i, i
    k = _digits(buf, j + 2, end)
    if k > j + 2 and k < end and buf[k] == 93:
        return k + 1, colon_2
    return i, i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _host_piece(buf: UInt8, i: int, end: int) -> tuple[int, int]:
    """`host: ` of pdsh and its like; asked for only in files that are known to have it."""
    j = i
    while j < end and j - i < 64:
        c = buf[j]
        if not ((97 <= c <= 122) or (65 <= c <= 90) or (48 <= c <= 57) or c == 45 or c == 46 or c == 95):
            break
        j += 1
    if j > i and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
        return j + 2, j
    return i, i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _piece(buf: UInt8, i: int, end: int, first: bool, host_prefix: bool) -> tuple[int, int]:
    """One tag of the prefix at `i`: (offset after it, end of its telling part); (i, i) where there is none."""
    c = buf[i]
    if 48 <= c <= 57:
        if first:
            j = _digits(buf, i, end)
            if j - i <= 6 and j + 1 < end and buf[j] == 58 and buf[j + 1] == 32:
                return j + 1, j
            if j - i <= 6 and j + 1 == end and buf[j] == 58:
                return end, j
        return _nccl_piece(buf, i, end)
    if c == 91:
        return _bracket_piece(buf, i, end)
    if c == 40:
        return _worker_piece(buf, i, end)
    if first and host_prefix:
        after, tag_end = _host_piece(buf, i, end)
        if after > i:
            return after, tag_end
    if (97 <= c <= 122) or (65 <= c <= 90):
        return _nccl_piece(buf, i, end)
    return i, i


@njit(cache=True)  # type: ignore[untyped-decorator]
def _line_head(buf: UInt8, i: int, end: int, host_prefix: bool) -> tuple[int, np.uint64, int]:
    """(offset of the text, hash of the tags, time in ns or 0). A time between tags is stepped over."""
    tags = np.uint64(0)
    time_ns = 0
    pieces = 0
    text = i
    while pieces < _MAX_PREFIX_PIECES:
        while i < end and (buf[i] == 32 or buf[i] == 9 or buf[i] == _ESCAPE):
            i = _skip_escape(buf, i, end) if buf[i] == _ESCAPE else i + 1
        if i >= end:
            break
        after, tag_end = _piece(buf, i, end, pieces == 0, host_prefix)
        if after > i:
            if tags == np.uint64(0):
                tags = _HASH_SEED
            tags = _mix_bytes(buf, i, tag_end, tags) * _HASH_PRIME
            i = after
            text = i
            pieces += 1
            continue
        if time_ns == 0:
            found, time_start, time_end = find_time(buf, i, end)
            time_ns = found
            if found != 0 and time_start - i <= 1:
                i = time_end
                text = i
                continue
        break
    return text, tags, time_ns


_ONES = np.uint64(0x0101010101010101)
_HIGHS = np.uint64(0x8080808080808080)
_BREAKS = np.uint64(0x0A0A0A0A0A0A0A0A)
_RETURNS = np.uint64(0x0D0D0D0D0D0D0D0D)


@njit(cache=True)  # type: ignore[untyped-decorator]
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


@njit(cache=True)  # type: ignore[untyped-decorator]
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
            text, tags, when = _line_head(buf, at, stop, host_prefix)
            longs[0, row], longs[1, row], longs[2, row], longs[3, row], longs[4, row] = at, text, stop, number, when
            hashes[0, row], hashes[1, row] = tags, _hash_masked(buf, text, stop, classes)
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
    longs = np.empty((5, room), dtype=np.int64)
    hashes = np.empty((2, room), dtype=np.uint64)
    words: UInt64 = buf[: buf.size & ~7].view(np.uint64)
    count, at, number, cut = _scan(buf, words, size, at, number, host_prefix, max_line, _CLASS, longs, hashes)
    start, text_start, end, numbers, times = (column[:count] for column in longs)
    lines = Lines(start, text_start, end, numbers, hashes[0, :count], hashes[1, :count], times)
    return lines, int(at), int(number), int(cut)


def mask_text(text: bytes) -> bytes:
    """The shape of a text, with `*` where it varies."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    out = np.empty(max(len(text), 1), dtype=np.uint8)
    return out[: _mask(buf, 0, buf.size, _CLASS, out)].tobytes()


def shape_hash(text: bytes) -> int:
    """The hash of the shape of a text, as `scan_block` computes it."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    return int(_hash_masked(buf, 0, buf.size, _CLASS))
