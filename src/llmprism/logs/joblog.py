"""What reading leaves of a job's logs: shapes with their counts, writers, the rows that matter, series of numbers."""

from __future__ import annotations

from dataclasses import dataclass

from llmprism.arrays import Bool, Float64, Int8, Int32, Int64
from llmprism.logs.flight import FlightRecord
from llmprism.logs.shapes import Shape, WrittenLine
from llmprism.logs.sources import Dropped, LogFile
from llmprism.logs.tags import Identity

__all__ = ["IterationSeries", "JobLog", "LineTable", "LogRows", "LogWriter", "MetricSeries"]


@dataclass(frozen=True, slots=True)
class LogWriter:
    """One (file, prefix) pair; `identity` is what the prefix says, without the file's name."""

    file: int
    identity: Identity


@dataclass(frozen=True, slots=True)
class LogRows:
    """The lines that bear on failure or progress, in reading order. `time_ns` 0: unknown.

    `timed`: the line has a time of its own; the others have that of the last line before them that has one.
    """

    shape: Int32
    writer: Int32
    file: Int32
    line: Int64
    time_ns: Int64
    timed: Bool


@dataclass(frozen=True, slots=True)
class IterationSeries:
    """Iteration numbers as they were printed, thinned, in reading order. Repeats of a number are left out."""

    shape: Int32
    writer: Int32
    file: Int32
    line: Int64
    time_ns: Int64
    value: Int64


@dataclass(frozen=True, slots=True)
class MetricSeries:
    """Numbers that training lines print, thinned, in reading order; `metric` as in metrics.Metric."""

    metric: Int8
    shape: Int32
    writer: Int32
    file: Int32
    line: Int64
    time_ns: Int64
    value: Float64


@dataclass(frozen=True, slots=True)
class LineTable:
    """Every line of a job in reading order; kept only where a method needs it, for it grows with the logs."""

    shape: Int32
    writer: Int32
    file: Int32
    line: Int64


@dataclass(slots=True)
class JobLog:
    """Everything that the later steps need to know of a job's logs."""

    files: list[LogFile]
    file_identity: list[Identity]
    """What the names of the files say."""
    shapes: list[Shape]
    writers: list[LogWriter]
    rows: LogRows
    iterations: IterationSeries
    metrics: MetricSeries
    flights: list[FlightRecord]
    texts: dict[int, str]
    places: dict[tuple[int, int], WrittenLine]
    """Lines about trouble by (shape, writer), the first of each."""
    count: Int64
    """Lines per shape."""
    pair_shape: Int32
    pair_writer: Int32
    pair_count: Int64
    pair_iteration: Int64
    """The largest iteration number that the writer printed in lines of the shape; -1: none."""
    pair_last_ns: Int64
    writer_lines: Int64
    writer_last_line: Int64
    writer_last_ns: Int64
    file_lines: Int64
    file_last_ns: Int64
    file_cut: tuple[bool, ...]
    """Files whose last line has no line break: cut, or still being written."""
    lines: int
    bytes: int
    dropped: Dropped
