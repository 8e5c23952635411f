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
from numpy.typing import NDArray

from llmprism.arrays import Int32, UInt8, UInt64
from llmprism.kernel_cache import compiled

__all__ = [
    "BYTE_CLASSES",
    "ESCAPE",
    "HASH_PRIME",
    "HASH_SEED",
    "hash_masked",
    "mask_text",
    "mix_bytes",
    "shape_hash",
    "skip_escape",
]


_OTHER, _LETTER, _HEX, _DIGIT, _JOINER, _SIGN, _BLANK, _CONTROL, _SPECIAL, _WIDE = range(10)
_NEUTRAL, _BLANKED, _WORD, _HEX_WORD, _NUMBER, _JOINED, _SIGNED = range(0, 7 * 256, 256)
_STATE_BITS: Final = 0x700
_EMIT, _STAR, _BACK, _SAVE, _ONCE, _ODD = 0x800, 0x1000, 0x2000, 0x4000, 0x8000, 0x10000
"""What to do with a byte: take it in, take in `*`, go back to the saved state first, save the state first, not if the
byte before was the same, look closer (an escape sequence or a block character may begin)."""

_STAR_BYTE: Final = 42
ESCAPE: Final = 27
_BLOCK_1, _BLOCK_2 = 0xE2, 0x96
"""First bytes of the block characters U+2580 to U+25BF in UTF-8."""

HASH_SEED = np.uint64(0xCBF29CE484222325)
HASH_PRIME = np.uint64(0x9E3779B97F4A7C15)
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
        (bytes([ESCAPE, _BLOCK_1]), _SPECIAL),
    )
    for members, number in groups:
        for byte in members:
            classes[byte] = number
    return classes


def _actions(state: int) -> dict[int, int]:
    """The next state with the actions for every class of byte."""
    in_number = state == _NUMBER
    actions = {
        _OTHER: _NEUTRAL | _EMIT | _ONCE,
        _BLANK: _BLANKED if state == _BLANKED else _BLANKED | _EMIT,
        _SPECIAL: _NEUTRAL | _EMIT | _ODD,
        _WIDE: _NEUTRAL | _EMIT,
        _CONTROL: state,
        _LETTER: _NUMBER if in_number else _WORD | _EMIT,
        _HEX: _HEX_WORD | _EMIT | _SAVE,
        _JOINER: (_JOINED | _SAVE if in_number else _NEUTRAL) | _EMIT | _ONCE,
        _SIGN: (_JOINED if in_number else _SIGNED) | _EMIT | _ONCE | (0 if state == _SIGNED else _SAVE),
        _DIGIT: _NUMBER | _STAR,
    }
    if in_number:
        actions |= {_DIGIT: _NUMBER, _HEX: _NUMBER}
    elif state == _JOINED:
        actions[_DIGIT] = _NUMBER | _BACK
    elif state == _SIGNED:
        actions[_DIGIT] = _NUMBER | _STAR | _BACK
    elif state == _HEX_WORD:
        actions |= {_DIGIT: _NUMBER | _STAR | _BACK, _HEX: _HEX_WORD | _EMIT}
    elif state == _WORD:
        actions[_HEX] = _WORD | _EMIT
    return actions


def _transitions() -> Int32:
    """`table[state + byte]` is the next state with the actions for the byte."""
    classes = _byte_classes()
    rows = [[_actions(state)[int(number)] for number in classes] for state in range(0, 7 * 256, 256)]
    return np.array(rows, dtype=np.int32).ravel()


BYTE_CLASSES: UInt8 = _byte_classes()
_TABLE: Int32 = _transitions()
_UTABLE: NDArray[np.uint32] = _TABLE.astype(np.uint32)
_U_STATE, _U_TAKES, _U_STAR = np.uint32(_STATE_BITS), np.uint32(_EMIT | _STAR), np.uint32(_STAR)
_U_BACK, _U_SAVE, _U_ONCE, _U_ODD = np.uint32(_BACK), np.uint32(_SAVE), np.uint32(_ONCE), np.uint32(_ODD)


