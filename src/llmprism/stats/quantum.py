"""How many equal messages make up a step: a quantum from the places of silences.

A pipeline link sends m equal messages per step. However a collector cuts or fuses them, the silences between messages
sit at multiples of 1/m of the step's bytes, while pauses inside messages sit anywhere and are short. The smallest m
whose multiples carry most of the silence, with every multiple visited, is the number of messages.

>>> equal_parts(np.tile([0.25, 0.5, 0.75, 0.61], 9), np.tile([10.0, 9.0, 11.0, 0.5], 9), limit=64)
4
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Float64

__all__ = ["EDGE", "equal_parts", "scattered_parts"]

EXPLAINED: Final = 0.7
"""Default share of the silence that must lie on the multiples: above the half that m / 2 explains."""

VISITED: Final = 0.15
"""Silence at the least visited multiple, relative to the mean of all: messages sent back to back leave little."""

POSITION_TOLERANCE: Final = 0.006
"""Absolute, in shares of a step: byte counts per message are exact to 0.1 %."""

CHANCE: Final = 0.2
"""The tolerance shrinks with m so that at most this share of random places would lie on multiples."""


NEARLY_BEST: Final = 0.8
"""Share of the best coherence from which the fewest parts are taken: multiples of them are nearly as coherent."""

MIN_COHERENCE: Final = 0.35
"""Length of the mean phase vector from which scattered places show a period; chance stays below 0.1."""

MAX_SCATTERED: Final = 64
"""Parts that scattered places can tell apart at most."""

EDGE: Final = 0.002
"""Silences this close to either end of the step lie before the first or after the last message."""


def equal_parts(position: Float64, weight: Float64, limit: int, explained: float = EXPLAINED,
                visited: float = VISITED) -> int | None:  # fmt: skip
    """Number of equal parts that silences at `position` (0..1, exclusive) with `weight` betray, None if none fits."""
    interior = (position > EDGE) & (position < 1.0 - EDGE)
    position, weight = position[interior], weight[interior]
    total = float(weight.sum())
    if total <= 0:
        return None
    order = np.argsort(position)
    position, up_to = position[order], np.concatenate([[0.0], np.cumsum(weight[order])])
    for parts in range(2, limit + 1):
        tolerance = min(POSITION_TOLERANCE, CHANCE / (2.0 * parts))
        place = np.arange(1, parts) / parts
        first, after = (
            np.searchsorted(position, place - tolerance),
            np.searchsorted(position, place + tolerance, "right"),
        )
        by_place = up_to[after] - up_to[first]
        if by_place.sum() >= explained * total and by_place.min() >= visited * by_place.mean():
            return parts
    return None


def scattered_parts(position: Float64, weight: Float64) -> int | None:
    """The same for places that scatter around the multiples: the number of parts at which their phases agree best.

    >>> rng = np.random.default_rng(1)
    >>> scattered_parts(np.tile([0.2, 0.4, 0.6, 0.8], 50) + rng.normal(0, 0.02, 200), np.ones(200))
    5
    """
    interior = (position > EDGE) & (position < 1.0 - EDGE)
    position, weight = position[interior], weight[interior]
    if not weight.sum() > 0:
        return None
    parts = np.arange(2, MAX_SCATTERED + 1)
    coherence = _cosines(position, weight) / weight.sum()
    best = float(coherence.max())
    if best < MIN_COHERENCE:
        return None
    return int(parts[np.flatnonzero(coherence >= NEARLY_BEST * best)[0]])


def _cosines(position: Float64, weight: Float64) -> Float64:
    """Sum of `weight` times the cosine of so many turns as there are parts, for 2 to `MAX_SCATTERED` parts: each cosine
    follows from the two before (cos kx = 2 cos x cos (k-1)x - cos (k-2)x), a twentieth of the time of its own."""
    once = np.cos(2.0 * np.pi * position)
    before, now, twice = np.ones_like(once), once, 2.0 * once
    sums = np.empty(MAX_SCATTERED - 1)
    for number in range(sums.size):
        before, now = now, twice * now - before
        sums[number] = np.einsum("i,i->", now, weight)  # no BLAS, whose threads wait for each other at full speed
    return sums
