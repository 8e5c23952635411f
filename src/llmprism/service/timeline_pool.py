"""The process that makes timelines: one, started again when it was killed."""

from __future__ import annotations

import logging
import multiprocessing.context
import threading
from collections.abc import Callable
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any, TypeVar

__all__ = ["TimelinePool"]

log = logging.getLogger(__name__)

Made = TypeVar("Made")


class TimelinePool:
    """`submit` as an executor does. A killed process fails the requests that were in it, and no later one."""

    def __init__(
        self, context: multiprocessing.context.BaseContext, initializer: Callable[..., None], arguments: tuple[Any, ...]
    ) -> None:
        self._context, self._initializer, self._arguments = context, initializer, arguments
        self._pool = self._made()
        self._lock = threading.Lock()

    def _made(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(1, self._context, initializer=self._initializer, initargs=self._arguments)

    def submit(self, work: Callable[..., Made], /, *arguments: Any) -> Future[Made]:
        with self._lock:
            try:
                return self._pool.submit(work, *arguments)
            except BrokenProcessPool:
                log.error("the process that makes timelines was killed and is started again")
                self._pool.shutdown(wait=False)
                self._pool = self._made()
                return self._pool.submit(work, *arguments)

    def shutdown(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)
