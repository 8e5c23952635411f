"""What varies in a line becomes `*`; the rest is its shape. Numba kernels that mask, and that hash without masking.

Byte by byte:

- a run of letters, digits and `_` that begins with a digit, or is six or more hexadecimal digits, is `*`;
- in any other run that holds digits the digits become `*` and the letters stay (`node0400` → `node*`);
- `*` joined by one of `. , : - / +` to a following number is one `*` (`1.5e-05`, `10.0.0.1:80`, `2026-11-15`);
- a sign before a number vanishes; blanks, and the same punctuation in a row, count once (`-----`, `====>`);
- ANSI escape sequences, control bytes and the block characters of progress bars do not exist.

Invariant: two texts with the same mask have the same hash.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["BYTE_CLASSES", "hash_masked", "mask_text", "mix_bytes", "shape_hash", "skip_escape"]

UInt8 = NDArray[np.uint8]

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


BYTE_CLASSES: UInt8 = _byte_classes()
_KIND = 7
_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x9E3779B97F4A7C15)
_STAR_BYTE = 42
_BLOCK_1, _BLOCK_2 = 0xE2, 0x96
"""First bytes of the block characters U+2580 to U+25BF in UTF-8."""

_SPACE = np.uint64(32)
_MIN_HEX_RUN = 6
"""Bytes. A letter-first run this long of hexadecimal digits only, with a digit in it, is an identifier."""

_ESCAPE = 27


@njit(cache=True)
def skip_escape(buf: UInt8, i: int, end: int) -> int:
    """The offset after the escape sequence at `i`: CSI to its final byte, OSC to BEL or ST, else two bytes."""
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


@njit(cache=True)
def mix_bytes(buf: UInt8, start: int, end: int, h: np.uint64) -> np.uint64:
    for k in range(start, end):
        h = (h ^ np.uint64(buf[k])) * _HASH_PRIME
    return h


@njit(cache=True)
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


@njit(cache=True)
def _mask(buf: UInt8, start: int, end: int, classes: UInt8, out: UInt8) -> int:  # noqa: C901 (one state machine)
    """The masked text into `out`; its length. `hash_masked` walks the same way and must change with it."""
    used = 0
    i = start
    in_word = after_star = blank = False
    last = 0
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
                i = skip_escape(buf, i, end) if c == _ESCAPE else i + 1
                continue
            if c == _BLOCK_1 and i + 2 < end and buf[i + 1] == _BLOCK_2:
                i += 3
                continue
            joins = kind == _JOINER and i + 1 < end and (48 <= buf[i + 1] <= 57 or buf[i + 1] == _STAR_BYTE)
            if (joins and ((after_star and not blank) or c == 45 or c == 43)) or (c == last and not blank):
                i += 1
                continue
        if blank:
            used = _emit(out, used, 32)
            blank = after_star = False
        if symbol != _STAR_BYTE or not after_star:
            used = _emit(out, used, symbol)
        after_star = symbol == _STAR_BYTE
        last = 0 if in_word or after_star else int(symbol)
        i = after
    return used


@njit(cache=True)
def _emit(out: UInt8, used: int, byte: int) -> int:
    if used < out.size:
        out[used] = byte
        return used + 1
    return used


@njit(cache=True, inline="always")
def _stir(h: np.uint64, gathered: np.uint64) -> np.uint64:
    h = (h ^ gathered) * _HASH_PRIME
    return h ^ (h >> np.uint64(29))


@njit(cache=True)
def hash_masked(buf: UInt8, start: int, end: int, classes: UInt8) -> np.uint64:  # noqa: C901 (one hot loop)
    """The hash of what `_mask` would write, without writing it: eight bytes are gathered per multiplication.

    Runs of letters and of digits have loops of their own, because most bytes are in them.
    """
    h = _HASH_SEED
    gathered = np.uint64(0)
    held = 0
    i = start
    in_word = after_star = blank = begun = False
    last = 0
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
                i = skip_escape(buf, i, end) if c == _ESCAPE else i + 1
                continue
            if c == _BLOCK_1 and i + 2 < end and buf[i + 1] == _BLOCK_2:
                i += 3
                continue
            joins = kind == _JOINER and i + 1 < end and (48 <= buf[i + 1] <= 57 or buf[i + 1] == _STAR_BYTE)
            if (joins and ((after_star and not blank) or c == 45 or c == 43)) or (c == last and not blank):
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
            last = 0
            continue
        if star:
            last = 0
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
        last = 0 if after_star else int(c)
    h = _stir(h, gathered)
    return _stir(h, np.uint64(held))


def mask_text(text: bytes) -> bytes:
    """The shape of a text, with `*` where it varies."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    out = np.empty(max(len(text), 1), dtype=np.uint8)
    return out[: _mask(buf, 0, buf.size, BYTE_CLASSES, out)].tobytes()


def shape_hash(text: bytes) -> int:
    """The hash of the shape of a text, as `scan_block` computes it."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    return int(hash_masked(buf, 0, buf.size, BYTE_CLASSES))
