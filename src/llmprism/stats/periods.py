"""The period of an event series: weighted impulses in time, with jitter, missing events and noise.

Idea. If events come every P seconds, pairs of events P apart are far more common than chance. The pairs are counted
by lag with the autocorrelation of the binned series (one FFT), and for each lag L the pairs within `tolerance * L` of
it are compared with what a structureless series of the same weight would have there. Because the window grows with the
lag, that ratio is highest at the fundamental period: at 2P and 3P the same pairs meet twice and three times the window.
Only lags behind the first trough count, so that the width of a burst is not taken for a period. The winner is refined
by the centroid of its pairs, taken over as many multiples of it as hold together.

Only neighbouring events have to keep their distance: steps whose lengths wander are found as well as a strict clock.
Sub-structure that is stronger than the period itself (micro-batches inside a step) wins unless `shortest` excludes it.

Reference: the autocorrelation estimate of a point process's pair density, e.g. D. R. Cox and P. A. W. Lewis, The
Statistical Analysis of Series of Events (1966), chapter 5.

>>> import numpy as np
>>> random = np.random.default_rng(3)
>>> times = np.arange(60) * 0.25 + random.normal(0.0, 0.004, 60)
>>> kept = times[random.random(60) > 0.3]
>>> found = estimate_period(kept)
>>> round(found.period, 3), found.strength > 0.8
(0.25, True)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike, NDArray

__all__ = ["Period", "estimate_period", "lag_contrast"]

DEFAULT_TOLERANCE: Final = 0.06
"""Half-width of the window around a lag, as a share of the lag: healthy training steps vary by a few per cent."""

MAX_BINS: Final = 1 << 18
"""Bins of the time axis at most: 2 MiB per array, and a resolution of 1/4 ms over a minute."""

BINS_PER_SHORTEST: Final = 32
"""Bins within the shortest period looked for: the window of the tolerance is then about four bins wide."""

MIN_CYCLES: Final = 3.0
"""Periods that must fit between the first and the last event: two are needed to see one repeat, the third confirms."""

MIN_EVENTS: Final = 4
"""Fewer events have at most three gaps, which any series could have."""

Float64 = NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Period:
    """`period` in the unit of the times, NaN where there is none.

    `strength` is 1 when every event has its partner one period later and 0 when there are no more of them than chance
    gives; it is comparable between series.
    """

    period: float
    strength: float

    @property
    def found(self) -> bool:
        return bool(np.isfinite(self.period))


NO_PERIOD: Final = Period(float("nan"), 0.0)


def estimate_period(
    times: ArrayLike,
    weights: ArrayLike | None = None,
    *,
    shortest: float | None = None,
    longest: float | None = None,
    tolerance: float = DEFAULT_TOLERANCE,
) -> Period:
    """The period between `shortest` and `longest` (same unit as `times`) whose pairs of events stand out most.

    `shortest` defaults to what the bins can resolve, `longest` to a third of the span. `weights` (bytes, counts; not
    negative) default to 1 each. The order of the events does not matter.
    """
    when, weight = _checked(times, weights, tolerance)
    span = float(np.ptp(when)) if when.size else 0.0
    if when.size < MIN_EVENTS or not span > 0.0 or not weight.sum() > 0.0:
        return NO_PERIOD
    floor = span * BINS_PER_SHORTEST / MAX_BINS
    shortest = max(floor, shortest if shortest is not None else _smallest_plausible(when))
    longest = min(span / MIN_CYCLES, longest if longest is not None else span / MIN_CYCLES)
    width = shortest / BINS_PER_SHORTEST
    if longest < shortest or not width > 0.0:
        return NO_PERIOD
    pairs = _pairs_by_lag(when, weight, width)
    contrast = _contrast(pairs, float(weight.sum()), span, width, tolerance)
    best = _best_lag(contrast, round(shortest / width), min(int(longest / width), contrast.size - 1))
    if best <= 0:
        return NO_PERIOD
    # A full house puts all pairs of neighbours into a window of 2 * tolerance * lag out of one lag.
    strength = (contrast[best] - 1.0) / (1.0 / (2.0 * tolerance) - 1.0)
    return Period(_refined(pairs, best, tolerance) * width, float(np.clip(strength, 0.0, 1.0)))


def lag_contrast(
    times: ArrayLike, lags: ArrayLike, weights: ArrayLike | None = None, *, tolerance: float = DEFAULT_TOLERANCE
) -> Float64:
    """How many times more pairs of events than by chance lie within `tolerance` of each lag (1: as by chance).

    For asking about given candidates; lags of 0 or beyond the span get 0.
    """
    when, weight = _checked(times, weights, tolerance)
    wanted = np.asarray(lags, dtype=np.float64)
    span = float(np.ptp(when)) if when.size else 0.0
    usable = (wanted > 0.0) & (wanted < span)
    out = np.zeros(wanted.shape)
    if not usable.any():
        return out
    width = max(float(wanted[usable].min()) / BINS_PER_SHORTEST, span / MAX_BINS)
    contrast = _contrast(_pairs_by_lag(when, weight, width), float(weight.sum()), span, width, tolerance)
    index = np.rint(wanted[usable] / width).astype(np.int64)
    out[usable] = contrast[np.minimum(index, contrast.size - 1)]
    return out


def _checked(times: ArrayLike, weights: ArrayLike | None, tolerance: float) -> tuple[Float64, Float64]:
    when = np.asarray(times, dtype=np.float64)
    weight = np.ones(when.shape) if weights is None else np.asarray(weights, dtype=np.float64)
    if when.ndim != 1 or when.shape != weight.shape:
        raise ValueError("times and weights must be one-dimensional and of one length")
    if not (np.isfinite(when).all() and np.isfinite(weight).all()) or np.any(weight < 0.0):
        raise ValueError("times must be finite and weights finite and not negative")
    if not 0.0 < tolerance < 0.5:
        raise ValueError("tolerance must lie in (0, 0.5)")
    return when, weight


def _smallest_plausible(when: Float64) -> float:
    """Half the lower quartile of the gaps: shorter than a lone event's period, whatever the jitter or duplicates."""
    gaps = np.diff(np.sort(when))
    gaps = gaps[gaps > 0.0]
    return float(0.5 * np.quantile(gaps, 0.25)) if gaps.size else 0.0


