"""The topology of the configuration, read again whenever its file changes."""

from __future__ import annotations

import logging
from pathlib import Path

from llmprism.errors import LLMPrismError
from llmprism.ingest import read_topology
from llmprism.model.topology import Topology

__all__ = ["TopologyFile"]

log = logging.getLogger(__name__)


class TopologyFile:
    """A topology that is read again when its file changes. A broken new version leaves the last good one in force."""

    def __init__(self, path: str) -> None:
        self._path = Path(path) if path else None
        self._stamp: tuple[int, int] | None = None
        self.topology: Topology | None = None
        self.trouble = ""

    def refresh(self) -> Topology | None:
        if self._path is None:
            return None
        try:
            found = self._path.stat()
            stamp = (found.st_mtime_ns, found.st_size)
            if stamp != self._stamp:
                self._stamp = stamp
                self.topology, self.trouble = read_topology(self._path), ""
                log.info("topology read", extra={"file": str(self._path), "servers": len(self.topology.servers)})
        except (OSError, LLMPrismError) as error:
            if str(error) != self.trouble:
                log.warning("topology cannot be used", extra={"reason": str(error)})
            self.trouble = str(error)
        return self.topology
