"""Follows the log files of a folder: what is appended goes into the spool, also across rotation.

A file is known by its device and inode, so that one that was renamed (`job.log` → `job.log.1`) is not read again and
the new one under its name is read from its beginning. A file that shrank was cut and begins anew. Files that are
there at the start are followed from their last part only. Each poll reads a bounded amount; what is not read yet
comes with the next.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmprism.logs.sources import looks_like_log
from llmprism.service.joblogs.spool import LogSpool, is_name

__all__ = ["LogTail"]

POLL_BYTES: Final = 16 << 20
"""Bytes read of all files in one poll, and of one file at the start."""

MAX_FILES: Final = 5_000
_ODD: Final = re.compile(r"[^A-Za-z0-9._-]+")
_PACKED: Final = (".gz", ".xz", ".zst", ".bz2", ".tar", ".zip")


@dataclass(slots=True)
class _File:
    offset: int
    rest: bytes = b""


class LogTail:
    """One folder, with a folder per job or the files of one job."""

    def __init__(self, folder: Path, spool: LogSpool) -> None:
        self._folder = folder
        self._spool = spool
        self._files: dict[tuple[int, int], _File] = {}
        self._started = False

    def poll(self) -> Counter[tuple[str, str]]:
        """Take in what was appended; counts as (name, reason), received = stored + dropped."""
        counts: Counter[tuple[str, str]] = Counter()
        room = POLL_BYTES
        seen: set[tuple[int, int]] = set()
        for path in self._paths(counts):
            try:
                state = path.stat()
                key = (state.st_dev, state.st_ino)
                seen.add(key)
                file = self._files.setdefault(key, _File(0 if self._started else max(0, state.st_size - POLL_BYTES)))
                if state.st_size < file.offset:
                    file.offset, file.rest = 0, b""
                want = min(room, state.st_size - file.offset)
                if want <= 0:
                    continue
                with path.open("rb") as stream:
                    stream.seek(file.offset)
                    chunk = stream.read(want)
            except OSError:
                counts["unreadable_files", ""] += 1
                continue
            room -= len(chunk)
            file.offset += len(chunk)
            self._take(path, file, chunk, counts)
        self._files = {key: file for key, file in self._files.items() if key in seen}
        self._started = True
        return counts

    def _paths(self, counts: Counter[tuple[str, str]]) -> list[Path]:
        found = []
        if not self._folder.is_dir():
            counts["missing_folders", ""] += 1
            return []
        for path in sorted(self._folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and looks_like_log(path) and not path.name.endswith(_PACKED):
                found.append(path)
                if len(found) >= MAX_FILES:
                    counts["files_beyond_the_cap", ""] += 1
                    break
        return found

    def _take(self, path: Path, file: _File, chunk: bytes, counts: Counter[tuple[str, str]]) -> None:
        text = file.rest + chunk
        cut = text.rfind(b"\n") + 1
        file.rest = text[cut:][-POLL_BYTES:]
        if not cut:
            return
        job, writer = self._names(path)
        taken = self._spool.append(job, writer, text[:cut])
        counts["received", ""] += taken.received
        counts["stored", ""] += taken.stored
        for reason, number in taken.dropped.items():
            counts["dropped", reason] += number

    def _names(self, path: Path) -> tuple[str, str]:
        """Job and writer of a file: its first folder and the rest of its name."""
        parts = path.relative_to(self._folder).parts
        job = parts[0] if len(parts) > 1 else self._folder.name
        rest = parts[1:] if len(parts) > 1 else parts
        name = re.sub(r"\.(?:log|txt|out|err)(?:\.\d+)?$", "", "-".join(rest))
        return _safe(job, "job"), _safe(name, "log")


def _safe(text: str, default: str) -> str:
    name = _ODD.sub("-", text).strip(".-_")[:64].strip(".-_").replace("..", ".")
    return name if is_name(name) else default