def _pairs_by_lag(when: Float64, weight: Float64, width: float) -> Float64:
    """Sum of the products of weights over all pairs of events, by their distance in bins."""
    bins = np.floor((when - when.min()) / width).astype(np.int64)
    series = np.bincount(bins, weights=weight)
    size = 1 << int(2 * series.size - 1).bit_length()
    spectrum = np.fft.rfft(series, size)
    pairs = np.fft.irfft(spectrum * np.conj(spectrum), size)[: series.size]
    return np.maximum(pairs, 0.0)


def _contrast(pairs: Float64, total: float, span: float, width: float, tolerance: float) -> Float64:
    """For every lag (in bins) the pairs in its window over those of a structureless series of the same weight."""
    lag = np.arange(pairs.size, dtype=np.float64)
    reach = tolerance * lag
    cumulated = np.concatenate(([0.0], np.cumsum(pairs)))
    seen = _at(cumulated, lag + 0.5 + reach) - _at(cumulated, lag + 0.5 - reach)
    chance = (total / span) ** 2 * width * 2.0 * reach * np.maximum(span - lag * width, 0.0)
    # Beyond the last bins there are too few pairs to say anything; one event pair's worth keeps the ratio finite.
    return np.divide(seen, chance, out=np.zeros(pairs.size), where=chance > 0.0)


def _at(cumulated: Float64, position: Float64) -> Float64:
    """Cumulated pairs at a fractional position, each bin's pairs spread evenly over the bin."""
    position = np.clip(position, 0.0, cumulated.size - 1.0)
    return np.interp(position, np.arange(cumulated.size, dtype=np.float64), cumulated)


def _best_lag(contrast: Float64, shortest: int, longest: int) -> int:
    """The lag of highest contrast behind the first trough, or 0 where nothing rises above chance."""
    if longest < shortest:
        return 0
    inside = contrast[shortest : longest + 1]
    below = np.flatnonzero(inside < 1.0)
    if not below.size:
        return 0
    behind = inside[below[0] :]
    best = int(np.argmax(behind))
    return shortest + int(below[0]) + best if behind[best] > 1.0 else 0


def _refined(pairs: Float64, best: int, tolerance: float) -> float:
    """Lag in bins: centroid of the pairs around it, then around its multiples for as long as they agree."""
    period = _centroid(pairs, float(best), tolerance * best)
    multiple = 2
    while multiple * period < pairs.size / 2 and multiple * tolerance < 1.0:
        centre = _centroid(pairs, multiple * period, tolerance * period)
        if not np.isfinite(centre) or abs(centre / multiple - period) > tolerance * period / multiple:
            break
        period = centre / multiple
        multiple += 1
    return period


def _centroid(pairs: Float64, centre: float, reach: float) -> float:
    first, end = max(1, int(np.floor(centre - reach))), min(pairs.size, int(np.ceil(centre + reach)) + 1)
    around = pairs[first:end]
    total = float(around.sum())
    return float(np.arange(first, end) @ around) / total if total > 0.0 else float("nan")
