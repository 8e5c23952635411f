"""Paths → the log files of a job, one after the other, each as a stream of text.

A path is a file, a directory (read recursively) or a glob. Files may be packed (gzip, xz, bzip2, zstd) and may be
archives (tar, zip), recognised by their first bytes, not by their names. An archive counts as the files in it and is
read once from front to back: going back for every member would unpack it as often as it has members.

What cannot be used is counted by reason, never silent.
"""

from __future__ import annotations

import glob
import tarfile
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Final

from llmprism import limits
from llmprism.errors import InputError
from llmprism.logs.archive import read_members
from llmprism.logs.unpack import TextStream, open_unpacked

__all__ = ["Dropped", "LogFile", "OpenLog", "find_log_paths", "looks_like_log", "open_logs"]

_NOT_LOGS: Final = frozenset(
    {".parquet", ".npz", ".npy", ".pt", ".pth", ".bin", ".idx", ".safetensors", ".py", ".pyc", ".md", ".so", ".pcap"}
)
"""Endings that are never a log, so that a directory with a checkpoint or code among its logs can be given."""

_ZIP_MAGIC: Final = b"PK\x03\x04"
_TAR_MAGIC_AT: Final = 257
_DAMAGED: Final = frozenset(
    {
        "truncated file",
        "broken file",
        "broken archive",
        "unreadable file",
        "binary file",
        "decompression bomb",
        "files beyond the cap",
        "encrypted file",
        "lines of shapes beyond the cap",
    }
)
"""Reasons that take away part of what the job wrote: with one of them the rest cannot prove that nothing was wrong."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """`member` names a file inside the archive at `path`; `name` is what reports show."""

    path: Path
    name: str
    member: str | None = None


@dataclass(slots=True)
class Dropped:
    """What could not be used, by reason."""

    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, reason: str, count: int = 1) -> None:
        if count:
            self.reasons[reason] += count

    def as_tuple(self) -> tuple[tuple[str, int], ...]:
        return tuple(sorted(self.reasons.items()))

    @property
    def damaged(self) -> dict[str, int]:
        """What was lost of the logs themselves."""
        return {reason: count for reason, count in sorted(self.reasons.items()) if reason in _DAMAGED}


@dataclass(frozen=True, slots=True)
class OpenLog:
    """A file and its text. It must be read, or left, before the next one is taken."""

    file: LogFile
    text: TextStream


def find_log_paths(paths: list[Path], dropped: Dropped) -> list[tuple[Path, str]]:
    """The files under these paths that may be logs, with the names to show, in a stable order."""
    found: dict[Path, str] = {}
    for path in paths:
        if path.is_dir():
            inside = sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith("."))
            for file in inside:
                if looks_like_log(file):
                    found.setdefault(file, str(file.relative_to(path)))
                else:
                    dropped.add("not a log by its name")
        elif path.exists():
            found.setdefault(path, path.name)
        else:
            matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207
            if not matches:
                raise InputError(f"no such log file or directory: {path}")
            found.update({match: match.name for match in matches if match.is_file() and match not in found})
    if not found:
        raise InputError(f"no log files under {', '.join(map(str, paths))}")
    return list(found.items())


def looks_like_log(path: Path) -> bool:
    """Whether a file may be a log, by its name; a `.json` file by its first bytes."""
    ending = _ending(path.name)
    if path.name.startswith(".") or ending in _NOT_LOGS:
        return False
    if ending != ".json":
        return True
    try:
        with path.open("rb") as raw:
            return _is_json_log(TextStream(open_unpacked(raw, path.stat().st_size)).head)
    except OSError:
        return False


def _is_json_log(head: bytes) -> bool:
    """Whether text that is named JSON is a log: one object per line, lines of text, or a flight record."""
    first = head.lstrip().split(b"\n", 1)[0].strip()
    if not first.startswith((b"{", b"[")):
        return bool(first)
    if b'"pg_status"' in head or b'"collective_seq_id"' in head:
        return True
    return first.startswith(b"{") and first.endswith(b"}") and b":" in first


def _ending(name: str) -> str:
    name = name.lower()
    for packed in (".gz", ".xz", ".zst", ".bz2"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def open_logs(paths: list[Path], dropped: Dropped) -> Iterator[OpenLog]:
    """Every log file of these paths and of the archives among them, opened one at a time."""
    count = 0
    for path, name in find_log_paths(paths, dropped):
        for log in _open_path(path, name, dropped):
            count += 1
            if count > limits.MAX_LOG_FILES:
                dropped.add("files beyond the cap")
                return
            yield log


def _open_path(path: Path, name: str, dropped: Dropped) -> Iterator[OpenLog]:
    try:
        raw = path.open("rb")
        size = path.stat().st_size
    except OSError:
        dropped.add("unreadable file")
        return
    with raw:
        if raw.read(4) == _ZIP_MAGIC:
            yield from _zip_members(path, dropped)
            return
        raw.seek(0)
        unpacked = open_unpacked(raw, size)
        text = TextStream(unpacked)
        if _is_tar(text.head, path.name):
            yield from _tar_members(path, text, dropped)
        else:
            yield OpenLog(LogFile(path, name), text)
        dropped.add(unpacked.damage or "", int(unpacked.damage is not None))


def _is_tar(head: bytes, name: str) -> bool:
    if head[_TAR_MAGIC_AT : _TAR_MAGIC_AT + 5] == b"ustar":
        return True
    old = any(ending in name.lower() for ending in (".tar", ".tgz", ".tbz", ".txz"))
    return (old and len(head) >= 512 and not head[:512].isascii()) or (old and b"\0" in head[:512])


def _tar_members(path: Path, stream: TextStream, dropped: Dropped) -> Iterator[OpenLog]:
    """The logs of a tar archive in its own order, in one pass."""
    try:
        for member, inner in read_members(stream):
            if _ending(member.name) in _NOT_LOGS or Path(member.name).name.startswith("."):
                dropped.add("not a log by its name")
            else:
                yield from _member(path, member.name, inner, member.size, dropped)
    except (tarfile.TarError, OSError, EOFError, zlib.error, ValueError):
        dropped.add("broken archive")


def _zip_members(path: Path, dropped: Dropped) -> Iterator[OpenLog]:
    try:
        with zipfile.ZipFile(path) as archive:
            for info in sorted(archive.infolist(), key=lambda item: item.filename):
                if info.is_dir():
                    continue
                if _ending(info.filename) in _NOT_LOGS:
                    dropped.add("not a log by its name")
                elif info.flag_bits & 1:
                    dropped.add("encrypted file")
                elif info.file_size > limits.MAX_LOG_DECOMPRESSION_RATIO * max(info.compress_size, 1 << 16):
                    dropped.add("decompression bomb")
                else:
                    with archive.open(info) as inner:
                        yield from _member(path, info.filename, inner, info.compress_size, dropped)
    except (zipfile.BadZipFile, OSError, EOFError, zlib.error, NotImplementedError, RuntimeError, ValueError):
        dropped.add("broken archive")


def _member(path: Path, name: str, inner: IO[bytes], size: int, dropped: Dropped) -> Iterator[OpenLog]:
    unpacked = open_unpacked(inner, size)
    text = TextStream(unpacked)
    if _ending(name) == ".json" and not _is_json_log(text.head):
        dropped.add("not a log by its name")
        return
    yield OpenLog(LogFile(path, name, name), text)
    dropped.add(unpacked.damage or "", int(unpacked.damage is not None))
