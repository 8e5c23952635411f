"""What varies in a line becomes `*`; the rest is its shape. One table drives the masking and the hashing.

A line is walked byte by byte through a small table of states, so that the loop has hardly a branch to mispredict. What
turns out to be part of a number after it was taken in (a sign, a joiner, the letters `deadbeef` of an identifier) is
taken back: the state before it was saved. The rules:

- a run of letters, digits and `_` that begins with a digit is `*`, and so is one whose letters before its first digit
  are all hexadecimal (`0x7f2d`, `a3f9`, `deadbeef12`);
- any other run with a digit keeps its letters before the digit: `node0400` → `node*`, `conv2d` → `conv*`;
- `*` joined by one of `. , : / - +` to a following number is one `*` (`1.5e-05`, `10.0.0.1:80`, `2026-11-15`);
- a sign before a number vanishes; blanks, and the same punctuation in a row, count once (`-----`, `====>`);
- ANSI escape sequences, control bytes and the block characters of progress bars do not exist.

Invariant: two texts with the same mask have the same hash.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numba import njit
from numpy.typing import NDArray

__all__ = ["BYTE_CLASSES", "hash_masked", "mask_text", "mix_bytes", "shape_hash", "skip_escape"]

UInt8 = NDArray[np.uint8]
Int32 = NDArray[np.int32]
UInt64 = NDArray[np.uint64]

_OTHER, _LETTER, _HEX, _DIGIT, _JOINER, _SIGN, _BLANK, _CONTROL, _SPECIAL, _WIDE = range(10)
_NEUTRAL, _WORD, _HEX_WORD, _NUMBER, _JOINED, _SIGNED = range(0, 96, 16)
_STATE_BITS: Final = 0x70
_EMIT, _STAR, _BACK, _SAVE = 128, 256, 512, 1024
"""What to do with a byte: take it in, take in `*`, go back to the saved state first, save the state first."""

_STAR_BYTE: Final = 42
_ESCAPE: Final = 27
_BLOCK_1, _BLOCK_2 = 0xE2, 0x96
"""First bytes of the block characters U+2580 to U+25BF in UTF-8."""

_HASH_SEED = np.uint64(0xCBF29CE484222325)
_HASH_PRIME = np.uint64(0x9E3779B97F4A7C15)
_ROTATE, _ROTATE_BACK = np.uint64(7), np.uint64(57)


def _byte_classes() -> UInt8:
    classes = np.full(256, _OTHER, dtype=np.uint8)
    classes[0:32] = _CONTROL
    classes[127] = _CONTROL
    classes[128:] = _WIDE
    groups = (
        (b"ghijklmnopqrstuvwxyzGHIJKLMNOPQRSTUVWXYZ_", _LETTER),
        (b"abcdefABCDEF", _HEX),
        (b"0123456789", _DIGIT),
        (b".,:/", _JOINER),
        (b"-+", _SIGN),
        (b" \t", _BLANK),
        (bytes([_ESCAPE, _BLOCK_1]), _SPECIAL),
    )
    for members, number in groups:
        for byte in members:
            classes[byte] = number
    return classes


def _transitions() -> Int32:
    """`table[state | class]` is the next state with the actions for the byte; states are multiples of 16."""
    table = np.zeros(96, dtype=np.int32)
    for state in range(0, 96, 16):
        in_number = state == _NUMBER
        after_star = state == _JOINED
        in_word = state in (_WORD, _HEX_WORD)
        row = {
            _OTHER: _NEUTRAL | _EMIT,
            _BLANK: _NEUTRAL | _EMIT,
            _SPECIAL: _NEUTRAL | _EMIT,
            _WIDE: _NEUTRAL | _EMIT,
            _CONTROL: state,
            _LETTER: _NUMBER if in_number else _WORD | _EMIT,
            _HEX: _NUMBER if in_number else state | _EMIT if in_word else _HEX_WORD | _EMIT | _SAVE,
            _JOINER: _JOINED | _EMIT | _SAVE if in_number else _NEUTRAL | _EMIT,
            _SIGN: (_JOINED if in_number else _SIGNED) | _EMIT | (0 if state == _SIGNED else _SAVE),
            _DIGIT: _NUMBER | _STAR,
        }
        if in_number:
            row[_DIGIT] = _NUMBER
        elif after_star:
            row[_DIGIT] = _NUMBER | _BACK
        elif state in (_HEX_WORD, _SIGNED):
            row[_DIGIT] = _NUMBER | _STAR | _BACK
        for number, action in row.items():
            table[state | number] = action
    return table


BYTE_CLASSES: UInt8 = _byte_classes()
_TABLE: Int32 = _transitions()


def _symbol_hashes() -> UInt64:
    """A well-mixed number per byte (splitmix64), so that the loop itself need not multiply."""
    hashes = np.empty(256, dtype=np.uint64)
    seed = 0
    for byte in range(256):
        seed = (seed + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        hashes[byte] = z ^ (z >> 31)
    return hashes


_SYMBOLS: UInt64 = _symbol_hashes()
_STAR_HASH = np.uint64(_SYMBOLS[_STAR_BYTE])


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
def _after_special(buf: UInt8, i: int, end: int) -> int:
    """The offset after an escape sequence or a block character at `i`; `i` where it is neither."""
    if buf[i] == _ESCAPE:
        return skip_escape(buf, i, end)
    if i + 2 < end and buf[i + 1] == _BLOCK_2:
        return i + 3
    return i


@njit(cache=True)
def _trimmed_end(buf: UInt8, start: int, end: int, classes: UInt8) -> int:
    while end > start and (classes[buf[end - 1]] == _BLANK or classes[buf[end - 1]] == _CONTROL):
        end -= 1
    return end


@njit(cache=True)
def hash_masked(buf: UInt8, start: int, end: int, classes: UInt8) -> np.uint64:
    """The hash of what `_mask` would write, without writing it; the choices are selects, not branches."""
    h = saved = _HASH_SEED
    state = _NEUTRAL
    last = 32
    end = _trimmed_end(buf, start, end, classes)
    i = start
    while i < end:
        c = int(buf[i])
        kind = int(classes[c])
        if kind == _SPECIAL:
            after = _after_special(buf, i, end)
            if after > i:
                i = after
                continue
        i += 1
        todo = _TABLE[state | kind]
        symbol = 32 if kind == _BLANK else c
        again = symbol == last and (kind == _OTHER or _JOINER <= kind <= _BLANK)
        base = saved if todo & _BACK else h
        saved = h if todo & _SAVE else saved
        mixed = ((base << _ROTATE) | (base >> _ROTATE_BACK)) + (_STAR_HASH if todo & _STAR else _SYMBOLS[symbol])
        takes = (todo & _STAR) != 0 or ((todo & _EMIT) != 0 and not again)
        h = mixed if takes else base
        last = last if kind == _CONTROL else symbol
        state = todo & _STATE_BITS
    h = (h ^ (h >> np.uint64(32))) * _HASH_PRIME
    return h ^ (h >> np.uint64(29))


@njit(cache=True)
def _mask(buf: UInt8, start: int, end: int, classes: UInt8, out: UInt8) -> int:
    """The masked text into `out`, which has room for the text; its length. The same walk as `hash_masked`."""
    used = saved = 0
    state = _NEUTRAL
    last = 32
    end = _trimmed_end(buf, start, end, classes)
    i = start
    while i < end:
        c = int(buf[i])
        kind = int(classes[c])
        after = _after_special(buf, i, end) if kind == _SPECIAL else i
        if after > i:
            i = after
            continue
        i += 1
        todo = _TABLE[state | kind]
        symbol = 32 if kind == _BLANK else c
        again = symbol == last and (kind == _OTHER or _JOINER <= kind <= _BLANK)
        before = used
        if todo & _BACK:
            used = saved
        if todo & _SAVE:
            saved = before
        if todo & _STAR or (todo & _EMIT and not again):
            out[used] = _STAR_BYTE if todo & _STAR else symbol
            used += 1
        last = last if kind == _CONTROL else symbol
        state = todo & _STATE_BITS
    return used


def mask_text(text: bytes) -> bytes:
    """The shape of a text, with `*` where it varies."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    out = np.empty(len(text) + 1, dtype=np.uint8)
    return out[: _mask(buf, 0, buf.size, BYTE_CLASSES, out)].tobytes()


def shape_hash(text: bytes) -> int:
    """The hash of the shape of a text, as `scan_block` computes it."""
    buf: UInt8 = np.frombuffer(text, dtype=np.uint8)
    return int(hash_masked(buf, 0, buf.size, BYTE_CLASSES))
