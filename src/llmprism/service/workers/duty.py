"""What one worker at a time does for all: send alerts, expire and merge segments, sweep what dead workers left."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, Final

import duckdb

from llmprism.errors import ConfigError, StoreError
from llmprism.service.alerts import AlertSender
from llmprism.service.config import Config
from llmprism.service.upkeep import INTERVAL_S, Upkeep
from llmprism.service.workers.locks import DUTY, HeldLocks, name_lock
from llmprism.service.workers.shared_store import SharedStore

__all__ = ["Duty"]

log = logging.getLogger(__name__)

POLL_S: Final = 1.0
NAME_PATIENCE_S: Final = 30.0
"""How long a restarted worker waits until the database has noticed the end of its predecessor."""


class Duty:
    """`claim_name` once, then `run` in a thread of its own until `stop` is set. `describe` tells what it does."""

    def __init__(
        self,
        store: SharedStore,
        config: Config,
        describe: Callable[[], Mapping[str, Any]] = dict,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._describe = describe
        self._alerts = AlertSender(config.alerts, store)
        self._upkeep = Upkeep(store, config)
        self._now_s = now_s
        self._locks = HeldLocks(store.engine)
        self._due_s = now_s() + INTERVAL_S

    def claim_name(self, patience_s: float = NAME_PATIENCE_S) -> None:
        """Two workers of one name would clear away each other's files. Raises ConfigError where there is another."""
        deadline = self._now_s() + patience_s
        while not self._locks.hold(name_lock(self._store.name)):
            if self._now_s() > deadline:
                raise ConfigError(f"workers.name: another worker named {self._store.name} is running")
            time.sleep(0.2)

    def run(self, stop: threading.Event) -> None:
        while not stop.wait(POLL_S):
            try:
                self.once()
            except (StoreError, OSError, duckdb.Error) as error:
                log.warning("duties wait", extra={"reason": str(error)})
        self._locks.release()

    def once(self) -> bool:
        """Says what this worker does; True where it is on duty."""
        self._store.greet("intake", self._describe())
        self._locks.hold(name_lock(self._store.name))
        if not self._locks.hold(DUTY):
            return False
        self._alerts.send_due()
        self._alerts.repeat_open()
        if self._now_s() >= self._due_s:
            self._due_s = self._now_s() + INTERVAL_S
            self._upkeep.once()
            swept = self._store.sweep()
            if swept:
                log.info("segments without a row removed", extra={"segments": swept})
        return True
