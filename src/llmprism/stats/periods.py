"""The period of an event series: weighted impulses in time, with jitter, missing events and noise.

Idea. If events come every P seconds, pairs of events P apart are far more common than pairs of any other distance near
P. The pairs are counted by lag with the autocorrelation of the binned series (one FFT), and for each lag L the density
of the pairs within `tolerance * L` of it is compared with that from L/2 to 3L/2. Because both windows grow with the
lag, the ratio is highest at the fundamental period: around 2P the window has pairs at P and 3P beside it. Because the
comparison is local, neither the width of a burst nor a long silence in the series is taken for a period. The winner is
refined by the centroid of its pairs, taken over as many multiples of it as hold together.

Only neighbouring events have to keep their distance: steps whose lengths wander are found as well as a strict clock.
Sub-structure that is stronger than the period itself (micro-batches inside a step) wins unless `shortest` excludes it.
Fed with raw records of a busy pair the answer is weak (a strength of a few per cent on the real captures): feed it
with events that happen once a step, and believe no answer whose strength is low.

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

BACKGROUND: Final = 0.5
"""Half-width of what a lag is compared with, as a share of the lag: up to where the next multiple would begin."""

MAX_BINS: Final = 1 << 18
"""Bins of the time axis at most: 2 MiB per array, and a resolution of 1/4 ms over a minute."""

BINS_PER_SHORTEST: Final = 32
"""Bins within the shortest period looked for: the window of the tolerance is then about four bins wide."""

PEAK_ROUNDS: Final = 8
"""Rounds of the climb to a peak: it starts inside the peak's window and each round covers most of the rest."""

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
    contrast = _contrast(pairs, tolerance)
    best = _best_lag(contrast, round(shortest / width), min(int(longest / width), contrast.size - 1))
    if best <= 0:
        return NO_PERIOD
    # A full house puts all pairs of neighbours into a window of 2 * tolerance * lag out of one lag.
    strength = (contrast[best] - 1.0) / (1.0 / (2.0 * tolerance) - 1.0)
    return Period(_refined(pairs, best, tolerance) * width, float(np.clip(strength, 0.0, 1.0)))


def lag_contrast(
    times: ArrayLike, lags: ArrayLike, weights: ArrayLike | None = None, *, tolerance: float = DEFAULT_TOLERANCE
) -> Float64:
    """How many times denser the pairs within `tolerance` of each lag are than those around it (1: no peak there).

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
    contrast = _contrast(_pairs_by_lag(when, weight, width), tolerance)
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


def _contrast(pairs: Float64, tolerance: float) -> Float64:
    """For every lag (in bins) the density of pairs in its window over that in its surroundings."""
    lag = np.arange(pairs.size, dtype=np.float64)
    cumulated = np.concatenate(([0.0], np.cumsum(pairs)))
    seen = _between(cumulated, lag * (1.0 - tolerance), lag * (1.0 + tolerance)) / (2.0 * tolerance)
    around = _between(cumulated, lag * (1.0 - BACKGROUND), lag * (1.0 + BACKGROUND)) / (2.0 * BACKGROUND)
    return np.divide(seen, around, out=np.zeros(pairs.size), where=around > 0.0)


def _between(cumulated: Float64, low: Float64, high: Float64) -> Float64:
    """Pairs between two lags, each bin's pairs spread evenly over the bin, which is centred at its number."""
    return _at(cumulated, high + 0.5) - _at(cumulated, low + 0.5)


def _at(cumulated: Float64, position: Float64) -> Float64:
    """Cumulated pairs at a fractional position, each bin's pairs spread evenly over the bin."""
    position = np.clip(position, 0.0, cumulated.size - 1.0)
    return np.interp(position, np.arange(cumulated.size, dtype=np.float64), cumulated)


def _best_lag(contrast: Float64, shortest: int, longest: int) -> int:
    """The lag of highest contrast, or 0 where nothing rises above its surroundings."""
    inside = contrast[shortest : longest + 1]
    if not inside.size:
        return 0
    best = int(np.argmax(inside))
    return shortest + best if inside[best] > 1.0 else 0


def _refined(pairs: Float64, best: int, tolerance: float) -> float:
    """Lag in bins: the peak of the pairs around it, then around its multiples for as long as they agree."""
    reach = tolerance * best
    period = _peak(pairs, float(best), reach)
    multiple = 2
    while multiple * period < pairs.size / 2 and multiple * tolerance < 1.0:
        centre = _peak(pairs, multiple * period, reach)
        if not abs(centre - multiple * period) <= reach:
            break
        period = centre / multiple
        multiple += 1
    return period


def _peak(pairs: Float64, centre: float, reach: float) -> float:
    """Climbs to the nearest peak: the centroid of the pairs within `reach`, again and again (mean shift)."""
    for _ in range(PEAK_ROUNDS):
        first, end = max(1, round(centre - reach)), min(pairs.size, round(centre + reach) + 1)
        around = pairs[first:end]
        total = float(around.sum())
        if not total > 0.0:
            return float("nan")
        centre = float(np.arange(first, end) @ around) / total
    return centre
