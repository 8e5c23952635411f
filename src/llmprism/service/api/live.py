"""What the routes work with; put together by `runner`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor

from llmprism.service.config import Config
from llmprism.service.history import History
from llmprism.service.intake import Intake
from llmprism.service.store import Store

__all__ = ["Live"]


class Live:
    """What the routes work with; put together by `runner`."""

    def __init__(
        self, config: Config, store: Store, intake: Intake, workers: Executor, troubles: Callable[[], list[str]]
    ) -> None:
        self.config = config
        self.store = store
        self.intake = intake
        self.history = History(store)
        self.workers = workers
        self.troubles = troubles
        self.started_s = time.time()
        self.stopping = asyncio.Event()
        self.in_flight: set[tuple[str, str]] = set()
