"""Lines of jobs' logs on disk: one folder per job, one file per writer, its last lines only.

A writer's file is cut in two generations: when the newer one has half of the writer's room, it becomes the older one
and the one before is dropped, so that at least the last half is always there. Where all writers together have no room
left, the job that takes the most of it loses the files that were written to longest ago. Lines that are too long, or
that come in larger pieces than a writer's room, are dropped and counted: received = stored + dropped. Secrets are
blotted out before anything reaches the disk, by patterns of the configuration (RE2: linear in the text whatever they
are).
"""

from __future__ import annotations

import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import re2

from llmprism.errors import ConfigError
from llmprism.service.joblogs.names import is_name

__all__ = ["LogSpool", "Taken", "compile_redactions"]

MAX_LINE_BYTES: Final = 16_384
MAX_WRITERS: Final = 20_000
BLOT: Final = b"***"

FORGET_S: Final = 60.0
"""How often files that nobody writes to any more are looked for."""

SPARE: Final = 0.05
"""Share of all room that is made free at once, so that not every line has to look for some."""


def compile_redactions(patterns: Sequence[str]) -> tuple[Any, ...]:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = 1 << 20
    compiled = []
    for pattern in patterns:
        try:
            compiled.append(re2.compile(pattern.encode(), options=options))
        except re2.error as error:
            raise ConfigError(f"job_logs.redact: {pattern!r} is no pattern: {error}") from None
    return tuple(compiled)


@dataclass(slots=True)
class Taken:
    """What became of some lines."""

    received: int = 0
    stored: int = 0
    dropped: Counter[str] = field(default_factory=Counter)


class LogSpool:
    """`writer_bytes`: room of one writer; `total_bytes`: of all; files that nobody has written to for `keep_s` are
    removed. Threads may share one; processes have one each, over folders of their own."""

    def __init__(
        self,
        folder: Path,
        *,
        writer_bytes: int,
        total_bytes: int,
        redactions: Sequence[str] = (),
        keep_s: float = float("inf"),
        now_s: Callable[[], float] = time.time,
    ) -> None:
        self.folder = folder
        self._writer_bytes = writer_bytes
        self._total_bytes = total_bytes
        self._keep_s = keep_s
        self._now_s = now_s
        self._forgot_s = float("-inf")
        self._redactions = compile_redactions(redactions)
        self._lock = threading.Lock()
        self._sizes: dict[Path, int] = {}
        for path in folder.rglob("*.log") if folder.is_dir() else ():
            self._sizes[path] = path.stat().st_size
        self.size = sum(self._sizes.values())

    def append(self, job: str, writer: str, text: bytes) -> Taken:
        """Keep the lines of one writer. ValueError for names that are none."""
        if not is_name(job) or not is_name(writer):
            raise ValueError("names of jobs and writers are letters, digits, dots, dashes and underscores")
        taken = Taken()
        lines = []
        for line in text.splitlines():
            taken.received += 1
            if len(line) > MAX_LINE_BYTES:
                taken.dropped["too_long"] += 1
                continue
            for pattern in self._redactions:
                line = pattern.sub(BLOT, line)
            lines.append(line.replace(b"\0", b""))
        with self._lock:
            self._forget()
            self._store(job, writer, lines, taken)
        return taken

    def _store(self, job: str, writer: str, lines: list[bytes], taken: Taken) -> None:
        path = self.folder / job / f"{writer}.log"
        if path not in self._sizes and len(self._sizes) >= MAX_WRITERS:
            taken.dropped["too_many_writers"] += len(lines)
            return
        body = b"".join(line + b"\n" for line in lines)
        if len(body) > self._writer_bytes // 2:
            kept = self._last(lines, self._writer_bytes // 2)
            taken.dropped["writer_full"] += len(lines) - len(kept)
            lines, body = kept, b"".join(line + b"\n" for line in kept)
        if not lines:
            return
        if self.size + len(body) > self._total_bytes:
            self._make_room(len(body), path)
        if self.size + len(body) > self._total_bytes:
            taken.dropped["no_room"] += len(lines)
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._sizes.get(path, 0) + len(body) > self._writer_bytes // 2 and path.exists():
            older = path.with_name(f"{writer}.1.log")
            path.replace(older)
            self.size -= self._sizes.get(older, 0)
            self._sizes[older] = self._sizes.pop(path, 0)
        with path.open("ab") as file:
            file.write(body)
        self._sizes[path] = self._sizes.get(path, 0) + len(body)
        self.size += len(body)
        taken.stored += len(lines)

    def _make_room(self, need: int, writing: Path) -> None:
        """Remove files of the job that takes the most room, those written to longest ago first."""
        wanted = max(0, self._total_bytes - need - int(SPARE * self._total_bytes))
        by_job: dict[Path, list[Path]] = defaultdict(list)
        for path in self._sizes:
            if path != writing:
                by_job[path.parent].append(path)
        taken = {job: sum(self._sizes[path] for path in paths) for job, paths in by_job.items()}
        for paths in by_job.values():
            paths.sort(key=_modified, reverse=True)
        while self.size > wanted and taken:
            job = max(taken, key=lambda one: taken[one])
            path = by_job[job].pop()
            taken[job] -= self._sizes[path]
            self._remove(path)
            if not by_job[job]:
                del taken[job]

    @staticmethod
    def _last(lines: list[bytes], room: int) -> list[bytes]:
        kept: list[bytes] = []
        for line in reversed(lines):
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        return kept[::-1]

    def _forget(self) -> None:
        """Remove what nobody has written to for long, now and then."""
        now = self._now_s()
        if now - self._forgot_s < FORGET_S:
            return
        self._forgot_s = now
        for path in [path for path in self._sizes if _modified(path) < now - self._keep_s]:
            self._remove(path)

    def _remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self.size -= self._sizes.pop(path, 0)


def _modified(path: Path) -> float:
    """When a file was last written to; long ago where it is gone."""
    try:
        return path.stat().st_mtime
    except OSError:
        return 0.0
