"""Bytes after which the silences of a series repeat, without asking that any silence stands out.

The silences of a synchronous job, as a function of the bytes sent before them, repeat after every step, and so does
their autocorrelation: it peaks at the bytes of one step and at their multiples. Layers and micro-batches repeat too,
and peak earlier. So the answer is a short list of *fundamental* spacings, each not a multiple of a shorter one that
explains as much; which of them is the step is for others to decide, by what the whole job does.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Float64
from llmprism.stats.silences import Silences

__all__ = ["fundamental_spacings", "repeating_lags"]

BINS: Final = 1 << 14
"""Slots of the series in byte-space: 80 for each of 200 steps."""

SHORTEST_LAG: Final = 6
"""Slots: below, neighbouring slots are alike because one silence was smeared over them."""

WORTH: Final = 0.4
"""Height of a peak relative to the highest one, from which it is a candidate; drift lowers those of long series."""

AS_GOOD: Final = 0.85
"""Height of a shorter spacing relative to its multiple's, from which the multiple says nothing new."""

SLACK: Final = 2.0
"""Slots by which a multiple may be off..."""

DRIFT: Final = 0.01
"""...or share of the lag: set-up traffic and retransmissions shift later steps."""


def fundamental_spacings(silences: Silences, most: int = 4) -> list[float]:
    """Bytes after which the silences repeat, at most so many, the shortest first; empty without repetition."""
    position, length = silences.bytes_before.astype(np.float64), silences.length_ns.astype(np.float64)
    total = float(position[-1]) if position.size else 0.0
    if position.size < 4 or total <= 0:
        return []
    level = np.log2(np.maximum(length / max(float(np.quantile(length, 0.05)), 1.0), 1.0))
    signal = np.zeros(BINS)
    np.maximum.at(signal, np.minimum((position / total * BINS).astype(np.int64), BINS - 1), level)
    signal = np.convolve(signal, np.full(3, 1.0 / 3.0), "same")
    return [lag * total / BINS for lag in _fundamentals(_autocorrelation(signal), most)]


def repeating_lags(values: Float64, longest: int, most: int = 3) -> list[int]:
    """Lags (in entries) after which a series of values repeats; the same without byte-space."""
    if values.size < 4 or not np.ptp(values):
        return []
    correlation = _autocorrelation(values)[: longest + 2]
    return _fundamentals(correlation, most, shortest=2, slack=0.5, drift=0.0)


def _autocorrelation(signal: Float64) -> Float64:
    """Of the signal without its mean, corrected for the overlap that shrinks with the lag, up to half its length."""
    size = signal.size
    spectrum = np.fft.rfft(signal - signal.mean(), 2 * size)
    raw = np.fft.irfft(spectrum * np.conj(spectrum))[: size // 2 + 1]
    corrected: Float64 = raw / np.arange(size, size - raw.size, -1)
    return corrected / max(float(corrected[0]), 1e-300)


def _fundamentals(
    correlation: Float64, most: int, shortest: int = SHORTEST_LAG, slack: float = SLACK, drift: float = DRIFT
) -> list[int]:
    """Peaks that are not multiples of a shorter one of about their height; the highest, in ascending order."""
    inner = correlation[1:-1]
    peaks = np.flatnonzero((inner >= correlation[:-2]) & (inner > correlation[2:]) & (inner > 0)) + 1
    peaks = peaks[peaks >= shortest]
    if not peaks.size:
        return []
    peaks = peaks[correlation[peaks] >= WORTH * correlation[peaks].max()]
    height = dict(zip(peaks.tolist(), correlation[peaks].tolist(), strict=True))
    kept: list[int] = []
    for peak, own in height.items():
        reach = max(slack, drift * peak)
        if not any(
            height[shorter] >= AS_GOOD * own and abs(round(peak / shorter) * shorter - peak) <= reach
            for shorter in kept
        ):
            kept.append(peak)
    highest = sorted(kept, key=lambda lag: -height[lag])[:most]
    return sorted(highest)
