"""A directory that collectors drop files into.

A file is taken when it has settled: its name is not that of a file being written (`.name`, `name.tmp`, `name.part`) and
its size and time have not changed for a while. Its position is its name with size and time, saved in the transaction
that stores its records: a file is taken once, also across crashes; one that changes is a new file.

Folders may keep files for weeks. Names that are known are not looked at again, except once a minute for changes; when
neither the folder nor a waiting file has changed, nothing is listed at all.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import Final

from llmprism.errors import LLMPrismError, StoreError
from llmprism.ingest.mapping import ColumnMapping
from llmprism.service.config import DirectorySettings
from llmprism.service.intake import Intake, Payload, QueueFullError
from llmprism.service.store import Store

__all__ = ["DirectorySource", "mapping_of", "settled_files"]

log = logging.getLogger(__name__)

POLL_S: Final = 0.5
UNFINISHED: Final = (".tmp", ".part", ".partial", ".crdownload")

TAKEN_FILES: Final = 1_000
"""Files taken in one go: the rest follow at once."""

CHANGES_S: Final = 60.0
"""How often files that were taken are looked at for changes: a look at 100,000 of them takes half a second."""

QUIET_S: Final = 2.0
"""A folder is listed at least this often: some file systems keep coarse times of folders."""


def mapping_of(text: str) -> ColumnMapping | None:
    """A mapping as settings and the command line write it: pairs, or the name of a file."""
    if not text:
        return None
    return ColumnMapping.parse(text) if "=" in text else ColumnMapping.from_file(text)


def settled_files(
    folder: Path, settle_s: float, now_s: float, known: Container[str] = ()
) -> tuple[list[tuple[Path, int, str]], int]:
    """((file, size, stamp) of the complete files whose names are not known, in the order of their names; how many are
    not complete yet)."""
    found, waiting = [], 0
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.name in known or entry.name.startswith(".") or entry.name.endswith(UNFINISHED):
                continue
            try:
                if not entry.is_file():
                    continue
                status = entry.stat()
            except OSError:
                continue
            if now_s - status.st_mtime >= settle_s and status.st_size:
                found.append((Path(entry.path), status.st_size, f"{status.st_size}:{status.st_mtime_ns}"))
            else:
                waiting += 1
    return sorted(found), waiting


class DirectorySource:
    """`run` in a thread of its own until `stop` is set."""

    def __init__(
        self,
        settings: DirectorySettings,
        store: Store,
        intake: Intake,
        now_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._settings = settings
        self._folder = Path(settings.path)
        self._store = store
        self._intake = intake
        self._mapping = mapping_of(settings.map)
        self._now_s = now_s
        self._known: dict[str, str] | None = None
        self._refused: dict[str, str] = {}
        self._listed_s = self._compared_s = float("-inf")
        self._stamp = 0
        self._waiting = True
        self.name = f"directory:{self._folder}"
        self.trouble = ""

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                taken = self.poll()
                self.trouble = ""
            except (OSError, StoreError) as error:
                taken = 0
                self._known = None
                if str(error) != self.trouble:
                    log.error("directory cannot be read", extra={"source": self.name, "reason": str(error)})
                self.trouble = str(error)
            if not taken:
                stop.wait(POLL_S)

    def poll(self) -> int:
        """Takes the files that are new; returns how many. Waits until they are committed."""
        if self._known is None:
            self._known = self._store.positions(self.name)
            self._compared_s = float("-inf")
        stamp, now = self._folder.stat().st_mtime_ns, self._now_s()
        compares = now - self._compared_s >= CHANGES_S
        idle = stamp == self._stamp and not self._waiting and not self._refused and not compares
        if idle and now - self._listed_s < QUIET_S:
            return 0
        known = () if compares else self._known
        present, waiting = settled_files(self._folder, self._settings.settle_s, time.time(), known)
        fresh = [
            item for item in present if item[2] not in (self._known.get(item[0].name), self._refused.get(item[0].name))
        ]
        self._stamp, self._listed_s = stamp, now
        self._waiting = waiting > 0 or len(fresh) > TAKEN_FILES
        if compares:
            self._compared_s = now
            self._forget(self._known)
        return self._take(fresh[:TAKEN_FILES], self._known)

    def _take(self, fresh: list[tuple[Path, int, str]], known: dict[str, str]) -> int:
        waiting = []
        for path, size, stamp in fresh:
            position = ((path.name, stamp),)
            form = self._settings.format or None
            payload = Payload(self.name, path, size, position, self._mapping, form, temporary=False)
            try:
                waiting.append((path, stamp, self._intake.put(payload, wait=True)))
            except QueueFullError:
                break
        for path, stamp, future in waiting:
            try:
                future.result()
            except StoreError:
                self._known = None
                return 0
            except LLMPrismError:
                self._refused[path.name] = stamp
                known.pop(path.name, None)
                continue
            known[path.name] = stamp
            self._refused.pop(path.name, None)
            if self._settings.after == "delete":
                path.unlink(missing_ok=True)
        return len(waiting)

    def _forget(self, known: dict[str, str]) -> None:
        """Positions of files that are gone are of no use."""
        with os.scandir(self._folder) as entries:
            there = {entry.name for entry in entries}
        gone = [name for name in (*known, *self._refused) if name not in there]
        if gone:
            self._store.drop_positions(self.name, gone)
            for name in gone:
                known.pop(name, None)
                self._refused.pop(name, None)
