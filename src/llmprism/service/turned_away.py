"""Sources whose bodies were turned away for want of room: they come again, and windows wait for them.

Room that comes and goes is enough for a small body and not for a large one. While others are stored, time goes on, and
the jobs of those who were turned away seem silent.
"""

from __future__ import annotations

import threading
from collections.abc import Set as AbstractSet
from dataclasses import replace

from llmprism.service.clock_of_source import Clock, Key

__all__ = ["TurnedAway"]


class TurnedAway:
    """`add` from any thread. A source is waited for from when the first of the others is stored, as long as one that
    catches up, until it is stored itself."""

    def __init__(self) -> None:
        self._since: dict[str, int] = {}
        self._lock = threading.Lock()

    def add(self, source: str) -> None:
        with self._lock:
            self._since.setdefault(source, 0)

    def came_back(self, sources: AbstractSet[str]) -> None:
        with self._lock:
            for source in sources:
                self._since.pop(source, None)

    def waited_for(self, clocks: dict[Key, Clock], stored: AbstractSet[str], wall_ns: int) -> dict[Key, Clock]:
        """The clocks while these sources are stored at this time, with those that are waited for."""
        with self._lock:
            for source in self._since.keys() - stored:
                self._since[source] = self._since[source] or wall_ns
            waiting = {source: since for source, since in self._since.items() if since}
        if not waiting:
            return clocks
        return {
            key: replace(clock, waits_since_ns=waiting[clock.source]) if clock.source in waiting else clock
            for key, clock in clocks.items()
        }
