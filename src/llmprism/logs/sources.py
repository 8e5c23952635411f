"""Paths → the log files of a job → blocks of whole lines.

A path is a file, a directory (read recursively) or a glob; files may be plain, gzip, xz, bzip2 or zstd (by their first
bytes, not their name), and a tar archive counts as the files in it. Reading never trusts a size that a file states:
decompression is capped in bytes and in ratio, a line longer than MAX_LOG_LINE_BYTES is cut and its tail skipped, and a
file with many control bytes at its start is dropped as binary. What was dropped is counted by reason, never silent.
"""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
import tarfile
import zlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from llmprism import limits
from llmprism.errors import FormatError, InputError

__all__ = ["Block", "Dropped", "LogFile", "find_log_files", "looks_like_log", "read_blocks"]

BLOCK_BYTES: Final = 1 << 22
"""4 MiB per read: large enough that the work per block is small beside the work per byte, small enough for caches."""

_SNIFF_BYTES: Final = 1 << 12
_MAX_CONTROL_SHARE: Final = 0.05
"""Share of control bytes at the start above which a file is binary: random bytes have 11 %, coloured logs under 1 %."""

_CONTROL: Final = bytes(set(range(32)) - {9, 10, 13, 27} | {127})

_NOT_LOGS: Final = frozenset({".json", ".parquet", ".npz", ".npy", ".pt", ".pth", ".bin", ".safetensors", ".py", ".md"})
"""Endings that are never a log, so that a directory with a truth file or a checkpoint beside its logs can be given."""

