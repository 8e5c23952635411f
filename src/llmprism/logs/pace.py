"""Times per iteration and where their level changes.

The times are those that the lines print, else the differences of the lines' own times. Levels are found by cutting the
series in two where that shortens the sum of absolute deviations (of the logarithms) most, and again in each part.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.logs.joblog import JobLog
from llmprism.logs.metrics import Metric
from llmprism.logs.progress import Progress

__all__ = ["SLOW_RATIO", "IterationTimes", "Slowdown", "find_slowdown", "iteration_times", "level_changes"]

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

SLOW_RATIO: Final = 1.5
"""A level this many times longer than before is a slowdown: healthy captures vary between levels by up to 1.4."""

MIN_SEGMENT: Final = 5
"""Iterations of a level: fewer are a checkpoint or an evaluation."""

MIN_GAIN: Final = 0.25
"""Share of the deviations that a cut must take away to be one."""

WARM_UP: Final = 2
"""First values left out: compilation and connection set-up."""

_MAX_VALUES: Final = 4_000
_CANDIDATES: Final = 128
_COARSE_STEP_NS: Final = 3 * 1_000_000_000
"""Differences of times that lines print in whole seconds say nothing of shorter iterations."""


@dataclass(frozen=True, slots=True)
class IterationTimes:
    iteration: Int64
    time_ns: Int64
    seconds: Float64


@dataclass(frozen=True, slots=True)
class Slowdown:
    """Iterations `start` to `stop` (indices) take `after` seconds instead of `before`; `lasts`: to the end."""

    start: int
    stop: int
    before: float
    after: float
    lasts: bool


def iteration_times(log: JobLog, progress: Progress) -> IterationTimes | None:
    """The series of the writer that prints most of it; None where there is none."""
    printed = _printed_times(log, progress)
    return printed if printed is not None else _differences(progress)


def _printed_times(log: JobLog, progress: Progress) -> IterationTimes | None:
    rows = np.flatnonzero(log.metrics.metric == Metric.STEP_SECONDS)
    if rows.size < 2 * MIN_SEGMENT:
        return None
    writers, counts = np.unique(log.metrics.writer[rows], return_counts=True)
    rows = rows[log.metrics.writer[rows] == writers[np.argmax(counts)]]
    scale = np.array([next((s for m, _, s in shape.metrics if m is Metric.STEP_SECONDS), 1.0) for shape in log.shapes])
    values = log.metrics.value[rows]
    factor = scale[log.metrics.shape[rows]]
    good = np.isfinite(values) & (values > 0)
    rows, values, factor = rows[good][-_MAX_VALUES:], values[good][-_MAX_VALUES:], factor[good][-_MAX_VALUES:]
    if rows.size < 2 * MIN_SEGMENT:
        return None
    seconds = np.where(factor > 0, values * np.abs(factor), 1.0 / np.maximum(values, 1e-12))
    files, lines = log.metrics.file[rows], log.metrics.line[rows]
    track = progress.tracks[int(files[0])]
    place = np.searchsorted(track.line, lines, side="right") - 1
    iteration = np.where(place >= 0, track.value[np.maximum(place, 0)], 0) if track.value.size else np.arange(rows.size)
    return IterationTimes(iteration.astype(np.int64), log.metrics.time_ns[rows], seconds)


def _differences(progress: Progress) -> IterationTimes | None:
    best: IterationTimes | None = None
    for track in progress.tracks:
        if track.value.size < 2 * MIN_SEGMENT or not track.time_ns.all():
            continue
        steps, waits = np.diff(track.value), np.diff(track.time_ns)
        good = (steps > 0) & (waits >= 0)
        coarse = not (track.time_ns % 1_000_000_000).any()
        if coarse and np.median(waits[good] if good.any() else [0]) < _COARSE_STEP_NS:
            continue
        good &= waits > 0
        if good.sum() < 2 * MIN_SEGMENT or (best is not None and good.sum() <= best.seconds.size):
            continue
        at = np.flatnonzero(good)[-_MAX_VALUES:]
        best = IterationTimes(track.value[at + 1], track.time_ns[at + 1], waits[at] / steps[at] / 1e9)
    return best


def level_changes(seconds: Float64) -> list[int]:
    """Indices at which the level changes, ascending."""
    logs = np.log(np.maximum(seconds, 1e-9))
    cuts: list[int] = []
    _cut(logs, 0, logs.size, cuts, depth=4)
    return sorted(cuts)


def _cut(logs: Float64, low: int, high: int, cuts: list[int], depth: int) -> None:
    size = high - low
    if depth == 0 or size < 2 * MIN_SEGMENT:
        return
    whole = float(np.abs(logs[low:high] - np.median(logs[low:high])).sum())
    if whole <= 1e-9 * size:
        return
    candidates = np.unique(np.linspace(low + MIN_SEGMENT, high - MIN_SEGMENT, _CANDIDATES).astype(np.int64))
    best = min(candidates.tolist(), key=lambda at: _cost(logs, low, at, high))
    near = range(
        max(low + MIN_SEGMENT, best - size // _CANDIDATES - 1),
        min(high - MIN_SEGMENT, best + size // _CANDIDATES + 1) + 1,
    )
    best = min(near, key=lambda at: _cost(logs, low, at, high))
    if _cost(logs, low, best, high) > (1 - MIN_GAIN) * whole:
        return
    cuts.append(best)
    _cut(logs, low, best, cuts, depth - 1)
    _cut(logs, best, high, cuts, depth - 1)


def _cost(logs: Float64, low: int, at: int, high: int) -> float:
    left, right = logs[low:at], logs[at:high]
    return float(np.abs(left - np.median(left)).sum() + np.abs(right - np.median(right)).sum())


def find_slowdown(seconds: Float64, *, least: float = SLOW_RATIO) -> Slowdown | None:
    """The slowdown that lasts to the end, else the longest that went by; None where the pace stays."""
    offset = min(WARM_UP, max(seconds.size - 2 * MIN_SEGMENT, 0))
    values = seconds[offset:]
    bounds = [0, *level_changes(values), values.size]
    levels = [float(np.median(values[a:b])) for a, b in pairwise(bounds)]
    found: list[Slowdown] = []
    for number in range(1, len(levels)):
        start, stop = bounds[number], bounds[number + 1]
        before = min(levels[:number])
        own = values[start:stop]
        usual = values[bounds[int(np.argmin(levels[:number]))] : bounds[int(np.argmin(levels[:number])) + 1]]
        if levels[number] >= least * before and np.quantile(own, 0.2) > np.quantile(usual, 0.9):
            found.append(Slowdown(start + offset, stop + offset, before, levels[number], stop == values.size))
    lasting = [slowdown for slowdown in found if slowdown.lasts]
    if lasting:
        return lasting[0]
    return max(found, key=lambda slowdown: slowdown.stop - slowdown.start, default=None)
