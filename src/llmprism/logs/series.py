"""Iteration numbers and metrics as the lines print them, thinned so that they stay small, in reading order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import numpy as np

from llmprism.arrays import Bool, Int32, Int64, UInt8
from llmprism.logs.joblog import IterationSeries, MetricSeries
from llmprism.logs.kernels import numbers_after
from llmprism.logs.metrics import METRICS, metric_values
from llmprism.logs.scan import Lines
from llmprism.logs.shape_store import ShapeStore

__all__ = ["ScannedLines", "SeriesReader", "joined"]


_ITERATIONS_PER_SCAN: Final = 1_024
_METRICS_PER_SCAN: Final = 512
"""Values kept of one scan of at most 131,072 lines: 200 files, or ten gigabytes, stay below some hundred thousand."""


def joined(parts: list[tuple[Any, ...]], column: int, dtype: type) -> Any:
    """One column of the pieces gathered per scan, as one array."""
    if not parts:
        return np.zeros(0, dtype=dtype)
    return np.concatenate([part[column] for part in parts]).astype(dtype, copy=False)


def _thinned(rows: Int64, writer: Int32, most: int) -> Int64:
    """About `most` rows, the same share of every writer's, its last one always among them."""
    if rows.size <= most:
        return rows
    stride = -(-rows.size // most)
    if (writer[rows] == writer[rows[0]]).all():
        return np.append(rows[:-1:stride], rows[-1])
    order = np.argsort(writer[rows], kind="stable")
    first = np.ones(order.size, dtype=np.bool_)
    first[1:] = writer[rows[order[1:]]] != writer[rows[order[:-1]]]
    starts = np.flatnonzero(first)
    within = np.arange(order.size) - np.repeat(starts, np.diff(np.append(starts, order.size)))
    last = np.append(first[1:], True)
    return np.sort(rows[order[(within % stride == 0) | last]])


def _changed(values: Int64, which: Int32, writer: Int32) -> Bool:
    """Where a writer prints another number, or the same in another kind of line, than it did last."""
    order = np.argsort(writer, kind="stable")
    differs = np.ones(order.size, dtype=np.bool_)
    now, before = order[1:], order[:-1]
    differs[1:] = (values[now] != values[before]) | (which[now] != which[before]) | (writer[now] != writer[before])
    changed = np.empty(order.size, dtype=np.bool_)
    changed[order] = differs
    return changed


class ScannedLines(NamedTuple):
    """Lines of one file that were scanned together, with the shape, the writer and the time of each."""

    buf: UInt8
    lines: Lines
    shape: Int32
    writer: Int32
    times: Int64
    file: int


@dataclass(slots=True)
class SeriesReader:
    iterations: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)

    def take_iterations(self, scanned: ScannedLines, rows: Int64, store: ShapeStore) -> Int64:
        """Keep the iteration numbers of these rows; all of them, -1 where a line has none."""
        buf, lines, shape, writer, times, file = scanned
        values = np.empty(rows.size, dtype=np.int64)
        which = shape[rows]
        numbers_after(buf, lines.text_start[rows], lines.end[rows], which, store.anchors, store.anchor_sizes, values)
        own = writer[rows]
        kept = _thinned(np.flatnonzero(_changed(values, which, own) & (values >= 0)), own, _ITERATIONS_PER_SCAN)
        if kept.size:
            at = rows[kept]
            files = np.full(kept.size, file, dtype=np.int32)
            self.iterations.append((which[kept], writer[at], files, lines.number[at], times[at], values[kept]))
        return values

    def take_metrics(self, scanned: ScannedLines, rows: Int64, store: ShapeStore) -> None:
        """Keep the losses, norms, scales and times of these rows."""
        buf, lines, shape, writer, times, file = scanned
        rows = rows[_thinned(np.arange(rows.size), writer[rows], _METRICS_PER_SCAN)]
        which = shape[rows]
        for metric in range(METRICS):
            some = np.flatnonzero(store.metric_sizes[which, metric] > 0)
            if not some.size:
                continue
            at = rows[some]
            values = np.empty(at.size, dtype=np.float64)
            known = np.empty(at.size, dtype=np.bool_)
            metric_values(
                buf,
                lines.text_start[at],
                lines.end[at],
                shape[at],
                metric,
                store.metric_anchors,
                store.metric_sizes,
                values,
                known,
            )
            kept = np.flatnonzero(known)
            if kept.size:
                at = at[kept]
                kinds = np.full(kept.size, metric, dtype=np.int8)
                files = np.full(kept.size, file, dtype=np.int32)
                self.metrics.append((kinds, shape[at], writer[at], files, lines.number[at], times[at], values[kept]))

    def finished(self) -> tuple[IterationSeries, MetricSeries]:
        i32, i64 = np.int32, np.int64
        return (
            IterationSeries(*(joined(self.iterations, c, t) for c, t in enumerate((i32, i32, i32, i64, i64, i64)))),
            MetricSeries(
                *(joined(self.metrics, c, t) for c, t in enumerate((np.int8, i32, i32, i32, i64, i64, np.float64)))
            ),
        )
