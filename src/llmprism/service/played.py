"""Store, intake and evaluator in one process, on a clock that runs with the records and not with the world's.

Windows are made when they are due by the records that have been taken in, however fast these are played: for the
compiler (`compile_ahead`) and for benchmarks of what each part costs.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence

from llmprism.service.config import Config
from llmprism.service.evaluator import Evaluator
from llmprism.service.intake import Intake, Payload
from llmprism.service.store import Store

__all__ = ["PlayedService"]


class PlayedService:
    """`take_in` records, then `make_windows` that are due; `stop_intake` at the end."""

    def __init__(self, config: Config, begin_ns: int) -> None:
        self._now_ns = begin_ns
        self.store = Store(config.store)
        self.store.create()
        self._intake = Intake(self.store, config, lambda: self._now_ns)
        self._worker = threading.Thread(target=self._intake.run, daemon=True)
        self._worker.start()
        self.evaluator = Evaluator(self.store, config, lambda: self._now_ns)

    def take_in(self, payloads: Sequence[Payload], now_ns: int) -> float:
        """CPU seconds until all of them, which come at that time, are stored."""
        self._now_ns = now_ns
        begun = time.process_time()
        for future in [self._intake.put(payload, wait=True) for payload in payloads]:
            future.result()
        return time.process_time() - begun

    def make_windows(self) -> tuple[int, float]:
        """How many windows were due, and the CPU seconds that they took."""
        begun, made = time.process_time(), 0
        while self.evaluator.advance():
            made += 1
        return made, time.process_time() - begun

    def stop_intake(self) -> None:
        self._intake.stop()
        self._worker.join()
