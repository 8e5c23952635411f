"""Where the forms of a report go. A file appears whole or not at all: it is written under another name, then moved."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from llmprism.errors import OutputError, UsageError

if TYPE_CHECKING:
    from llmprism.model.report import Report


__all__ = ["STDOUT", "Outputs"]

STDOUT: Final = "-"


@dataclass(frozen=True, slots=True)
class Outputs:
    """Paths given on the command line; `-` is stdout, None is not wanted."""

    json: str | None = None
    html: str | None = None
    trace: str | None = None
    timeline: str | None = None

    def takes_stdout(self) -> bool:
        return STDOUT in self._wanted()

    def need_events(self) -> bool:
        """Whether one of the forms shows per-GPU events."""
        return any(path is not None for path in (self.html, self.trace, self.timeline))

    def check(self) -> None:
        """Refuse early, before minutes of work, what cannot end well."""
        if self.timeline == STDOUT:
            raise UsageError("--timeline writes a Parquet file, which cannot go to stdout: give a path")
        wanted = self._wanted()
        if len(wanted) != len(set(wanted)):
            raise UsageError("two outputs have the same path: give each of --json, --html, --trace, --timeline its own")
        for path in wanted:
            folder = Path(path).parent
            if path != STDOUT and not folder.is_dir():
                raise OutputError(f"cannot write {path}: there is no folder {folder}")

    def write(self, report: Report) -> None:
        for path, render in ((self.json, _json), (self.html, _html), (self.trace, _trace)):
            if path is not None:
                _write_bytes(path, render(report))
        if self.timeline is not None:
            _write_file(self.timeline, lambda place: _timeline(report, place))

    def _wanted(self) -> list[str]:
        return [path for path in (self.json, self.html, self.trace, self.timeline) if path is not None]


def _json(report: Report) -> bytes:
    from llmprism.report.json_report import render

    return render(report)


def _html(report: Report) -> bytes:
    from llmprism.report.html import render

    return render(report)


def _trace(report: Report) -> bytes:
    from llmprism.report.perfetto import render

    return render(report)


def _timeline(report: Report, path: Path) -> None:
    from llmprism.report.timeline_parquet import write

    write(report, path)


def _write_bytes(path: str, content: bytes) -> None:
    if path == STDOUT:
        sys.stdout.flush()
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()
    else:
        _write_file(path, lambda place: place.write_bytes(content))


def _write_file(path: str, write: Callable[[Path], object]) -> None:
    place = Path(path)
    try:
        if place.exists() and not place.is_file():  # a device or a named pipe must be written, never replaced
            write(place)
            return
        handle, name = tempfile.mkstemp(prefix=f".{place.name}.", dir=place.parent)
        os.close(handle)
        partial = Path(name)
        try:
            write(partial)
            partial.chmod(0o666 & ~_umask())
            partial.replace(place)
        finally:
            partial.unlink(missing_ok=True)
    except OSError as error:
        raise OutputError(f"cannot write {path}: {error.strerror or error}") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
