"""Bayesian online change-point detection over one series or over many series cut by offsets.

Idea. A series is a chain of runs; inside a run the values are normal with a mean and a variance of their own. For
every value `t` the detector keeps, for each position where the present run may have begun, the posterior weight of
that beginning. A new value multiplies every weight by how well that run predicted it (a Student t, because mean and
variance are integrated out under their Normal-inverse-gamma prior), by the chance that the run went on, and opens one
more beginning: this value itself. With a constant hazard the recursion is exact; here beginnings whose weight is
negligible are dropped, and at most `MAX_RUNS` are kept, so time is linear in the number of values.

The probability reported for value `t` is that of a run that begins at `t`, given the values up to `t + lag`. In the
words of the paper that is P(run length = lag + 1), without the share of runs that would begin after the last value seen
(which under a constant hazard is the hazard, always, and says nothing).

Each series is standardised first (mean 0, standard deviation 1), so that results depend neither on the unit nor on the
origin; this makes the prior an empirical one. `standardize=False` gives the textbook recursion.

Reference: R. P. Adams and D. J. C. MacKay, Bayesian Online Changepoint Detection, arXiv 0710.3742 (2007).

>>> import numpy as np
>>> random = np.random.default_rng(7)
>>> values = np.concatenate([random.normal(0.0, 1.0, 40), random.normal(12.0, 1.0, 40)])
>>> np.flatnonzero(change_points(values)).tolist()
[40]
>>> float(change_probability(values)[40].round(4))
0.9926
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import ArrayLike

from llmprism.arrays import Bool, Float64, Int64
from llmprism.kernel import compiled_kernel

__all__ = [
    "DEFAULT_HAZARD",
    "DEFAULT_THRESHOLD",
    "NormalInverseGamma",
    "change_points",
    "change_probability",
]

DEFAULT_THRESHOLD: Final = 0.95
"""Probability from which a change counts: the value of the LLMPrism paper (arXiv 2505.00342)."""

DEFAULT_HAZARD: Final = 0.01
"""Prior chance of a change at each value. A run of a hundred values is the order of one training step's flows on one
pair; the result depends on it only through its logarithm."""

MAX_RUNS: Final = 64
"""Beginnings kept per value; time grows with it. Against the exact recursion the probability is then off by 0.03 at
most on noise, steps, walks and heavy tails alike, and no decision at 0.95 differs (see the tests of this module)."""

NEGLIGIBLE: Final = 1e-8
"""Weight, relative to the heaviest beginning, below which a beginning is dropped: it would need eight decades of
evidence to come back."""


@dataclass(frozen=True, slots=True)
class NormalInverseGamma:
    """Prior of a run: variance ~ InverseGamma(shape, scale), mean ~ Normal(mean, variance / strength).

    The defaults suit standardised values: the variance inside a run is about a tenth of that of the whole series
    (`scale`), the means of the runs spread like the series itself (`scale / strength` = 1), and `shape` 1 is the belief
    of two observations. With `scale` = `strength` anywhere between 0.01 and 0.3 the steps of simulated gap series come
    out alike; at 1 a lone long gap is not seen, at 0.001 its successor is reported as well.
    """

    mean: float = 0.0
    strength: float = 0.1
    shape: float = 1.0
    scale: float = 0.1

    def __post_init__(self) -> None:
        positive = (self.strength, self.shape, self.scale)
        if not math.isfinite(self.mean) or not all(math.isfinite(value) and value > 0.0 for value in positive):
            raise ValueError("the prior needs a finite mean and positive, finite strength, shape and scale")


STANDARD_PRIOR: Final = NormalInverseGamma()


def change_points(
    values: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    threshold: float = DEFAULT_THRESHOLD,
    hazard: float = DEFAULT_HAZARD,
    lag: int = 0,
    prior: NormalInverseGamma = STANDARD_PRIOR,
    standardize: bool = True,
) -> Bool:
    """True where a run begins with probability `threshold` or more; the parameters are those of `change_probability`.

    The first value of a series begins a run by definition and is never reported.
    """
    if not 0.0 < threshold <= 1.0:
        raise ValueError("threshold must lie in (0, 1]")
    probability = change_probability(values, offsets, hazard=hazard, lag=lag, prior=prior, standardize=standardize)
    return probability >= threshold


def change_probability(
    values: ArrayLike,
    offsets: ArrayLike | None = None,
    *,
    hazard: float = DEFAULT_HAZARD,
    lag: int = 0,
    prior: NormalInverseGamma = STANDARD_PRIOR,
    standardize: bool = True,
) -> Float64:
    """For each value the probability that a run begins with it, given the values up to `lag` after it.

    `values` are finite numbers; series `s` is `values[offsets[s]:offsets[s + 1]]`, and without `offsets` all values are
    one series. `lag` 0 decides on the value itself; a larger one waits for that many more, which tells a lone outlier
    from a new regime. The first value of every series, and the last `lag` of it, get 0.
    """
    series = np.ascontiguousarray(values, dtype=np.float64)
    cuts = np.array([0, series.size], dtype=np.int64) if offsets is None else np.asarray(offsets, dtype=np.int64)
    _check(series, cuts, hazard, lag)
    if standardize:
        series = _standardized(series, cuts)
    longest = int(np.diff(cuts).max(initial=0))
    log_norm, half_dof, shrink = _predictive_tables(longest, prior)
    mean, strength, scale = float(prior.mean), float(prior.strength), float(prior.scale)
    out: Float64 = _probabilities(series, cuts, hazard, lag, mean, strength, scale, log_norm, half_dof, shrink)
    return out


def _check(series: Float64, cuts: Int64, hazard: float, lag: int) -> None:
    if series.ndim != 1 or cuts.ndim != 1:
        raise ValueError("values and offsets must be one-dimensional")
    if cuts.size == 0 or cuts[0] != 0 or cuts[-1] != series.size or np.any(np.diff(cuts) < 0):
        raise ValueError("offsets must ascend from 0 to the number of values")
    if not 0.0 < hazard < 1.0:
        raise ValueError("hazard must lie in (0, 1)")
    if lag < 0:
        raise ValueError("lag must not be negative")
    if not np.isfinite(series).all():
        raise ValueError("values must be finite")


def _predictive_tables(longest: int, prior: NormalInverseGamma) -> tuple[Float64, Float64, Float64]:
    """Parts of the Student-t log density that depend only on how many values the run holds.

    With `n` values: shape a = shape + n/2, strength k = strength + n, and
    log density = log_norm[n] - log(scale_n)/2 - half_dof[n] * log1p(shrink[n] * distance² / scale_n).
    """
    count = np.arange(longest + 1, dtype=np.float64)
    shape, strength = prior.shape + count / 2.0, prior.strength + count
    log_gammas = _log_gamma_steps(longest, float(prior.shape))
    log_norm = log_gammas - 0.5 * np.log(2.0 * math.pi * (strength + 1.0) / strength)
    return log_norm, shape + 0.5, strength / (2.0 * (strength + 1.0))


@compiled_kernel
def _log_gamma_steps(longest: int, shape: float) -> Float64:
    out = np.empty(longest + 1)
    for count in range(longest + 1):
        out[count] = math.lgamma(shape + 0.5 * count + 0.5) - math.lgamma(shape + 0.5 * count)
    return out


@compiled_kernel
def _standardized(values: Float64, offsets: Int64) -> Float64:
    """Each series with mean 0 and standard deviation 1; a series without spread becomes zeros.

    Dividing by the largest magnitude first keeps squares of huge and of tiny numbers inside the range of floats.
    """
    out = np.zeros(values.size)
    for series in range(offsets.size - 1):
        first, end = offsets[series], offsets[series + 1]
        if end - first < 2:
            continue
        low, high = values[first], values[first]
        for i in range(first, end):
            low, high = min(low, values[i]), max(high, values[i])
        middle, half = 0.5 * low + 0.5 * high, 0.5 * high - 0.5 * low
        if half <= 1e-300 or half <= 1e-15 * abs(middle):
            continue
        mean = 0.0
        for i in range(first, end):
            out[i] = (values[i] - middle) / half
            mean += out[i]
        mean /= end - first
        square = 0.0
        for i in range(first, end):
            square += (out[i] - mean) ** 2
        deviation = math.sqrt(square / (end - first))
        for i in range(first, end):
            out[i] = (out[i] - mean) / deviation
    return out


@compiled_kernel
def _probabilities(
    values: Float64,
    offsets: Int64,
    hazard: float,
    lag: int,
    prior_mean: float,
    prior_strength: float,
    prior_scale: float,
    log_norm: Float64,
    half_dof: Float64,
    shrink: Float64,
) -> Float64:
    """The recursion; `weight` holds the log posterior of each beginning, the newest last."""
    out = np.zeros(values.size)
    log_hazard, log_survival = math.log(hazard), math.log1p(-hazard)
    log_negligible = math.log(NEGLIGIBLE)
    begin = np.empty(MAX_RUNS + 1, dtype=np.int64)
    weight, mean, scale = np.empty(MAX_RUNS + 1), np.empty(MAX_RUNS + 1), np.empty(MAX_RUNS + 1)
    for series in range(offsets.size - 1):
        first, end = offsets[series], offsets[series + 1]
        runs = 0
        for t in range(first, end):
            x = values[t]
            for run in range(runs):
                size = t - begin[run]
                part = (x - mean[run]) * (x - mean[run]) * shrink[size] / scale[run]
                fit = log_norm[size] - 0.5 * math.log(scale[run]) - half_dof[size] * math.log1p(part)
                weight[run] += log_survival + fit
            begin[runs], mean[runs], scale[runs] = t, prior_mean, prior_scale
            part = (x - prior_mean) * (x - prior_mean) * shrink[0] / prior_scale
            fit = log_norm[0] - 0.5 * math.log(prior_scale) - half_dof[0] * math.log1p(part)
            # The weights of the value before sum to 1, so a new run's prior weight is the hazard alone.
            weight[runs] = log_hazard + fit
            runs = _pruned(runs + 1, log_negligible, begin, weight, mean, scale)
            total = 0.0
            for run in range(runs):
                total += math.exp(weight[run])
            log_total = math.log(total)
            for run in range(runs):
                weight[run] -= log_total
                size = t - begin[run]
                distance, strength = x - mean[run], prior_strength + size
                scale[run] += distance * distance * shrink[size]
                mean[run] += distance / (strength + 1.0)
                if size == lag and begin[run] > first:
                    out[begin[run]] = math.exp(weight[run])
    return out


@compiled_kernel
def _pruned(runs: int, log_negligible: float, begin: Int64, weight: Float64, mean: Float64, scale: Float64) -> int:
    """Drop negligible beginnings, then the lightest where there are too many; weights are shifted to a maximum of 0."""
    heaviest = weight[0]
    for run in range(1, runs):
        heaviest = max(heaviest, weight[run])
    kept, lightest = 0, 0
    for run in range(runs):
        shifted = weight[run] - heaviest
        if shifted < log_negligible:
            continue
        begin[kept], weight[kept], mean[kept], scale[kept] = begin[run], shifted, mean[run], scale[run]
        if shifted < weight[lightest]:
            lightest = kept
        kept += 1
    if kept <= MAX_RUNS:
        return kept
    for run in range(lightest, kept - 1):
        begin[run], weight[run] = begin[run + 1], weight[run + 1]
        mean[run], scale[run] = mean[run + 1], scale[run + 1]
    return kept - 1
