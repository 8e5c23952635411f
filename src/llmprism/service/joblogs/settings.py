"""The spools and tails that a configuration describes.

Every process that takes lines in writes a spool of its own, under a name of its own: the ways are `pushed` (HTTP),
`kafka` and `tailed` (followed folders), with the worker's name after an `@` where several share the store's folder.
Whoever makes the windows reads all of them.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from llmprism.service.config import Config
from llmprism.service.joblogs.documents import log_documents
from llmprism.service.joblogs.explain import LogExplainer
from llmprism.service.joblogs.late import LateCauses
from llmprism.service.joblogs.spool import LogSpool
from llmprism.service.joblogs.tail import LogTail
from llmprism.service.looks import Look
from llmprism.service.store import Store

__all__ = ["KAFKA", "PUSHED", "TAILED", "JobLogs", "spool_of", "spools_folder"]

PUSHED: Final = "pushed"
TAILED: Final = "tailed"
KAFKA: Final = "kafka"

SWEEP_S: Final = 600.0
"""How often spools of workers that are gone are looked through for what is too old."""


def spools_folder(config: Config) -> Path:
    return Path(config.store.folder) / "job_logs"


def spool_of(config: Config, way: str) -> LogSpool:
    """The spool of one way into this process; the room of all is divided among the ways that are in use."""
    settings = config.job_logs
    ways = 1 + bool(settings.folders) + bool(settings.kafka)
    # a followed folder is seen by all workers, and whoever leads follows it: its spool is the same for all
    worker = f"@{config.workers.name}" if config.workers.enabled and way != TAILED else ""
    return LogSpool(
        spools_folder(config) / f"{way}{worker}",
        writer_bytes=int(settings.writer_mb * 1e6),
        total_bytes=int(settings.total_mb * 1e6) // ways,
        redactions=settings.redact,
        keep_s=settings.keep_h * 3600,
    )


class JobLogs:
    """The side of whoever makes the windows: follows folders, and reads all spools with every window's report."""

    def __init__(self, config: Config, store: Store) -> None:
        self._store = store
        self._keep_s = config.job_logs.keep_h * 3600
        self._root = spools_folder(config)
        spool = spool_of(config, TAILED) if config.job_logs.folders else None
        self._tails = [LogTail(Path(folder), spool) for folder in config.job_logs.folders] if spool else []
        self._swept_s = time.monotonic()
        self.explainer = LogExplainer(self._root)
        self.late = LateCauses(self.explainer)
        self._documents: dict[str, str] = {}

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
        if time.monotonic() - self._swept_s >= SWEEP_S:
            self._swept_s = time.monotonic()
            self._sweep(time.time() - self._keep_s)

    def explained(self, look: Look) -> Look:
        """The look with its findings explained by the logs that are there."""
        found = self.explainer.explain(look.report)
        self.late.explained()
        return replace(look, report=found.report, withdrawn=found.withdrawn)

    def changed_documents(
        self, looks: Sequence[Look], followed: Sequence[Mapping[str, str]]
    ) -> dict[str, dict[str, Any]]:
        """Run → how its logs were read, where it differs from the last time that this process has written it."""
        made = log_documents(looks, followed)
        texts = {run: json.dumps(document) for run, document in made.items()}
        prints = {run: hashlib.sha256(text.encode()).hexdigest() for run, text in texts.items()}
        changed = {run: made[run] for run, print_ in prints.items() if self._documents.get(run) != print_}
        self._documents |= prints
        return changed

    def polled_late(self) -> bool:
        """Is it time to look for lines that came after their window? Then they have been read."""
        if not self.late.is_time():
            return False
        self.poll()
        return True

    def _sweep(self, before_s: float) -> None:
        """Remove what a worker that is gone has left; the others' spools have removed theirs before."""
        for path in self._root.glob("*/*/*.log"):
            try:
                if path.stat().st_mtime < before_s - SWEEP_S:
                    path.unlink()
            except OSError:
                continue
