"""Iteration numbers and metrics as the lines print them, thinned so that they stay small, in reading order."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from llmprism.logs.joblog import IterationSeries, MetricSeries
from llmprism.logs.kernels import numbers_after
from llmprism.logs.metrics import METRICS, metric_values
from llmprism.logs.scan import Lines
from llmprism.logs.shape_store import ShapeStore

__all__ = ["SeriesReader", "joined"]

Int32 = NDArray[np.int32]
Int64 = NDArray[np.int64]

_PER_SCAN: Final = 2_000
"""Values kept of one scan of at most 131,072 lines: a week of iterations stays below a million values."""

_LAST_KEPT: Final = 64
"""The last values of a scan are kept whatever the thinning: they say how the run ended."""


def joined(parts: list[tuple[Any, ...]], column: int, dtype: type) -> Any:
    """One column of the pieces gathered per scan, as one array."""
    if not parts:
        return np.zeros(0, dtype=dtype)
    return np.concatenate([part[column] for part in parts]).astype(dtype, copy=False)


def _thinned(kept: Int64) -> Int64:
    if kept.size <= _PER_SCAN:
        return kept
    stride = -(-kept.size // _PER_SCAN)
    return np.unique(np.concatenate([kept[::stride], kept[-_LAST_KEPT:]]))


@dataclass(slots=True)
class SeriesReader:
    iterations: list[tuple[Any, ...]] = field(default_factory=list)
    metrics: list[tuple[Any, ...]] = field(default_factory=list)

    def take_iterations(
        self,
        buf: NDArray[np.uint8],
        lines: Lines,
        rows: Int64,
        shape: Int32,
        writer: Int32,
        times: Int64,
        store: ShapeStore,
        file: int,
    ) -> Int64:
        """Keep the iteration numbers of these rows; all of them, -1 where a line has none."""
        values = np.empty(rows.size, dtype=np.int64)
        which = shape[rows]
        numbers_after(buf, lines.text_start[rows], lines.end[rows], which, store.anchors, store.anchor_sizes, values)
        changed = np.ones(rows.size, dtype=np.bool_)
        changed[1:] = (values[1:] != values[:-1]) | (which[1:] != which[:-1])
        kept = _thinned(np.flatnonzero(changed & (values >= 0)))
        if kept.size:
            at = rows[kept]
            files = np.full(kept.size, file, dtype=np.int32)
            self.iterations.append((which[kept], writer[at], files, lines.number[at], times[at], values[kept]))
        return values

    def take_metrics(
        self,
        buf: NDArray[np.uint8],
        lines: Lines,
        rows: Int64,
        shape: Int32,
        writer: Int32,
        times: Int64,
        store: ShapeStore,
        file: int,
    ) -> None:
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
            kept = _thinned(np.flatnonzero(known))
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
