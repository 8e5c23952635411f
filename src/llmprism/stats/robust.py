"""Location, spread and outliers that survive sick members and small groups.

Idea. A mean and a standard deviation are pulled by the very values they should expose: with ten samples no z-score can
exceed 3, and a few sick members hide each other. Medians and the median absolute deviation (MAD) hold up to half of the
members being sick. In small groups even they are touched by the value under test, so each value is judged against the
*others* only (leave one out). Because the MAD of a handful of values is often zero or tiny by luck, the spread never
goes below a floor that the caller states: the variation that healthy members show anyway.

References: P. J. Rousseeuw and C. Croux, Alternatives to the Median Absolute Deviation, JASA 88 (1993);
B. Iglewicz and D. C. Hoaglin, How to Detect and Handle Outliers (1993) for the cut at 3.5.

>>> leave_one_out_scores([1.00, 1.02, 0.99, 3.00]).round(1).tolist()
[-0.4, 0.4, -0.6, 40.0]
>>> outliers([1.0, 1.0, 2.0]).tolist()
[False, False, True]
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from llmprism.kernel import kernel

__all__ = [
    "DEFAULT_OUTLIER_SCORE",
    "DEFAULT_RELATIVE_FLOOR",
    "Tail",
    "known_max",
    "known_median",
    "known_median_of_others",
    "leave_one_out_scores",
    "mad",
    "outliers",
    "robust_scores",
    "segment_medians",
    "segment_quantiles",
    "weighted_median",
    "weighted_quantile",
]

MAD_TO_SIGMA: Final = 1.4826
"""1 / Φ⁻¹(3/4): makes the MAD of normal values estimate their standard deviation."""

DEFAULT_OUTLIER_SCORE: Final = 3.5
"""Score from which a value is an outlier; the cut that Iglewicz and Hoaglin recommend for MAD scores."""

DEFAULT_RELATIVE_FLOOR: Final = 0.05
"""Smallest spread, as a share of the median: healthy members of one training job differ by a few per cent."""

SMALL_GROUP: Final = 64
"""Up to this many members each is judged without itself; beyond it, one value moves the median and MAD by less than
1/64 of the ranks and all are judged together, which keeps the cost linear."""

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]


class Tail(StrEnum):
    """Which side counts as sick: slow durations are HIGH, slow rates are LOW."""

    HIGH = "high"
    LOW = "low"
    BOTH = "both"


def mad(values: ArrayLike) -> float:
    """Median absolute deviation, scaled to estimate a standard deviation; NaN without values."""
    data = _finite_vector(values)
    if not data.size:
        return float("nan")
    return float(MAD_TO_SIGMA * np.median(np.abs(data - np.median(data))))


def robust_scores(
    values: ArrayLike, *, relative_floor: float = DEFAULT_RELATIVE_FLOOR, absolute_floor: float = 0.0
) -> Float64:
    """(value - median) / MAD, the spread floored at `relative_floor * |median|` and at `absolute_floor` (same unit).

    With no spread at all and no floor, values off the median get an infinite score and the others 0.
    """
    data = _finite_vector(values)
    if not data.size:
        return data
    centre = np.median(data)
    spread = np.asarray(mad(data))
    return _scores(data - centre, _floored(spread, np.asarray(centre), relative_floor, absolute_floor))


def leave_one_out_scores(
    values: ArrayLike, *, relative_floor: float = DEFAULT_RELATIVE_FLOOR, absolute_floor: float = 0.0
) -> Float64:
    """Each value's distance from the median of the others, in units of the others' spread.

    Works from 2 members on (with one there is nobody to compare with: the score is 0) and with up to a third of them
    sick. With two members the two scores tell who is higher, and by how many floors; whether the higher one is sick is
    for the caller to know.
    """
    data = _finite_vector(values)
    if data.size < 2:
        return np.zeros(data.size)
    if data.size > SMALL_GROUP:
        return robust_scores(data, relative_floor=relative_floor, absolute_floor=absolute_floor)
    others = np.broadcast_to(data, (data.size, data.size))[~np.eye(data.size, dtype=np.bool_)]
    others = others.reshape(data.size, data.size - 1)
    centre = np.median(others, axis=1)
    spread = MAD_TO_SIGMA * np.median(np.abs(others - centre[:, None]), axis=1)
    return _scores(data - centre, _floored(spread, centre, relative_floor, absolute_floor))


def outliers(
    values: ArrayLike,
    *,
    tail: Tail = Tail.HIGH,
    score: float = DEFAULT_OUTLIER_SCORE,
    relative_floor: float = DEFAULT_RELATIVE_FLOOR,
    absolute_floor: float = 0.0,
) -> NDArray[np.bool_]:
    """Members whose leave-one-out score lies beyond `score` on the sick side."""
    scores = leave_one_out_scores(values, relative_floor=relative_floor, absolute_floor=absolute_floor)
    if tail is Tail.HIGH:
        return scores > score
    if tail is Tail.LOW:
        return scores < -score
    return np.abs(scores) > score


def weighted_median(values: ArrayLike, weights: ArrayLike) -> float:
    """The value at half of the weight. See `weighted_quantile`."""
    return weighted_quantile(values, weights, 0.5)


def weighted_quantile(values: ArrayLike, weights: ArrayLike, quantile: float) -> float:
    """The smallest value at or below which lies at least `quantile` of the weight; NaN without weight.

    Where the share is met exactly, the mean of that value and the next, so that equal weights give the usual median.

    >>> weighted_quantile([1.0, 2.0, 10.0], [1.0, 1.0, 3.0], 0.5)
    10.0
    """
    data, weight = _finite_vector(values), _finite_vector(weights)
    if data.shape != weight.shape or np.any(weight < 0.0):
        raise ValueError("every value needs one weight that is not negative")
    if not 0.0 <= quantile <= 1.0:
        raise ValueError("quantile must lie in [0, 1]")
    keep = weight > 0.0
    data, weight = data[keep], weight[keep]
    if not data.size:
        return float("nan")
    order = np.argsort(data, kind="stable")
    reached = np.cumsum(weight[order] / weight.max())
    target = quantile * reached[-1]
    at = min(int(np.searchsorted(reached, target * (1.0 - 1e-12))), data.size - 1)
    met_exactly = abs(reached[at] - target) <= 1e-12 * reached[-1]
    after = min(at + 1, data.size - 1) if met_exactly else at
    return float(0.5 * data[order[at]] + 0.5 * data[order[after]])


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


def _floored(spread: Float64, centre: Float64, relative_floor: float, absolute_floor: float) -> Float64:
    if relative_floor < 0.0 or absolute_floor < 0.0:
        raise ValueError("floors must not be negative")
    return np.maximum(np.maximum(spread, relative_floor * np.abs(centre)), absolute_floor)


def _scores(distance: Float64, spread: Float64) -> Float64:
    scores = np.zeros(distance.shape)
    spread = np.broadcast_to(spread, distance.shape)
    known = spread > 0.0
    with np.errstate(over="ignore"):
        scores[known] = distance[known] / spread[known]
    flat = ~known & (distance != 0.0)
    scores[flat] = np.sign(distance[flat]) * np.inf
    return scores


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
