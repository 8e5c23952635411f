"""Units of time. All times are whole numbers of nanoseconds."""

from __future__ import annotations

from typing import Final

__all__ = ["MILLISECOND", "SECOND"]

MILLISECOND: Final = 1_000_000
SECOND: Final = 1_000_000_000
