"""This machine: DuckDB reads the records, the stages run in this process and, where it pays, in copies of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from llmprism import pipeline
from llmprism.collector import collector_paused
from llmprism.engine.interface import RunOptions
from llmprism.ingest import read_flows, read_transfers
from llmprism.ingest.database import memory_bytes
from llmprism.machine import available_cores
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Processes, Progress

__all__ = ["LocalEngine"]


class LocalEngine:
    @collector_paused()
    def diagnose(
        self, flows: Sequence[str], topology: Topology | None, options: RunOptions, progress: Progress | None = None
    ) -> Report:
        reading = None if progress is None else partial(progress, "reading flow records")
        limit = options.memory_limit
        cores = available_cores() if options.jobs is None else options.jobs
        table = (
            read_flows(flows, mapping=options.mapping, format=options.format, progress=reading, memory_limit=limit)
            if options.method == "paper"
            else read_transfers(
                flows, mapping=options.mapping, format=options.format, progress=reading, memory_limit=limit, cores=cores
            )
        )
        return pipeline.diagnose(
            table,
            topology,
            method=options.method,
            with_events=options.with_events,
            watched_until_ns=options.watched_until_ns,
            progress=progress,
            processes=Processes(cores, None if limit is None else memory_bytes(limit)),
        )
