"""The pattern language of the fault library: a regular subset of Python's `re`, parsed to a small tree over bytes.

Literals, `.`, classes, `\\d \\w \\s` and their opposites, groups, `|`, `* + ? {m,n}`, `^` at the start, `$`, `(?i)` in
front. Nothing that needs memory of what was matched (back references, look-around, word boundaries), so every
pattern is a finite automaton and matching is linear in the text whatever a user writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from llmprism import limits
from llmprism.errors import FormatError

__all__ = ["LINE_END", "Choice", "Node", "Pattern", "Repeat", "Sequence", "Symbol", "parse_pattern", "without_numbers"]

ALL_BYTES: Final = (1 << 256) - 1
LINE_END: Final = 10
MAX_REPEAT: Final = 64
"""Largest count in `{m,n}`: each count is a copy of the states."""


@dataclass(frozen=True, slots=True)
class Symbol:
    """Any byte whose bit is set."""

    bytes: int
    literal_digit: bool = False


@dataclass(frozen=True, slots=True)
class Sequence:
    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    options: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    """`most` None: without end."""

    part: Node
    least: int
    most: int | None


Node = Symbol | Sequence | Choice | Repeat


@dataclass(frozen=True, slots=True)
class Pattern:
    """`at_start`: only at the start of the text. `$` is the byte LINE_END, which the matcher puts after the text."""

    root: Node
    at_start: bool = False


def _bits(values: bytes) -> int:
    bits = 0
    for value in values:
        bits |= 1 << value
    return bits


_DIGITS: Final = _bits(b"0123456789")
_WORD: Final = _bits(b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_")
_BLANKS: Final = _bits(b" \t\r\f\v")
_ANY: Final = ALL_BYTES & ~(1 << LINE_END)
_CLASS_ESCAPES: Final = {
    "d": _DIGITS,
    "D": _ANY & ~_DIGITS,
    "w": _WORD,
    "W": _ANY & ~_WORD,
    "s": _BLANKS,
    "S": _ANY & ~_BLANKS,
}
_CHAR_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r"}
_SPECIAL: Final = "()|*+?]{}^"


@dataclass(slots=True)
class _Parser:
    text: str
    fold_case: bool
    at: int = 0

    def fail(self, why: str) -> FormatError:
        return FormatError(f"pattern {self.text!r}: {why} (at character {self.at + 1})")

    def peek(self) -> str:
        return self.text[self.at] if self.at < len(self.text) else ""

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise self.fail("ends too early")
        self.at += 1
        return char

    def choice(self) -> Node:
        options = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            options.append(self.sequence())
        return options[0] if len(options) == 1 else Choice(tuple(options))

    def sequence(self) -> Node:
        parts: list[Node] = []
        while (char := self.peek()) and char not in "|)":
            parts.append(self.repeated())
        return parts[0] if len(parts) == 1 else Sequence(tuple(parts))

    def repeated(self) -> Node:
        part = self.atom()
        while (char := self.peek()) and char in "*+?{":
            self.at += 1
            if char == "{":
                least, most = self.counts()
            else:
                least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}[char]
            part = Repeat(part, least, most)
            if self.peek() == "?":
                self.at += 1
        return part

    def counts(self) -> tuple[int, int | None]:
        inside = ""
        while (char := self.take()) != "}":
            inside += char
        low, comma, high = inside.partition(",")
        if not low.isdigit() or (high and not high.isdigit()):
            raise self.fail(f"bad count {{{inside}}}")
        least = int(low)
        most = least if not comma else (int(high) if high else None)
        if max(least, most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise self.fail(f"count {{{inside}}} is not within {MAX_REPEAT}")
        return least, most

    def atom(self) -> Node:
        char = self.take()
        if char == "(":
            if self.peek() == "?":
                self.at += 1
                if self.take() != ":":
                    raise self.fail("only (?:...) groups are supported")
            inner = self.choice()
            if self.take() != ")":
                raise self.fail("missing )")
            return inner
        if char == "[":
            return Symbol(self.char_class())
        if char == ".":
            return Symbol(_ANY)
        if char == "$":
            return Symbol(1 << LINE_END)
        if char == "\\":
            return self.escape()
        if char in _SPECIAL:
            raise self.fail(f"unexpected {char!r}")
        return self.literal(char)

    def escape(self) -> Node:
        char = self.take()
        if char in _CLASS_ESCAPES:
            return Symbol(_CLASS_ESCAPES[char])
        if char in _CHAR_ESCAPES:
            return self.literal(_CHAR_ESCAPES[char])
        if char.isalnum():
            raise self.fail(f"\\{char} is not supported")
        return self.literal(char)

    def literal(self, char: str) -> Node:
        encoded = char.encode()
        if len(encoded) > 1:
            return Sequence(tuple(Symbol(1 << byte) for byte in encoded))
        bits = 1 << encoded[0]
        if self.fold_case and char.isalpha():
            bits |= _bits(char.lower().encode() + char.upper().encode())
        return Symbol(bits, literal_digit=char.isdigit())

    def char_class(self) -> int:
        negated = self.peek() == "^"
        if negated:
            self.at += 1
        bits = 0
        first = True
        while (char := self.take()) != "]" or first:
            first = False
            if char == "\\":
                escaped = self.take()
                if escaped in _CLASS_ESCAPES:
                    bits |= _CLASS_ESCAPES[escaped]
                    continue
                char = _CHAR_ESCAPES.get(escaped, escaped)
            if self.peek() == "-" and self.at + 1 < len(self.text) and self.text[self.at + 1] != "]":
                self.at += 1
                last = self.take()
                bits |= self.span(char, last)
                continue
            bits |= self.span(char, char)
        return _ANY & ~bits if negated else bits

    def span(self, low: str, high: str) -> int:
        if ord(low) > 127 or ord(high) > 127 or ord(high) < ord(low):
            raise self.fail(f"bad range {low}-{high}")
        values = bytes(range(ord(low), ord(high) + 1))
        if self.fold_case:
            values += values.lower() + values.upper()
        return _bits(values)


@lru_cache(maxsize=1 << 14)
def parse_pattern(text: str) -> Pattern:
    """The tree of a pattern; FormatError with the place where it is not in the language."""
    if len(text) > limits.MAX_LIBRARY_PATTERN_CHARS:
        raise FormatError(f"pattern of {len(text)} characters is longer than {limits.MAX_LIBRARY_PATTERN_CHARS}")
    fold_case = text.startswith("(?i)")
    body = text.removeprefix("(?i)")
    at_start = body.startswith("^")
    parser = _Parser(body.removeprefix("^"), fold_case)
    root = parser.choice()
    if parser.at < len(parser.text):
        raise parser.fail("unexpected )")
    return Pattern(root, at_start)


def without_numbers(pattern: Pattern) -> tuple[Pattern, bool]:
    """The pattern with any number where it names one, and whether it names one at all."""
    found = False

    def loosen(node: Node) -> Node:
        nonlocal found
        match node:
            case Symbol(literal_digit=True):
                found = True
                return Repeat(Symbol(_DIGITS), 1, None)
            case Sequence(parts):
                return Sequence(tuple(loosen(part) for part in parts))
            case Choice(options):
                return Choice(tuple(loosen(option) for option in options))
            case Repeat(part, least, most):
                return Repeat(loosen(part), least, most)
        return node

    root = _merge_number_runs(loosen(pattern.root))
    return Pattern(root, pattern.at_start), found


def _merge_number_runs(node: Node) -> Node:
    """`[0-9]+[0-9]+` → `[0-9]+`, so that `79` loosened also stands for one digit."""
    any_number = Repeat(Symbol(_DIGITS), 1, None)
    match node:
        case Sequence(parts):
            merged: list[Node] = []
            for part in map(_merge_number_runs, parts):
                if part == any_number and merged and merged[-1] == any_number:
                    continue
                merged.append(part)
            return Sequence(tuple(merged))
        case Choice(options):
            return Choice(tuple(map(_merge_number_runs, options)))
        case Repeat(part, least, most):
            return Repeat(_merge_number_runs(part), least, most)
    return node