def _symbol_hashes() -> UInt64:
    """A well-mixed number per byte (splitmix64), so that the loop itself need not multiply."""
    hashes = np.empty(256, dtype=np.uint64)
    seed = 0
    for byte in range(256):
        seed = (seed + 0x9E3779B97F4A7C15) & (2**64 - 1)
        z = ((seed ^ (seed >> 30)) * 0xBF58476D1CE4E5B9) & (2**64 - 1)
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & (2**64 - 1)
        hashes[byte] = z ^ (z >> 31)
    hashes[9] = hashes[32]
    return hashes


_SYMBOLS: UInt64 = _symbol_hashes()
_STAR_HASH = np.uint64(_SYMBOLS[_STAR_BYTE])


@compiled
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
        while i < end and buf[i] != 7 and buf[i] != ESCAPE:
            i += 1
        return min(i + 1, end)
    return i + 1


@compiled
def mix_bytes(buf: UInt8, start: int, end: int, h: np.uint64) -> np.uint64:
    for k in range(start, end):
        h = (h ^ np.uint64(buf[k])) * HASH_PRIME
    return h


@compiled
def _after_special(buf: UInt8, i: int, end: int) -> int:
    """The offset after an escape sequence or a block character at `i`; `i` where it is neither."""
    if buf[i] == ESCAPE:
        return skip_escape(buf, i, end)
    if i + 2 < end and buf[i + 1] == _BLOCK_2:
        return i + 3
    return i


@compiled
def _trimmed_end(buf: UInt8, start: int, end: int, classes: UInt8) -> int:
    while end > start and (classes[buf[end - 1]] == _BLANK or classes[buf[end - 1]] == _CONTROL):
        end -= 1
    return end


@compiled
def hash_masked(buf: UInt8, start: int, end: int, classes: UInt8) -> np.uint64:
    """The hash of what `_mask` would write, without writing it; the choices are selects, not branches.

    Indices are unsigned: a signed one costs a test for negative values at every look-up.
    """
    h = saved = HASH_SEED
    state = np.uint32(_BLANKED)
    last = np.uint8(0)
    stop = np.uintp(_trimmed_end(buf, start, end, classes))
    i = np.uintp(start)
    while i < stop:
        c = buf[i]
        todo = _UTABLE[state + np.uint32(c)]
        if todo & _U_ODD:
            after = np.uintp(_after_special(buf, int(np.int64(i)), int(np.int64(stop))))
            if after > i:
                i = after
                continue
        i += np.uintp(1)
        base = saved if todo & _U_BACK else h
        saved = h if todo & _U_SAVE else saved
        mixed = ((base << _ROTATE) | (base >> _ROTATE_BACK)) + (_STAR_HASH if todo & _U_STAR else _SYMBOLS[c])
        keeps = (todo & _U_TAKES) == np.uint32(0) or (c == last and (todo & _U_ONCE) != np.uint32(0))
        h = base if keeps else mixed
        last = c
        state = todo & _U_STATE
    h = (h ^ (h >> np.uint64(32))) * HASH_PRIME
    return h ^ (h >> np.uint64(29))


@compiled
def _mask(buf: UInt8, start: int, end: int, classes: UInt8, out: UInt8) -> int:
    """The masked text into `out`, which has room for the text; its length. The same walk as `hash_masked`."""
    used = saved = 0
    state = _BLANKED
    last = 0
    end = _trimmed_end(buf, start, end, classes)
    i = start
    while i < end:
        c = int(buf[i])
        todo = _TABLE[state + c]
        after = _after_special(buf, i, end) if todo & _ODD else i
        if after > i:
            i = after
            continue
        i += 1
        before = used
        if todo & _BACK:
            used = saved
        if todo & _SAVE:
            saved = before
        if (todo & (_EMIT | _STAR)) != 0 and not (c == last and (todo & _ONCE) != 0):
            out[used] = _STAR_BYTE if todo & _STAR else 32 if classes[c] == _BLANK else c
            used += 1
        last = c
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
