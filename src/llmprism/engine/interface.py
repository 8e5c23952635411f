"""What an engine is: flow records that lie somewhere in, one report out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from llmprism.ingest import ColumnMapping
from llmprism.model.report import Report
from llmprism.model.topology import Topology
from llmprism.pipeline import Progress

__all__ = ["ENGINES", "Engine", "RunOptions"]


ENGINES: Final = ("local", "spark")
"""This machine; an Apache Spark cluster."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How to read and what to make of it: the same for every engine.

    `mapping` and `format` as in `read_flows`; `method`, `with_events`, `watched_until_ns` as in `pipeline.diagnose`;
    `jobs` is how many cores of this machine may be used at a time (None: all that this process may run on).
    """

    method: str = "prism"
    mapping: ColumnMapping | None = None
    format: str | None = None
    with_events: bool = False
    memory_limit: str | None = None
    watched_until_ns: int | None = None
    jobs: int | None = None


class Engine(Protocol):
    def diagnose(
        self, flows: Sequence[str], topology: Topology | None, options: RunOptions, progress: Progress | None = None
    ) -> Report:
        """Everything the records say about the jobs in them; equal records give equal reports on every engine."""
        ...
