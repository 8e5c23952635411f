"""Bursts of events: where the rhythm of a series of times changes, a new burst begins.

Idea, from the LLMPrism paper (arXiv 2505.00342): the flows of one training step follow each other closely, and the
pause before the next step stands out among the gaps between their starts. Bayesian online change-point detection on the
gaps finds those pauses without a fixed limit; the event behind a changed gap opens a new burst.

>>> import numpy as np
>>> times = np.concatenate([step * 1000 + np.arange(20) * 10 for step in range(3)])
>>> np.bincount(burst_labels(times, [0, times.size])).tolist()
[20, 20, 20]
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Int64
from llmprism.kernel import kernel
from llmprism.stats.change_points import DEFAULT_THRESHOLD, change_points

__all__ = ["burst_labels", "running_max"]


def burst_labels(times: ArrayLike, offsets: ArrayLike, *, threshold: float = DEFAULT_THRESHOLD) -> Int64:
    """For each event the number of its burst, counted from 0 within its series.

    `times` ascend within each series `times[offsets[s]:offsets[s + 1]]`; `threshold` is that of `change_points`.
    """
    when, cuts = np.asarray(times, dtype=np.int64), np.asarray(offsets, dtype=np.int64)
    lengths = np.diff(cuts)
    opens_series = np.zeros(when.size, dtype=np.bool_)
    opens_series[cuts[:-1][lengths > 0]] = True
    gap_offsets = np.concatenate(([0], np.cumsum(np.maximum(lengths - 1, 0))))
    follows = np.flatnonzero(~opens_series)
    changed = change_points(when[follows] - when[follows - 1], gap_offsets, threshold=threshold)
    opens_burst = np.zeros(when.size, dtype=np.int64)
    opens_burst[follows] = changed
    counted = np.concatenate(([0], np.cumsum(opens_burst)))
    # No first event of a series opens a burst, so the count before it is the count of the series before.
    labels: Int64 = counted[1:] - np.repeat(counted[cuts[:-1]], lengths)
    return labels


def running_max(values: ArrayLike, offsets: ArrayLike) -> Int64:
    """The largest value so far, within each series.

    >>> running_max([3, 1, 4, 2, 7], [0, 3, 5]).tolist()
    [3, 3, 4, 2, 7]
    """
    result: Int64 = _running_max(
        np.ascontiguousarray(values, dtype=np.int64), np.ascontiguousarray(offsets, dtype=np.int64)
    )
    return result


def _running_max_by_arrays(values: Int64, offsets: Int64) -> Int64:
    """The kernel below without a loop: every series lies above the one before it, so that one pass serves all."""
    if not values.size:
        return values.copy()
    least, series = int(values.min()), offsets.size - 1
    span = int(values.max()) - least + 1
    if span * series > np.iinfo(np.int64).max:
        parts = [np.maximum.accumulate(values[first:after]) for first, after in pairwise(offsets.tolist())]
        return np.concatenate(parts)
    floor = np.repeat(np.arange(series) * span, np.diff(offsets))
    highest: Int64 = np.maximum.accumulate(values - least + floor) - floor + least
    return highest


@kernel(by_arrays=_running_max_by_arrays)
def _running_max(values: Int64, offsets: Int64) -> Int64:
    out = values.copy()
    for series in range(offsets.size - 1):
        for i in range(offsets[series] + 1, offsets[series + 1]):
            out[i] = max(out[i], out[i - 1])
    return out
