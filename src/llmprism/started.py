"""The moment at which this process began to load the package: source files that are newer are not the ones it runs."""

from __future__ import annotations

import time
from typing import Final

__all__ = ["STARTED_AT"]

STARTED_AT: Final = time.time()
"""Seconds since the epoch, as the modification times of files are."""
