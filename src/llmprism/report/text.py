"""Text for people: hostile characters made visible, units, times and sparklines.

Addresses, server names and switch names come from outside. `clean` turns every character that a terminal or a
bidirectional text engine would act on into a visible escape, so that no name can move the cursor, colour the screen
or reverse a line. Every other function returns text made of characters that need no cleaning.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from datetime import UTC, datetime
from itertools import pairwise
from typing import Final

__all__ = ["clean", "count", "data_size", "duration", "moment", "percent", "plural", "rate", "significant", "sparkline"]

_ACTIVE_CATEGORIES: Final = frozenset({"Cc", "Cf", "Cs", "Co", "Zl", "Zp"})
"""Unicode categories that render as an action and not as a glyph: controls, bidi marks, surrogates, separators."""

_EPOCH_NS: Final = 946_684_800 * 10**9
"""2000-01-01: stamps before it are a simulation's own clock, not calendar time."""

_BLOCKS: Final = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS: Final = "_.-=+*%#"

_DURATIONS: Final = (
    (86_400 * 10**9, "d"),
    (3_600 * 10**9, "h"),
    (60 * 10**9, "min"),
    (10**9, "s"),
    (10**6, "ms"),
    (10**3, "µs"),
)
_SIZES: Final = ((10**18, "EB"), (10**15, "PB"), (10**12, "TB"), (10**9, "GB"), (10**6, "MB"), (10**3, "kB"))


def clean(text: str, limit: int | None = None) -> str:
    """`text` with every active character escaped, cut to `limit` characters with an ellipsis."""
    if not (text.isascii() and text.isprintable()):
        text = "".join(_visible(character) for character in text)
    if limit is not None and len(text) > limit:
        return text[: limit - 1] + "…"
    return text


def _visible(character: str) -> str:
    if unicodedata.category(character) not in _ACTIVE_CATEGORIES:
        return character
    code = ord(character)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def significant(value: float, digits: int = 3) -> str:
    """A number with so many significant digits, without exponent, with thousands separators where it is large."""
    if not math.isfinite(value):
        return "?"
    if value == 0:
        return "0"
    magnitude = math.floor(math.log10(abs(value)))
    decimals = max(0, digits - 1 - magnitude)
    if magnitude < -6:
        return f"{value:.{digits - 1}e}"
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def count(number: int) -> str:
    return f"{number:,}"


def plural(number: int, noun: str, many: str | None = None) -> str:
    return f"{number:,} {noun if number == 1 else many or noun + 's'}"


def percent(share: float) -> str:
    return f"{significant(100 * share, 2)} %"


def duration(nanoseconds: float) -> str:
    """`1.25 s`, `310 ms`, `2.1 h`: three significant digits in the unit that fits."""
    return _scaled(nanoseconds, _DURATIONS, "ns")


def data_size(number: float) -> str:
    return _scaled(number, _SIZES, "B")


def rate(gigabits_per_second: float) -> str:
    if 0 < gigabits_per_second < 1:
        return f"{significant(gigabits_per_second * 1000)} Mb/s"
    return f"{significant(gigabits_per_second)} Gb/s"


def _scaled(value: float, units: Sequence[tuple[int, str]], base: str) -> str:
    for size, unit in units:
        if abs(value) >= size:
            return f"{significant(value / size)} {unit}"
    return f"{significant(value)} {base}"


def moment(time_ns: int, origin_ns: int, *, date: bool = False) -> str:
    """A time of day in UTC with milliseconds, or the offset from `origin_ns` where stamps are not calendar time."""
    if time_ns < _EPOCH_NS or time_ns >= 2**63:
        return f"+{duration(max(0, time_ns - origin_ns))}"
    seconds, rest = divmod(time_ns, 10**9)
    when = datetime.fromtimestamp(seconds, UTC)
    text = f"{when:%H:%M:%S}.{rest // 10**6:03d}"
    return f"{when:%Y-%m-%d} {text} UTC" if date else f"{text} UTC"


def sparkline(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """One character per value; with more values than `width`, the largest of each stretch, so that no peak is lost.

    The scale runs from half the smallest value to at least twice it: steady values lie low and flat, whatever they are,
    and a doubled one reaches the top.
    """
    levels = _ASCII_LEVELS if ascii_only else _BLOCKS
    if not values or width <= 0:
        return ""
    columns = min(width, len(values))
    edges = [round(column * len(values) / columns) for column in range(columns + 1)]
    peaks = [max(values[low:high]) for low, high in pairwise(edges)]
    floor, top = min(values) / 2, max(*peaks, 2 * min(values))
    if top <= floor:
        return levels[0] * columns
    return "".join(levels[round((peak - floor) / (top - floor) * (len(levels) - 1))] for peak in peaks)
