"""The text of single lines of a block, for the few that are looked at as text; harmless of control bytes."""

from __future__ import annotations

import re
from typing import Final

from llmprism.arrays import UInt8
from llmprism.logs.scan import Lines
from llmprism.logs.shapes import FRAME_LINE, MAX_TEXT_CHARS

__all__ = ["is_quoted_code", "line_text", "printable_text"]

_QUOTED_REACH: Final = 200
"""Lines above a line of code within which its `File "..."` line is looked for."""

_ESCAPES: Final = re.compile(rb"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|.)")
_CONTROL_BYTES: Final = dict.fromkeys((*range(9), *range(11, 32), 127))


def printable_text(raw: bytes) -> str:
    """Text without escape sequences and control bytes, as the masking sees it."""
    return _ESCAPES.sub(b"", raw).decode("utf-8", "replace").translate(_CONTROL_BYTES)


def line_text(buf: UInt8, lines: Lines, row: int, *, tagged: bool = True) -> str:
    start = int(lines.start[row] if tagged else lines.text_start[row])
    return printable_text(bytes(buf[start : min(int(lines.end[row]), start + MAX_TEXT_CHARS)]))


def is_quoted_code(buf: UInt8, lines: Lines, row: int) -> bool:
    """Whether the line is source code under a `File "...", line N` line of the same writer."""
    if not line_text(buf, lines, row, tagged=False).startswith("    "):
        return False
    for back in range(row - 1, max(-1, row - _QUOTED_REACH), -1):
        if lines.prefix[back] != lines.prefix[row]:
            continue
        text = line_text(buf, lines, back, tagged=False)
        if FRAME_LINE.match(text):
            return True
        if not text.startswith("    "):
            return False
    return False
