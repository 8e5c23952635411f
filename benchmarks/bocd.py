"""Our change-point kernel against the exact recursion of the `changepoint` package (Rust), in one run.

Claim: the kernel is linear in the length of the series and, from some hundred values on, faster than the exact
recursion, which is quadratic, while deciding the same. Prints, per length, seconds of both, their ratio, and the
largest difference between the two probabilities; then how the kernel's time grows from the shortest to the longest.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import changepoint
import numpy as np
from numpy.typing import NDArray

from llmprism.stats.change_points import DEFAULT_HAZARD, NormalInverseGamma, change_probability

LENGTHS = (250, 1_000, 4_000)
KERNEL_ONLY_LENGTHS = (100_000, 1_000_000)
REPEATS = 3

Float64 = NDArray[np.float64]


def step_gaps(length: int) -> Float64:
    """Gaps as a pair shows them: twenty short ones, then the pause before the next step."""
    random = np.random.default_rng(length)
    gaps: Float64 = np.exp(random.normal(0.0, 0.5, length))
    gaps[20::21] = 20.0
    return (gaps - float(gaps.mean())) / float(gaps.std())


def exact(values: Float64) -> Float64:
    prior = NormalInverseGamma()
    law = changepoint.Prior.normal_inv_gamma(prior.mean, 1.0 / prior.strength, prior.shape, prior.scale)
    detector = changepoint.Bocpd(law, 1.0 / DEFAULT_HAZARD)
    detector.step(0.0)  # the package skips the first value it is given
    out = np.zeros(values.size)
    for t, value in enumerate(values.tolist()):
        run_length = detector.step(value)
        out[t] = run_length[1] / (1.0 - DEFAULT_HAZARD) if t else 0.0
    return out


def kernel(values: Float64) -> Float64:
    return change_probability(values, standardize=False)


def best_of(function: Callable[[Float64], Float64], values: Float64) -> tuple[float, Float64]:
    seconds, result = float("inf"), values
    for _ in range(REPEATS):
        begin = time.perf_counter()
        result = function(values)
        seconds = min(seconds, time.perf_counter() - begin)
    return seconds, result


def main() -> None:
    kernel(step_gaps(50))  # compile, or load what was compiled before
    print(f"{'values':>9} {'changepoint s':>14} {'kernel s':>10} {'ratio':>8} {'largest difference':>19}")
    for length in LENGTHS:
        values = step_gaps(length)
        slow, truth = best_of(exact, values)
        fast, ours = best_of(kernel, values)
        print(f"{length:>9} {slow:>14.4f} {fast:>10.5f} {slow / fast:>8.1f} {np.abs(ours - truth).max():>19.1e}")
    times = [best_of(kernel, step_gaps(length))[0] for length in KERNEL_ONLY_LENGTHS]
    for length, seconds in zip(KERNEL_ONLY_LENGTHS, times, strict=True):
        print(f"{length:>9} {'-':>14} {seconds:>10.5f}")
    grown = KERNEL_ONLY_LENGTHS[1] / KERNEL_ONLY_LENGTHS[0]
    print(f"{grown:.0f} times the values take {times[1] / times[0]:.1f} times as long")


if __name__ == "__main__":
    main()
