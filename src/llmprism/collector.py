"""Python's search for garbage, paused."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["collector_paused"]


@contextmanager
def collector_paused() -> Iterator[None]:
    """A run makes a million lasting objects (modules, names, paths) and hardly a cycle: to look for garbage among them
    again and again takes seconds."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()
