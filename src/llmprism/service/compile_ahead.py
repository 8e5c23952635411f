"""Compiles what taking records in and making windows call, before many records come.

Loops over records are compiled when they first see many rows, and kept for the processes that follow (`kernel`). On an
installation that is new, or whose sources were changed, that is half a minute of compiling within the first windows of
a large cluster: they would be as late as that. So a service plays the bundled captures to itself when it starts,
through an intake and an evaluator like its own, with everything compiled, in a process that ends with it. It takes
records in and makes windows meanwhile, and is not ready until the process has ended.

What is done once is not done again: a mark lies where the code of this module would, whose place changes with every
source that intake and windows depend on.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from llmprism.bundled import bundled_captures
from llmprism.kernel import always_compiled
from llmprism.kernel_sources import code_directory
from llmprism.service.config import Config, StoreSettings, TopologySettings
from llmprism.service.intake import Payload
from llmprism.service.played import PlayedService
from llmprism.service.player import BATCH_NS, opened, play

__all__ = ["compile_ahead", "is_compiled_ahead"]

_DONE: Final = "all-compiled"


def is_compiled_ahead() -> bool:
    """Whether that has been done for these sources, or would be in vain because nothing can be kept."""
    directory = code_directory(Path(__file__).resolve())
    return directory is None or (directory / _DONE).exists()


def compile_ahead() -> None:
    """Compiles and keeps what is not yet kept; tens of seconds where that is everything."""
    with tempfile.TemporaryDirectory(prefix="llmprism-") as folder, always_compiled():
        for name, capture in bundled_captures().items():
            _watch(capture, Path(folder) / name)
    directory = code_directory(Path(__file__).resolve())
    if directory is not None:
        (directory / _DONE).touch()


def _watch(capture: Path, folder: Path) -> None:
    """A service that is sent a capture, a second of records at a time, on the clock of the records."""
    topology = TopologySettings(file=str(capture / "topology.json"))
    with opened([str(capture / "flows.parquet")]) as records:
        service = PlayedService(Config(store=StoreSettings(folder=str(folder)), topology=topology), records.first_ns)
        try:
            play(records, _StraightIn(service, records.first_ns), speed=0, keep_times=True)
        finally:
            service.stop_intake()
            service.store.close()


@dataclass
class _StraightIn:
    """Batches go straight into a service; every due window is made before the next one."""

    service: PlayedService
    now_ns: int

    def send(self, file: Path, number: int, records: int) -> None:  # noqa: ARG002
        self.now_ns += BATCH_NS
        self.service.take_in([Payload("http:ahead", file, file.stat().st_size)], self.now_ns)
        self.service.make_windows()
