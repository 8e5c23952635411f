"""The pattern language of the fault library, and one matcher for all patterns at once.

Patterns are regular expressions of RE2: whatever a user writes is matched in time linear in the text and in bounded
memory, which back-tracking matchers cannot promise. Nothing that needs memory of what was matched (back references,
look-around) is part of it. docs/decisions/log-patterns.md says why it is RE2.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, Final

import re2

from llmprism import limits
from llmprism.errors import FormatError

__all__ = ["PatternSet", "check_pattern", "without_numbers"]

_PATTERN_BYTES: Final = 1 << 20
"""Memory that one pattern may take: nested counts that need more are a mistake or an attack."""

_SET_BYTES: Final = 1 << 28
"""Memory of all patterns together: a thousand take some megabytes, the states they meet some ten."""

_PIECE: Final = re.compile(r"\\.|\[(?:\\.|[^\]\\])(?:\\.|[^\]\\])*\]|\{\d*,?\d*\}|\d+|\(\?[a-zA-Z]*[:)]|.", re.S)


def _options(max_bytes: int) -> Any:
    options = re2.Options()
    options.max_mem = max_bytes
    options.log_errors = False
    return options


@lru_cache(maxsize=1 << 14)
def check_pattern(text: str) -> str:
    """The pattern itself; FormatError with the reason where it is not in the language."""
    if len(text) > limits.MAX_LIBRARY_PATTERN_CHARS:
        raise FormatError(f"pattern of {len(text)} characters is longer than {limits.MAX_LIBRARY_PATTERN_CHARS}")
    try:
        re2.compile(text, _options(_PATTERN_BYTES))
    except re2.error as error:
        reason = error.args[0] if error.args else "not a regular expression"
        reason = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else str(reason)
        raise FormatError(f"pattern {text!r}: {reason}") from error
    return text


def without_numbers(pattern: str) -> tuple[str, bool]:
    """The pattern with any number where it names one, and whether it names one at all."""
    found = False
    parts: list[str] = []
    for piece in _PIECE.findall(pattern):
        if piece.isdigit():
            found = True
            parts.append(r"\d+")
        else:
            parts.append(piece)
    return "".join(parts), found


class PatternSet:
    """Which of these patterns occur in a text."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._set = re2.Set.SearchSet(_options(_SET_BYTES))
        self._size = 0
        for pattern in patterns:
            self._set.Add(check_pattern(pattern))
            self._size += 1
        if self._size:
            self._set.Compile()

    def matches(self, text: bytes) -> set[int]:
        """Positions, in the list given, of the patterns that occur in the text."""
        return set(self._set.Match(text) or ()) if self._size else set()
