"""Lines of jobs' logs on disk: one folder per job, one file per writer, its last lines only.

A writer's file is cut in two generations: when the newer one has half of the writer's room, it becomes the older one
and the one before is dropped, so that at least the last half is always there. Lines beyond the room of all writers,
and lines that are too long, are dropped and counted: received = stored + dropped. Secrets are blotted out before
anything reaches the disk, by patterns of the configuration (RE2: linear in the text whatever they are).
"""

from __future__ import annotations

import re
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import re2

from llmprism.errors import ConfigError

__all__ = ["LogSpool", "Taken", "compile_redactions", "is_name"]

MAX_LINE_BYTES: Final = 16_384
MAX_WRITERS: Final = 20_000
BLOT: Final = b"***"

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


def is_name(text: str) -> bool:
    """Whether a text may be the name of a job or writer: nothing that could lead out of the folder."""
    return bool(_NAME.fullmatch(text)) and ".." not in text


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
    """`writer_bytes`: room of one writer; `total_bytes`: of all. Threads may share one; processes have one each, over
    folders of their own."""

    def __init__(self, folder: Path, *, writer_bytes: int, total_bytes: int, redactions: Sequence[str] = ()) -> None:
        self.folder = folder
        self._writer_bytes = writer_bytes
        self._total_bytes = total_bytes
        self._redactions = compile_redactions(redactions)
        self._lock = threading.Lock()
        self._sizes: dict[Path, int] = {}
        for path in folder.rglob("*.log") if folder.is_dir() else ():
            self._sizes[path] = path.stat().st_size

    @property
    def size(self) -> int:
        return sum(self._sizes.values())

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
        if self.size + len(body) > self._total_bytes:
            taken.dropped["no_room"] += len(lines)
            return
        if not lines:
            return
        path.parent.mkdir(parents=True, exist_ok=True)
        if self._sizes.get(path, 0) + len(body) > self._writer_bytes // 2 and path.exists():
            older = path.with_name(f"{writer}.1.log")
            path.replace(older)
            self._sizes[older] = self._sizes.pop(path, 0)
        with path.open("ab") as file:
            file.write(body)
        self._sizes[path] = self._sizes.get(path, 0) + len(body)
        taken.stored += len(lines)

    @staticmethod
    def _last(lines: list[bytes], room: int) -> list[bytes]:
        kept: list[bytes] = []
        for line in reversed(lines):
            room -= len(line) + 1
            if room < 0:
                break
            kept.append(line)
        return kept[::-1]

    def forget(self, before_s: float) -> int:
        """Remove what nobody has written to since then; the bytes that this freed."""
        freed = 0
        with self._lock:
            for path in list(self._sizes):
                try:
                    if path.stat().st_mtime < before_s:
                        path.unlink()
                        freed += self._sizes.pop(path)
                except FileNotFoundError:
                    self._sizes.pop(path, None)
        return freed
