"""What reading leaves of a job's logs: shapes with their counts, writers, the rows that matter, iterations."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from llmprism.logs.shapes import Place, Shape
from llmprism.logs.sources import Dropped, LogFile
from llmprism.logs.tags import Identity

__all__ = ["IterationSeries", "JobLog", "Rows", "Writer"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Writer:
    """One (file, prefix) pair."""

    file: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class Rows:
    """The lines that bear on failure or progress, in reading order. `time_ns` 0: unknown."""

    shape: Int32
    writer: Int32
    file: Int32
    line: Int64
    time_ns: Int64


@dataclass(frozen=True, slots=True)
class IterationSeries:
    """Iteration numbers as they were printed, thinned, in reading order."""

    shape: Int32
    file: Int32
    line: Int64
    time_ns: Int64
    value: Int64


@dataclass(slots=True)
class JobLog:
    """Everything that the later steps need to know of a job's logs."""

    files: list[LogFile]
    file_identity: list[Identity]
    shapes: list[Shape]
    writers: list[Writer]
    rows: Rows
    iterations: IterationSeries
    texts: dict[int, str]
    places: dict[tuple[int, int], Place]
    """Lines that tell of trouble by (shape, writer), the first of each."""
    count: Int64
    """Lines per shape."""
    pair_shape: Int32
    pair_writer: Int32
    pair_count: Int64
    writer_lines: Int64
    writer_last_line: Int64
    writer_last_ns: Int64
    file_lines: Int64
    file_last_ns: Int64
    lines: int
    bytes: int
    dropped: Dropped
