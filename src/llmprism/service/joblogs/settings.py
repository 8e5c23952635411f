"""The spools and tails that a configuration describes."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Final

from llmprism.service.config import Config
from llmprism.service.joblogs.explain import LogExplainer
from llmprism.service.joblogs.spool import LogSpool
from llmprism.service.joblogs.tail import LogTail
from llmprism.service.store import Store

__all__ = ["PUSHED", "TAILED", "JobLogs", "spool_of"]

PUSHED: Final = "pushed"
TAILED: Final = "tailed"
"""Folders of the spool; each is written by one process."""


def spool_of(config: Config, name: str) -> LogSpool:
    settings = config.job_logs
    return LogSpool(
        Path(config.store.folder) / "job_logs" / name,
        writer_bytes=int(settings.writer_mb * 1e6),
        total_bytes=int(settings.total_mb * 1e6) // 2,
        redactions=settings.redact,
    )


class JobLogs:
    """The evaluator's side: follows folders, and reads what is in the spool with every window's report."""

    def __init__(self, config: Config, store: Store) -> None:
        self._store = store
        self._keep_s = config.job_logs.keep_h * 3600
        spool = spool_of(config, TAILED)
        self._spool = spool
        self._tails = [LogTail(Path(folder), spool) for folder in config.job_logs.folders]
        root = Path(config.store.folder) / "job_logs"
        self.explainer = LogExplainer([root / PUSHED, root / TAILED])

    @classmethod
    def of(cls, config: Config, store: Store) -> JobLogs | None:
        """None where logs are switched off."""
        return cls(config, store) if config.job_logs.enabled else None

    def poll(self) -> None:
        """Take in what was appended to the followed files, and forget what is old."""
        for tail in self._tails:
            counts = [(name, reason, number) for (name, reason), number in tail.poll().items() if number]
            if counts:
                self._store.add_counts("job_logs:folder", counts)
        self._spool.forget(time.time() - self._keep_s)
