"""Times per iteration and where their level changes.

The times are those that the lines print, else the differences of the lines' own times. The level at an iteration is the
median of the last ten; a slowdown is a stretch where it lies well above the lowest level before.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.logs.joblog import JobLog
from llmprism.logs.metrics import Metric
from llmprism.logs.progress import Progress
from llmprism.logs.rules import RULES, LogRules

__all__ = ["IterationTimes", "Slowdown", "find_slowdown", "iteration_times", "smoothed"]


_MAX_VALUES: Final = 4_000


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


def iteration_times(log: JobLog, progress: Progress, rules: LogRules = RULES) -> IterationTimes | None:
    """The series of the writer that prints most of it; None where there is none."""
    printed = _printed_times(log, progress, rules)
    return printed if printed is not None else _differences(progress, rules)


def _printed_times(log: JobLog, progress: Progress, rules: LogRules) -> IterationTimes | None:
    rows = np.flatnonzero(log.metrics.metric == Metric.STEP_SECONDS)
    if rows.size < 2 * rules.pace_segment:
        return None
    writers, counts = np.unique(log.metrics.writer[rows], return_counts=True)
    rows = rows[log.metrics.writer[rows] == writers[np.argmax(counts)]]
    scale = np.array([next((s for m, _, s in shape.metrics if m is Metric.STEP_SECONDS), 1.0) for shape in log.shapes])
    values = log.metrics.value[rows]
    factor = scale[log.metrics.shape[rows]]
    good = np.isfinite(values) & (values > 0)
    rows, values, factor = rows[good][-_MAX_VALUES:], values[good][-_MAX_VALUES:], factor[good][-_MAX_VALUES:]
    if rows.size < 2 * rules.pace_segment:
        return None
    seconds = np.where(factor > 0, values * np.abs(factor), 1.0 / np.maximum(values, 1e-12))
    files, lines = log.metrics.file[rows], log.metrics.line[rows]
    track = progress.tracks[int(files[0])]
    place = np.searchsorted(track.line, lines, side="right") - 1
    iteration = np.where(place >= 0, track.value[np.maximum(place, 0)], 0) if track.value.size else np.arange(rows.size)
    return IterationTimes(iteration.astype(np.int64), log.metrics.time_ns[rows], seconds)


def _differences(progress: Progress, rules: LogRules) -> IterationTimes | None:
    best: IterationTimes | None = None
    for track in progress.tracks:
        if track.value.size < 2 * rules.pace_segment or not track.time_ns.all():
            continue
        steps, waits = np.diff(track.value), np.diff(track.time_ns)
        good = (steps > 0) & (waits >= 0)
        coarse = not (track.time_ns % 1_000_000_000).any()
        if coarse and np.median(waits[good] if good.any() else [0]) < rules.coarse_step_ns:
            continue
        good &= waits > 0
        if good.sum() < 2 * rules.pace_segment or (best is not None and good.sum() <= best.seconds.size):
            continue
        at = np.flatnonzero(good)[-_MAX_VALUES:]
        best = IterationTimes(track.value[at + 1], track.time_ns[at + 1], waits[at] / steps[at] / 1e9)
    return best


def smoothed(values: Float64, width: int) -> Float64:
    """The median of the `width` values that end at each one; of fewer at the start.

    The width is even: of values that alternate between two levels the median is then the middle between them.
    """
    if values.size <= width:
        return np.array([np.median(values[: i + 1]) for i in range(values.size)])
    windows = np.lib.stride_tricks.sliding_window_view(values, width)
    head = [np.median(values[: i + 1]) for i in range(width - 1)]
    return np.concatenate([head, np.median(windows, axis=1)])


def find_slowdown(seconds: Float64, rules: LogRules = RULES, *, least: float | None = None) -> Slowdown | None:
    """The slowdown that lasts to the end, else the longest that went by; None where the pace stays."""
    least = rules.slow_ratio if least is None else least
    offset = min(rules.warm_up, max(seconds.size - 2 * rules.pace_segment, 0))
    values = seconds[offset:]
    if values.size < 2 * rules.pace_segment:
        return None
    level = smoothed(values, rules.pace_window)
    level[: rules.pace_segment - 1] = level[rules.pace_segment - 1]
    usual = np.minimum.accumulate(level)
    slow = level > least * usual
    edges = np.flatnonzero(np.diff(np.concatenate([[False], slow, [False]]).astype(np.int8)))
    found: list[Slowdown] = []
    for begin, end in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
        before = float(usual[begin])
        start = _first_slow(values, begin, before, least, rules.pace_window)
        stop = values.size if end == values.size else _last_slow(values, start, end, before, least)
        if stop - start >= rules.pace_segment:
            after = float(np.median(values[start:stop]))
            found.append(Slowdown(start + offset, stop + offset, before, after, stop == values.size))
    lasting = [slowdown for slowdown in found if slowdown.lasts]
    if lasting:
        return lasting[-1]
    return max(found, key=lambda slowdown: slowdown.stop - slowdown.start, default=None)


def _first_slow(values: Float64, begin: int, before: float, least: float, window: int) -> int:
    """The iteration at which the slow ones begin: the median shows them half a window later."""
    start = begin
    while start > 0 and begin - start < window and values[start - 1] > (1 + least) / 2 * before:
        start -= 1
    return start


def _last_slow(values: Float64, start: int, end: int, before: float, least: float) -> int:
    stop = end
    while stop > start and values[stop - 1] <= (1 + least) / 2 * before:
        stop -= 1
    return stop
