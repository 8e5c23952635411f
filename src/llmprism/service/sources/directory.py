"""A directory that collectors drop files into.

A file is taken when it has settled: its name is not that of a file being written (`.name`, `name.tmp`, `name.part`) and
its size and time have not changed for a while. Its position is its name with size and time, saved in the transaction
that stores its records: a file is taken once, also across crashes; one that changes is a new file.
"""

from __future__ import annotations

import logging
import threading
import time
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
MAX_FILES: Final = 100_000


def mapping_of(text: str) -> ColumnMapping | None:
    """A mapping as settings and the command line write it: pairs, or the name of a file."""
    if not text:
        return None
    return ColumnMapping.parse(text) if "=" in text else ColumnMapping.from_file(text)


def settled_files(folder: Path, settle_s: float, now_s: float) -> list[tuple[Path, int, str]]:
    """(file, size, stamp) of the files that are complete, in the order of their names."""
    found = []
    with_names = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in with_names[:MAX_FILES]:
        if path.suffix in UNFINISHED:
            continue
        try:
            status = path.stat()
        except OSError:
            continue
        if path.is_file() and now_s - status.st_mtime >= settle_s and status.st_size:
            found.append((path, status.st_size, f"{status.st_size}:{status.st_mtime_ns}"))
    return found


class DirectorySource:
    """`run` in a thread of its own until `stop` is set."""

    def __init__(self, settings: DirectorySettings, store: Store, intake: Intake) -> None:
        self._settings = settings
        self._folder = Path(settings.path)
        self._store = store
        self._intake = intake
        self._mapping = mapping_of(settings.map)
        self.name = f"directory:{self._folder}"
        self.trouble = ""

    def run(self, stop: threading.Event) -> None:
        while not stop.is_set():
            try:
                taken = self.poll()
                self.trouble = ""
            except (OSError, StoreError) as error:
                taken = 0
                if str(error) != self.trouble:
                    log.error("directory cannot be read", extra={"source": self.name, "reason": str(error)})
                self.trouble = str(error)
            if not taken:
                stop.wait(POLL_S)

    def poll(self) -> int:
        """Takes the files that are new; returns how many. Waits until they are committed."""
        known = self._store.positions(self.name)
        present = settled_files(self._folder, self._settings.settle_s, time.time())
        fresh = [item for item in present if known.get(item[0].name) != item[2]]
        waiting = []
        for path, size, stamp in fresh:
            payload = Payload(
                self.name,
                path,
                size,
                ((path.name, stamp),),
                self._mapping,
                self._settings.format or None,
                temporary=False,
            )
            try:
                waiting.append((path, self._intake.put(payload, wait=True)))
            except QueueFullError:
                break
        for path, future in waiting:
            try:
                future.result()
            except StoreError:
                return 0
            except LLMPrismError:
                continue
            if self._settings.after == "delete":
                path.unlink(missing_ok=True)
        self._forget(set(known) - {path.name for path, _, _ in present})
        return len(waiting)

    def _forget(self, names: set[str]) -> None:
        """Positions of files that are gone are of no use."""
        gone = [name for name in names if not (self._folder / name).exists()]
        if gone:
            self._store.drop_positions(self.name, gone)
