"""Medians and spreads that survive sick members, missing values and small groups.

Idea. A mean and a standard deviation are pulled by the very values they should expose: with ten samples no z-score can
exceed 3, and a few sick members hide each other. Medians and the median absolute deviation (MAD) hold up to half of the
members being sick. In small groups even they are touched by the value under test, so that a value may be compared with
the median of the *others* only.

Reference: P. J. Rousseeuw and C. Croux, Alternatives to the Median Absolute Deviation, JASA 88 (1993).
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Float64, Int64, median_deviation
from llmprism.kernel import kernel

__all__ = [
    "MAD_TO_SIGMA",
    "half_of_sum",
    "known_mad",
    "known_max",
    "known_median",
    "known_median_of_others",
    "mad",
    "row_quantiles",
    "segment_medians",
    "segment_quantiles",
]

MAD_TO_SIGMA: Final = 1.4826
"""1 / Φ⁻¹(3/4): makes the MAD of normal values estimate their standard deviation."""


def mad(values: ArrayLike) -> float:
    """Median absolute deviation, scaled to estimate a standard deviation; NaN without values."""
    data = _finite_vector(values)
    if not data.size:
        return float("nan")
    return MAD_TO_SIGMA * median_deviation(data)


def half_of_sum(values: ArrayLike) -> float:
    """The value up to which half of the sum of all lies in smaller ones: the usual one where many are tiny; 0 without
    values."""
    ordered = np.sort(np.asarray(values))
    up_to = np.cumsum(ordered)
    return float(ordered[np.searchsorted(up_to, 0.5 * up_to[-1])]) if ordered.size else 0.0


def segment_medians(values: ArrayLike, offsets: ArrayLike) -> Float64:
    """Median of each `values[offsets[s]:offsets[s + 1]]`; NaN for an empty segment."""
    data, cuts = _finite_vector(values), np.asarray(offsets, dtype=np.int64)
    ordered, lengths = _sorted_segments(data, cuts), np.diff(cuts)
    out = np.full(lengths.size, np.nan)
    filled = lengths > 0
    first, length = cuts[:-1][filled], lengths[filled]
    out[filled] = 0.5 * ordered[first + (length - 1) // 2] + 0.5 * ordered[first + length // 2]
    return out


def segment_quantiles(values: ArrayLike, offsets: ArrayLike, *quantiles: float) -> tuple[Float64, ...]:
    """Quantiles of each `values[offsets[s]:offsets[s + 1]]`, as `np.quantile` has them; NaN for an empty segment."""
    data, cuts = _finite_vector(values), np.asarray(offsets, dtype=np.int64)
    ordered, lengths = _sorted_segments(data, cuts), np.diff(cuts)
    filled = lengths > 0
    first, last = cuts[:-1][filled], cuts[1:][filled] - 1
    result = []
    for quantile in quantiles:
        rank = (last - first) * quantile
        below = np.floor(rank).astype(np.int64)
        low, high = ordered[first + below], ordered[np.minimum(first + below + 1, last)]
        share = rank - below
        out = np.full(lengths.size, np.nan)
        out[filled] = np.where(share < 0.5, low + (high - low) * share, high - (high - low) * (1.0 - share))
        result.append(out)
    return tuple(result)


def row_quantiles(table: ArrayLike, *quantiles: float) -> tuple[Float64, ...]:
    """Quantiles of each row of a table of finite numbers, as `np.quantile` has them; NaN where there are no columns."""
    ordered = np.array(table, dtype=np.float64, order="C")
    ordered.sort(axis=1)
    last = ordered.shape[1] - 1
    if last < 0:
        return tuple(np.full(ordered.shape[0], np.nan) for _ in quantiles)
    result = []
    for quantile in quantiles:
        rank = last * quantile
        low, high, share = ordered[:, int(rank)], ordered[:, min(int(rank) + 1, last)], rank - int(rank)
        result.append(low + (high - low) * share if share < 0.5 else high - (high - low) * (1.0 - share))
    return tuple(result)


def _sorted_at_once(values: Float64, offsets: Int64) -> Float64:
    """The kernel below with one sort for all segments."""
    segment = np.repeat(np.arange(offsets.size - 1), np.diff(offsets))
    ordered: Float64 = values[np.lexsort((values, segment))]
    return ordered


@kernel(small=_sorted_at_once)
def _sorted_segments(values: Float64, offsets: Int64) -> Float64:
    """The values, ascending within each segment."""
    ordered = values.copy()
    for segment in range(offsets.size - 1):
        ordered[offsets[segment] : offsets[segment + 1]].sort()
    return ordered


def _finite_vector(values: ArrayLike) -> Float64:
    data = np.asarray(values, dtype=np.float64)
    if data.ndim != 1:
        raise ValueError("values must be one-dimensional")
    if not np.isfinite(data).all():
        raise ValueError("values must be finite")
    return data


def known_median(values: Float64, axis: int = 0) -> Float64:
    """Median of the known values along one axis of any array; NaN (and no warning) where none is known.

    >>> known_median(np.array([[1.0, np.nan], [3.0, np.nan]])).tolist()
    [2.0, nan]
    """
    if not values.shape[axis]:
        return np.full(np.delete(values.shape, axis), np.nan)
    ordered = np.sort(values, axis=axis)  # NaN last
    count = np.isfinite(values).sum(axis=axis, keepdims=True)
    middle = np.maximum(count - 1, 0)
    low = np.take_along_axis(ordered, middle // 2, axis=axis)
    high = np.take_along_axis(ordered, (middle + 1) // 2, axis=axis)
    return np.asarray(np.squeeze(np.where(count > 0, (low + high) / 2.0, np.nan), axis=axis))


def known_mad(rows: Float64) -> Float64:
    """Median absolute deviation of the known values of each row, scaled as `mad` does; NaN where none is known.

    >>> known_mad(np.array([[1.0, 3.0, np.nan], [np.nan, np.nan, np.nan]])).round(2).tolist()
    [1.48, nan]
    """
    return MAD_TO_SIGMA * known_median(np.abs(rows - known_median(rows, axis=1)[:, None]), axis=1)


def known_median_of_others(values: Float64) -> Float64:
    """Per column, for each row the median of the known values of the other rows; NaN where none of them is known.

    >>> known_median_of_others(np.array([[1.0], [2.0], [4.0], [np.nan]])).ravel().tolist()
    [3.0, 2.5, 1.5, 2.0]
    """
    known = np.isfinite(values)
    ordered = np.sort(values, axis=0)  # NaN last
    others = known.sum(axis=0) - known
    middle = np.maximum(others - 1, 0)

    def other(rank: Int64) -> Float64:
        """The value of this rank among the others: from the row's own on, the next."""
        here = np.take_along_axis(ordered, rank, axis=0)
        after = np.take_along_axis(ordered, np.minimum(rank + 1, len(values) - 1), axis=0)
        return np.where(known & (here >= values), after, here)

    return np.where(others > 0, (other(middle // 2) + other((middle + 1) // 2)) / 2.0, np.nan)


def known_max(values: Float64, axis: int = 0) -> Float64:
    """Largest of the known values along one axis; NaN (and no warning) where none is known."""
    largest = np.where(np.isfinite(values), values, -np.inf).max(axis=axis, initial=-np.inf)
    return np.asarray(np.where(np.isneginf(largest), np.nan, largest))
