"""Bytes → lines → (prefix, time, shape hash), one pass of numba kernels over a block of log text.

For every line the kernel finds the *prefix* (the tags that launchers put before the text: `12: `, `[rank3]:`,
`[1,3]<stdout>:`, `(Worker pid=1, ip=10.0.0.1)`, `host:pid:tid [0] ` of NCCL), the *time* where the line begins with
one of the usual forms, and the hash of the *shape*: the text with everything that varies masked. Masking, byte by byte:

- a run of letters, digits and `_` that begins with a digit, or is six or more hexadecimal digits, is `*`;
- in any other run that holds digits the digits become `*` and the letters stay (`node0400` → `node*`);
- `*` joined by one of `. , : - / + x` to a following number is one `*` (`1.5e-05`, `10.0.0.1:80`, `2026-11-15`);
- a sign before a number vanishes, blanks count once, ANSI escape sequences and control bytes do not exist.

Invariants: `shape_hash(mask(line)) == shape_hash(line)` (masking is idempotent), and a line's hash does not depend on
its prefix or its leading time. Nothing here makes a Python object per line.
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
_HASH_PRIME = np.uint64(0x100000001B3)
_STAR = np.uint64(42)
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
def _emit(out: UInt8, used: int, byte: int) -> int:
    if used < out.size:
        out[used] = byte
        return used + 1
    return used


@njit(cache=True)  # type: ignore[untyped-decorator]
def _mask(buf: UInt8, start: int, end: int, classes: UInt8, out: UInt8) -> tuple[np.uint64, int]:
    """Hash of the masked text, and the masked text itself into `out` (empty array: only the hash)."""
    h = _HASH_SEED
    writes = out.size > 0
    used = 0
    i = start
    after_star = False
    pending_blank = False
    while i < end:
        c = buf[i]
        kind = classes[c] & _KIND
        if kind == _LETTER or kind == _DIGIT:
            if pending_blank:
                h = (h ^ _SPACE) * _HASH_PRIME
                pending_blank = False
                after_star = False
                if writes:
                    used = _emit(out, used, 32)
            j = i
            speculative = h
            all_hex = True
            has_digit = False
            while j < end:
                d = buf[j]
                k = classes[d]
                if (k & _KIND) == _DIGIT:
                    has_digit = True
                elif (k & _KIND) != _LETTER:
                    break
                all_hex = all_hex and (k & _HEX) != 0
                speculative = (speculative ^ np.uint64(d)) * _HASH_PRIME
                j += 1
            if not has_digit:
                h = speculative
                after_star = False
                if writes:
                    for b in range(i, j):
                        used = _emit(out, used, buf[b])
            elif kind == _DIGIT or (all_hex and j - i >= _MIN_HEX_RUN):
                if not after_star:
                    h = (h ^ _STAR) * _HASH_PRIME
                    if writes:
                        used = _emit(out, used, 42)
                after_star = True
            else:
                in_digits = False
                for b in range(i, j):
                    if (classes[buf[b]] & _KIND) == _DIGIT:
                        if not in_digits:
                            h = (h ^ _STAR) * _HASH_PRIME
                            if writes:
                                used = _emit(out, used, 42)
                        in_digits = True
                    else:
                        h = (h ^ np.uint64(buf[b])) * _HASH_PRIME
                        if writes:
                            used = _emit(out, used, buf[b])
                        in_digits = False
                after_star = in_digits
            i = j
            continue
        if kind == _BLANK:
            pending_blank = used > 0 or h != _HASH_SEED
            i += 1
            continue
        if kind == _CONTROL:
            i = _skip_escape(buf, i, end) if c == _ESCAPE else i + 1
            continue
        next_is_number = i + 1 < end and (classes[buf[i + 1]] & _KIND) == _DIGIT
        next_is_star = i + 1 < end and buf[i + 1] == 42
        if kind == _JOINER and (next_is_number or next_is_star):
            if after_star and not pending_blank:
                i += 1
                if next_is_star:
                    i += 1
                continue
            if c == 45 or c == 43:
                i += 1
                continue
        if pending_blank:
            h = (h ^ _SPACE) * _HASH_PRIME
            pending_blank = False
            if writes:
                used = _emit(out, used, 32)
        h = (h ^ np.uint64(c)) * _HASH_PRIME
        after_star = c == 42
        if writes:
            used = _emit(out, used, c)
        i += 1
    return h, used


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


@njit(cache=True)  # type: ignore[untyped-decorator]
def _scan(
    buf: UInt8,
    size: int,
    at: int,
    number: int,
    host_prefix: bool,
    max_line: int,
    classes: UInt8,
    start: Int64,
    text_start: Int64,
    ends: Int64,
    numbers: Int64,
    prefix: UInt64,
    shape: UInt64,
    time_ns: Int64,
) -> tuple[int, int, int, int]:
    """Lines from `at` on, until the block or the room for lines ends: (lines, next offset, next number, cut lines)."""
    nothing = np.empty(0, dtype=np.uint8)
    row = 0
    cut = 0
    while at < size and row < start.size:
        end = at
        while end < size and buf[end] != _LINE_BREAK and buf[end] != _CARRIAGE_RETURN:
            end += 1
        stop = end
        if stop - at > max_line:
            stop = at + max_line
            cut += 1
        if stop > at:
            text, tags, when = _line_head(buf, at, stop, host_prefix)
            h, _ = _mask(buf, text, stop, classes, nothing)
            start[row], text_start[row], ends[row], numbers[row] = at, text, stop, number
            prefix[row], shape[row], time_ns[row] = tags, h, when
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
    count, at, number, cut = _scan(
        buf,
        size,
        at,
        number,
        host_prefix,
        max_line,
        _CLASS,
        longs[0],
        longs[1],
        longs[2],
        longs[3],
        hashes[0],
        hashes[1],
        longs[4],
    )
    lines = Lines(
        longs[0, :count],
        longs[1, :count],
        longs[2, :count],
        longs[3, :count],
        hashes[0, :count],
        hashes[1, :count],
        longs[4, :count],
    )
    return lines, int(at), int(number), int(cut)


def mask_text(text: bytes) -> bytes:
    """The shape of a text, with `*` where it varies."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    out = np.empty(max(len(text), 1), dtype=np.uint8)
    _, used = _mask(buf, 0, buf.size, _CLASS, out)
    return out[:used].tobytes()


def shape_hash(text: bytes) -> int:
    """The hash of the shape of a text, as `scan_block` computes it."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    h, _ = _mask(buf, 0, buf.size, _CLASS, np.empty(0, dtype=np.uint8))
    return int(h)
