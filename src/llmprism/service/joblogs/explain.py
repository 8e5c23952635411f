"""A window's report and the logs that came in so far, read together: findings of the flows gain their cause.

Reading costs: it is done when a window has findings and lines have come since the last time, else now and then, and
never takes more than a share of the evaluator's time. What the logs alone show is added only where it began inside
the window and the logs belong to a job of it: the spool still holds what was reported before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from llmprism.errors import LLMPrismError
from llmprism.logs.library import Library, load_library
from llmprism.model.report import Report
from llmprism.verdict import LogFolder, LoggedJob, read_logs, read_together

__all__ = ["LogExplainer"]

log = logging.getLogger(__name__)

QUIET_S: Final = 30.0
"""How often logs are read while the flows find nothing wrong: a loss that is no number waits so long."""

BUSY: Final = 0.1
"""Share of the time that reading logs may take."""


class LogExplainer:
    """`folders`: those whose sub-folders hold the logs of a job each."""

    def __init__(self, folders: Sequence[Path], now_s: Callable[[], float] = time.monotonic) -> None:
        self._folders = tuple(folders)
        self._now_s = now_s
        self._library: Library | None = None
        self._views: list[LoggedJob] = []
        self._signature: tuple[tuple[str, int, int], ...] = ()
        self._read_s = float("-inf")
        self._took_s = 0.0

    def explain(self, report: Report) -> Report:
        """The report with its findings explained; as it is where there are no logs, or they cannot be read."""
        if not report.jobs:
            return report
        try:
            self._refresh(urgent=bool(report.findings))
            if not self._views:
                return report
            joint = read_together(report, self._views)
        except (LLMPrismError, OSError, ArithmeticError, LookupError, ValueError) as error:
            log.exception("logs could not be read", extra={"reason": str(error)})
            return report
        reading = joint.reading
        if reading is None:
            return report
        window = report.window
        kept = tuple(
            finding
            for finding, verdict in zip(joint.findings, reading.verdicts, strict=True)
            if verdict.flows is not None
            or (finding.job is not None and window.start_ns <= finding.start_ns <= window.end_ns)
        )
        return replace(report, findings=kept, notes=joint.notes)

    def _refresh(self, *, urgent: bool) -> None:
        now = self._now_s()
        since = now - self._read_s
        if since < self._took_s / BUSY or (not urgent and since < QUIET_S):
            return
        jobs = [
            path for folder in self._folders if folder.is_dir() for path in sorted(folder.iterdir()) if path.is_dir()
        ]
        signature = tuple(
            (str(file), state.st_size, state.st_mtime_ns)
            for job in jobs
            for file in sorted(job.glob("*.log"))
            if (state := file.stat())
        )
        if signature == self._signature:
            return
        self._library = self._library or load_library()
        begun = self._now_s()
        self._views = [one for job in jobs if any(job.glob("*.log")) for one in _read(job, self._library)]
        self._signature, self._read_s = signature, now
        self._took_s = self._now_s() - begun


def _read(job: Path, library: Library) -> list[LoggedJob]:
    """The logs of one job; nothing where they cannot be read, so that the others still are."""
    try:
        return read_logs([LogFolder(job.name, job)], library)
    except (LLMPrismError, OSError) as error:
        log.warning("logs of a job cannot be read", extra={"job": job.name, "reason": str(error)})
        return []
