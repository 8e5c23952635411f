"""Follows the log files of a folder: what is appended goes into the spool, also across rotation.

A file is known by its device and inode, so that one that was renamed (`job.log` → `job.log.1`) is not read again and
the new one under its name is read from its beginning. A file that shrank was cut and begins anew. Files that are
there at the first start are followed from their last part only. Each poll reads a bounded amount; what is not read yet
comes with the next.

How far every file was read is written down next to the spool, so that a service that starts again, or another worker
that takes over, reads on from there. A file is the same if its inode and its first bytes are.
"""

from __future__ import annotations

import hashlib
import json
import re
import zlib
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmprism.logs.sources import looks_like_log
from llmprism.service.joblogs.names import safe_name
from llmprism.service.joblogs.spool import LogSpool

__all__ = ["LogTail"]

POLL_BYTES: Final = 16 << 20
"""Bytes read of all files in one poll, and of one file at the start."""

MAX_FILES: Final = 5_000
HEAD_BYTES: Final = 256
"""First bytes by which a file is known again."""

_PACKED: Final = (".gz", ".xz", ".zst", ".bz2", ".tar", ".zip")


@dataclass(slots=True)
class _File:
    """Read up to `offset`; `rest` is the beginning of a line whose end has not come."""

    offset: int
    rest: bytes = b""

    @property
    def done(self) -> int:
        """Up to where whole lines were taken."""
        return self.offset - len(self.rest)


class LogTail:
    """One folder, with a folder per job or the files of one job."""

    def __init__(self, folder: Path, spool: LogSpool) -> None:
        self._folder = folder
        self._spool = spool
        self._files: dict[tuple[int, int], _File] = {}
        name = hashlib.sha256(str(folder).encode()).hexdigest()[:12]
        self._notes = spool.folder / f"read-{name}.json"
        self._noted = _read_notes(self._notes)
        self._started = bool(self._noted)

    def poll(self) -> Counter[tuple[str, str]]:
        """Take in what was appended; counts as (name, reason), received = stored + dropped."""
        counts: Counter[tuple[str, str]] = Counter()
        room = POLL_BYTES
        seen: set[tuple[int, int]] = set()
        paths = self._paths(counts)
        for path in paths:
            try:
                state = path.stat()
                key = (state.st_dev, state.st_ino)
                seen.add(key)
                if key not in self._files:
                    self._files[key] = _File(self._begin(path, key[1], state.st_size))
                file = self._files[key]
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
        if room < POLL_BYTES:
            self._write_notes(paths)
        return counts

    def _begin(self, path: Path, inode: int, size: int) -> int:
        """Where to read a file from that was not followed before."""
        done, head = self._noted.get(str(inode), (-1, 0))
        if 0 <= done <= size and _head(path, done) == head:
            return done
        return 0 if self._started else max(0, size - POLL_BYTES)

    def _write_notes(self, paths: list[Path]) -> None:
        notes = {}
        for path in paths:
            try:
                state = path.stat()
                file = self._files.get((state.st_dev, state.st_ino))
                if file is not None:
                    notes[str(state.st_ino)] = [file.done, _head(path, file.done)]
            except OSError:
                continue
        self._notes.parent.mkdir(parents=True, exist_ok=True)
        fresh = self._notes.with_suffix(".new")
        fresh.write_text(json.dumps(notes), encoding="ascii")
        fresh.replace(self._notes)

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
        return safe_name(job, "job"), safe_name(name, "log")


def _head(path: Path, size: int) -> int:
    """A check sum of the first bytes of a file, at most `size`."""
    with path.open("rb") as stream:
        return zlib.crc32(stream.read(min(size, HEAD_BYTES)))


def _read_notes(path: Path) -> dict[str, tuple[int, int]]:
    """Inode → how far it was read and its head; nothing where there are no notes or they make no sense."""
    try:
        notes = json.loads(path.read_text(encoding="ascii"))
        return {str(inode): (int(done), int(head)) for inode, (done, head) in notes.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}
