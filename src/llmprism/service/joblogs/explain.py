"""A window's report and the logs that came in so far, read together: findings of the flows gain their cause.

Lines of one job may lie in several spools (one per way and per worker): they are read as one job's. Reading costs: it
is done when somebody waits for a cause and lines have come since the last time, else now and then, only of jobs whose
files have changed, and never takes more than a share of the evaluator's time. What the logs alone show is added only
where it began inside the window and the logs belong to a job of it: the spool still holds what was reported before.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from llmprism.errors import LLMPrismError
from llmprism.logs.library import Library, load_library
from llmprism.logs.view import view_job
from llmprism.model.finding import Finding
from llmprism.model.report import Report
from llmprism.verdict import LoggedJob, read_together

__all__ = ["Explained", "LogExplainer"]

log = logging.getLogger(__name__)

QUIET_S: Final = 30.0
"""How often logs are read while nobody waits for a cause: a loss that is no number waits so long."""

BUSY: Final = 0.1
"""Share of the time that reading logs may take."""

_Signature = tuple[tuple[str, int, int], ...]


@dataclass(frozen=True, slots=True)
class Explained:
    """A report read together with logs. `withdrawn`: findings of the flows that the logs explain away, and why."""

    report: Report
    withdrawn: tuple[tuple[Finding, str], ...] = ()


class LogExplainer:
    """`root` holds spools; every spool has a folder per job. `reads` counts how often new lines were read."""

    def __init__(self, root: Path, now_s: Callable[[], float] = time.monotonic) -> None:
        self._root = root
        self._now_s = now_s
        self._library: Library | None = None
        self._views: dict[str, tuple[_Signature, LoggedJob | None]] = {}
        self._read_s = float("-inf")
        self._took_s = 0.0
        self.reads = 0

    def explain(self, report: Report) -> Explained:
        """The report with its findings explained; as it is where there are no logs, or they cannot be read."""
        if not report.jobs:
            return Explained(report)
        try:
            self.refresh(urgent=bool(report.findings))
            logged = [view for _, view in self._views.values() if view is not None]
            return _within_window(report, read_together(report, logged)) if logged else Explained(report)
        except (LLMPrismError, OSError, ArithmeticError, LookupError, ValueError) as error:
            log.exception("logs could not be read", extra={"reason": str(error)})
            return Explained(report)

    def refresh(self, *, urgent: bool) -> None:
        """Read the jobs whose files have changed, where it is time to."""
        now = self._now_s()
        since = now - self._read_s
        if since < self._took_s / BUSY or (not urgent and since < QUIET_S):
            return
        found = self._signatures()
        changed = [name for name, signature in found.items() if self._views.get(name, ((), None))[0] != signature]
        self._views = {name: view for name, view in self._views.items() if name in found}
        if not changed:
            return
        self._library = self._library or load_library()
        begun = self._now_s()
        for name in changed:
            self._views[name] = (found[name], self._read(name))
        self._read_s, self._took_s = now, self._now_s() - begun
        self.reads += 1

    def _signatures(self) -> dict[str, _Signature]:
        """Job → its files with their sizes and times."""
        files: dict[str, list[tuple[str, int, int]]] = {}
        for path in sorted(self._root.glob("*/*/*.log")):
            try:
                state = path.stat()
            except OSError:
                continue  # a spool has just renamed or removed it
            files.setdefault(path.parent.name, []).append((str(path), state.st_size, state.st_mtime_ns))
        return {name: tuple(signature) for name, signature in sorted(files.items())}

    def _read(self, name: str) -> LoggedJob | None:
        """The logs of one job; None where they cannot be read, so that the others still are."""
        folders = sorted(path for path in self._root.glob(f"*/{name}") if path.is_dir())
        try:
            return LoggedJob(name, view_job(folders, library=self._library))
        except (LLMPrismError, OSError) as error:
            log.warning("logs of a job cannot be read", extra={"job": name, "reason": str(error)})
            return None


def _within_window(report: Report, joint: Report) -> Explained:
    """What the window may say of a joint report."""
    reading, window = joint.reading, report.window
    if reading is None:
        return Explained(report)
    kept = [
        (finding, verdict)
        for finding, verdict in zip(joint.findings, reading.verdicts, strict=True)
        if verdict.flows is not None
        or (finding.job is not None and window.start_ns <= finding.start_ns <= window.end_ns)
    ]
    explained = {id(verdict.flows) for _, verdict in kept if verdict.flows is not None}
    gone = tuple(
        (finding, next((note for note in reading.notes if note.startswith(f"{finding.job}: ")), "the logs contradict"))
        for finding in report.findings
        if id(finding) not in explained
    )
    reading = replace(reading, verdicts=tuple(verdict for _, verdict in kept))
    findings = tuple(finding for finding, _ in kept)
    return Explained(
        replace(report, jobs=joint.jobs, findings=findings, notes=joint.notes, reading=reading), withdrawn=gone
    )