_RATIO_FREE_BYTES: Final = 1 << 26
"""64 MiB: below this the ratio does not matter, so that short logs of one repeated line pass."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """`member` names a file inside the tar archive at `path`; `name` is what reports show."""

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


@dataclass(frozen=True, slots=True)
class Block:
    """`buffer[:size]` are whole lines, except that the last block of a file may lack its line break."""

    buffer: NDArray[np.uint8]
    size: int


def find_log_files(paths: list[Path], dropped: Dropped) -> list[LogFile]:
    """The log files under these paths, in a stable order."""
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found.extend(sorted(p for p in path.rglob("*") if p.is_file() and not p.name.startswith(".")))
        elif path.exists():
            found.append(path)
        else:
            matches = sorted(Path(match) for match in glob.glob(str(path), recursive=True))  # noqa: PTH207
            if not matches:
                raise InputError(f"no such log file or directory: {path}")
            found.extend(match for match in matches if match.is_file())
    files: list[LogFile] = []
    roots = [path for path in paths if path.is_dir()]
    for path in dict.fromkeys(found):
        if not looks_like_log(path):
            dropped.add("not a log by its name")
            continue
        files.extend(_members(path, _shown_name(path, roots), dropped))
    if not files:
        raise InputError(f"no log files under {', '.join(map(str, paths))}")
    if len(files) > limits.MAX_LOG_FILES:
        dropped.add("files beyond the cap", len(files) - limits.MAX_LOG_FILES)
    return files[: limits.MAX_LOG_FILES]


def looks_like_log(path: Path) -> bool:
    """Whether a file may be a log, by its name."""
    return not path.name.startswith(".") and _plain_suffix(path) not in _NOT_LOGS


def _plain_suffix(path: Path) -> str:
    name = path.name.lower()
    for packed in (".gz", ".xz", ".zst", ".bz2"):
        name = name.removesuffix(packed)
    return Path(name).suffix


def _shown_name(path: Path, roots: list[Path]) -> str:
    for root in roots:
        if path.is_relative_to(root):
            return str(path.relative_to(root))
    return path.name


def _members(path: Path, name: str, dropped: Dropped) -> list[LogFile]:
    """The file itself, or the files inside it when it is a tar archive."""
    lowered = path.name.lower()
    if not any(ending in lowered for ending in (".tar", ".tgz", ".tbz", ".txz")):
        return [LogFile(path, name)]
    try:
        with tarfile.open(path) as archive:
            names = [member.name for member in archive if member.isfile()]
    except (tarfile.TarError, OSError, EOFError, zlib.error, lzma.LZMAError):
        dropped.add("broken archive")
        return []
    kept = sorted(member for member in names if _plain_suffix(Path(member)) not in _NOT_LOGS)
    return [LogFile(path, member, member) for member in kept]


def _open(file: LogFile) -> tuple[IO[bytes], bool]:
    """The bytes of the file, unpacked; and whether they were packed."""
    try:
        if file.member is not None:
            archive = tarfile.open(file.path)  # noqa: SIM115 (closed with the stream by the garbage collector)
            stream = archive.extractfile(file.member)
            if stream is None:
                raise InputError(f"{file.path}: no file {file.member} inside")
            return stream, True
        raw = file.path.open("rb")
    except (OSError, tarfile.TarError) as error:
        raise InputError(f"cannot read {file.path}: {error}") from error
    magic = raw.read(6)
    raw.seek(0)
    if magic[:2] == b"\x1f\x8b":
        return cast(IO[bytes], gzip.GzipFile(fileobj=raw)), True
    if magic[:6] == b"\xfd7zXZ\x00":
        return cast(IO[bytes], lzma.LZMAFile(raw)), True
    if magic[:3] == b"BZh":
        return cast(IO[bytes], bz2.BZ2File(raw)), True
    if magic[:4] == b"\x28\xb5\x2f\xfd":
        return _open_zstd(raw, file), True
    return raw, False


def _open_zstd(raw: IO[bytes], file: LogFile) -> IO[bytes]:
    try:
        import zstandard
    except ImportError as error:
        raise FormatError(f"{file.path} is zstd-packed: pip install 'llmprism[logs]'") from error
    return cast(IO[bytes], zstandard.ZstdDecompressor(max_window_size=1 << 27).stream_reader(raw))


def _is_binary(head: bytes) -> bool:
    return len(head) - len(head.translate(None, _CONTROL)) > _MAX_CONTROL_SHARE * len(head)


class _LineBuffer:
    """A buffer that always holds whole lines plus the unfinished rest of the last read."""

    def __init__(self) -> None:
        self.bytes: NDArray[np.uint8] = np.empty(BLOCK_BYTES + limits.MAX_LOG_LINE_BYTES + 1, dtype=np.uint8)
        self._view = memoryview(cast(Any, self.bytes))
        self.held = 0
        self.cut_lines = 0
        self._skipping = False

    def fill(self, stream: IO[bytes]) -> int:
        """Read once behind what is held; the number of bytes read."""
        reader = cast(io.RawIOBase, stream)
        read = reader.readinto(self._view[self.held : self.held + BLOCK_BYTES]) or 0
        if self._skipping and read:
            fresh = self.bytes[self.held : self.held + read]
            breaks = np.flatnonzero(fresh == 10)
            if not breaks.size:
                return int(read)
            first = int(breaks[0])
            kept = read - first
            self.bytes[self.held : self.held + kept] = fresh[first:].copy()
            self.held += kept
            self._skipping = False
            return int(read)
        self.held += read
        return int(read)

    def whole_lines(self) -> int:
        """How many of the held bytes are whole lines; a line beyond the cap is cut and its tail skipped."""
        last = self._last_break()
        if last >= 0:
            return last + 1
        if self.held > limits.MAX_LOG_LINE_BYTES and not self._skipping:
            self.held = limits.MAX_LOG_LINE_BYTES
            self._skipping = True
            self.cut_lines += 1
        return 0

    def _last_break(self) -> int:
        stop = self.held
        while stop > 0:
            start = max(0, stop - (1 << 16))
            breaks = np.flatnonzero(self.bytes[start:stop] == 10)
            if breaks.size:
                return start + int(breaks[-1])
            stop = start
        return -1

    def drop(self, used: int) -> None:
        rest = self.held - used
        if rest > limits.MAX_LOG_LINE_BYTES:
            rest = limits.MAX_LOG_LINE_BYTES
            self._skipping = True
            self.cut_lines += 1
        self.bytes[:rest] = self.bytes[used : used + rest].copy()
        self.held = rest


def read_blocks(file: LogFile, dropped: Dropped) -> Iterator[Block]:
    """The file's text in blocks of whole lines. A broken or oversized file ends early and is counted."""
    try:
        stream, packed = _open(file)
    except FormatError:
        raise
    except InputError:
        dropped.add("unreadable file")
        return
    packed_size = max(file.path.stat().st_size, 1)
    buffer = _LineBuffer()
    total = 0
    with stream:
        while True:
            try:
                read = buffer.fill(stream)
            except (OSError, EOFError, zlib.error, lzma.LZMAError, tarfile.TarError, ValueError):
                dropped.add("broken file")
                break
            except Exception as error:  # zstandard raises its own type, which may not be importable
                if type(error).__module__.split(".")[0] != "zstandard":
                    raise
                dropped.add("broken file")
                break
            if not read:
                break
            if total == 0 and _is_binary(buffer.bytes[: min(read, _SNIFF_BYTES)].tobytes()):
                dropped.add("binary file")
                return
            total += read
            if packed and _is_bomb(total, packed_size, shared=file.member is not None):
                dropped.add("decompression bomb")
                break
            whole = buffer.whole_lines()
            if whole:
                yield Block(buffer.bytes, whole)
                buffer.drop(whole)
    if buffer.held:
        yield Block(buffer.bytes, buffer.held)
    dropped.add("lines cut at the cap", buffer.cut_lines)


def _is_bomb(total: int, packed_size: int, *, shared: bool) -> bool:
    if total > limits.MAX_LOG_DECOMPRESSED_BYTES:
        return True
    if total < _RATIO_FREE_BYTES or shared:
        return False
    return total > limits.MAX_LOG_DECOMPRESSION_RATIO * packed_size
