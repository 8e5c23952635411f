"""Threads that must not end: each is started again when it fails, and what is wrong with it is said.

A part that fails (a full disk, a broker that answers nonsense, a bug) is started again after a pause that doubles up to
half a minute. Until it has worked for a while its failure is one of the service's troubles, so that `/readyz` says 503.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

__all__ = ["Supervisor"]

log = logging.getLogger(__name__)

FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 30.0
HEALED_S: Final = 10.0
"""A part that has run for so long after its failure works again."""


@dataclass(slots=True)
class _SupervisedThread:
    thread: threading.Thread
    trouble: str = ""
    failures: int = 0
    started_s: float = 0.0
    is_running: bool = False


class Supervisor:
    """`start` any number of parts; each ends when `stop` is set and it returns."""

    def __init__(self, stop: threading.Event, now_s: Callable[[], float] = time.monotonic) -> None:
        self._stop = stop
        self._now_s = now_s
        self._parts: dict[str, _SupervisedThread] = {}

    def start(self, name: str, work: Callable[[], None]) -> None:
        thread = threading.Thread(target=self._watch, args=(name, work), name=name, daemon=True)
        self._parts[name] = _SupervisedThread(thread)
        thread.start()

    def _watch(self, name: str, work: Callable[[], None]) -> None:
        part = self._parts[name]
        pause = FIRST_PAUSE_S
        while True:
            part.started_s, part.is_running = self._now_s(), True
            try:
                work()
                reason = "it ended by itself"
            except Exception as error:
                reason = f"{type(error).__name__}: {error}"[:200]
                log.exception("a part of the service failed and is started again", extra={"part": name})
            part.is_running = False
            if self._stop.is_set():
                return
            if self._now_s() - part.started_s > HEALED_S:
                pause = FIRST_PAUSE_S
            part.failures += 1
            part.trouble = f"{name} failed and is started again ({reason})"
            if self._stop.wait(pause):
                return
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def troubles(self) -> list[str]:
        """Sentences on the parts that do not work now."""
        now = self._now_s()
        return [
            part.trouble
            for part in self._parts.values()
            if part.trouble and not (part.is_running and now - part.started_s > HEALED_S)
        ]

    @property
    def failures(self) -> int:
        return sum(part.failures for part in self._parts.values())

    def join(self, deadline_s: float) -> None:
        for part in self._parts.values():
            part.thread.join(max(0.1, deadline_s - self._now_s()))
