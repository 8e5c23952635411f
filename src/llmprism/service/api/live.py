"""What the routes work with; put together by `runner`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final, Protocol

from llmprism.service.config import Config
from llmprism.service.history import History
from llmprism.service.intake import Intake
from llmprism.service.rules.configured import rules_of
from llmprism.service.source_clocks import clock_sentences
from llmprism.service.store import Store

__all__ = ["Live"]

RECENT_NS: Final = 900 * 10**9


class Timelines(Protocol):
    """Where timelines are made: an executor."""

    def submit(self, work: Callable[..., bytes], /, *arguments: Any) -> Future[bytes]: ...


class Live:
    """What the routes work with; put together by `runner`."""

    def __init__(
        self, config: Config, store: Store, intake: Intake, timelines: Timelines, troubles: Callable[[], list[str]]
    ) -> None:
        self.config = config
        self.store = store
        self.intake = intake
        self.history = History(store)
        self.timelines = timelines
        self.troubles = troubles
        self.started_s = time.time()
        self.stopping = asyncio.Event()
        self.in_flight: set[tuple[str, int | None]] = set()
        self.receiving = 0
        self.producers: set[str] = set()

    def clock_sentences(self) -> list[str]:
        """What is wrong with the clocks of sources that have sent something in the last minutes."""
        return clock_sentences(self.store.clocks().values(), time.time_ns(), RECENT_NS, rules_of(self.config))
