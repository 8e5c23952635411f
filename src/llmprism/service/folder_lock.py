"""One service per data folder: a lock on a file in it, which the kernel releases with the process that holds it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from typing import Final

from llmprism.errors import ConfigError

__all__ = ["FolderLock"]

LOCK_FILE: Final = "llmprism.lock"


class FolderLock:
    """Held from its making until `release` or the end of the process. Raises ConfigError where another holds it."""

    def __init__(self, folder: Path) -> None:
        path = folder / LOCK_FILE
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except OSError as error:
            raise ConfigError(f"store.folder: {path} cannot be opened ({error.strerror})") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            holder = os.read(self._descriptor, 20).decode(errors="replace").strip()
            os.close(self._descriptor)
            who = f"process {holder}" if holder.isdigit() else "another process"
            raise ConfigError(
                f"store.folder: {folder} is in use by another llmprism serve ({who}); stop that one, or give this one "
                "a folder of its own (--data)"
            ) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, str(os.getpid()).encode(), 0)

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
