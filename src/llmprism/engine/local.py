"""This machine: DuckDB reads the records, the stages run one after the other in this process."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial

from llmprism import pipeline
from llmprism.engine.interface import RunOptions
from llmprism.ingest import read_flows, read_transfers
from llmprism.model.report import Report
from llmprism.model.topology import Topology

__all__ = ["LocalEngine"]


@contextmanager
def _collector_paused() -> Iterator[None]:
    """A run makes a million lasting objects (names, paths) and hardly a cycle: to look for garbage among them again and
    again takes seconds."""
    running = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if running:
            gc.enable()


class LocalEngine:
    @_collector_paused()
    def diagnose(
        self,
        flows: Sequence[str],
        topology: Topology | None,
        options: RunOptions,
        progress: pipeline.Progress | None = None,
    ) -> Report:
        reading = None if progress is None else partial(progress, "reading flow records")
        read = read_flows if options.method == "paper" else read_transfers
        table = read(
            flows,
            mapping=options.mapping,
            format=options.format,
            progress=reading,
            memory_limit=options.memory_limit,
        )
        return pipeline.diagnose(
            table,
            topology,
            method=options.method,
            with_events=options.with_events,
            watched_until_ns=options.watched_until_ns,
            progress=progress,
            forks=True,
        )
