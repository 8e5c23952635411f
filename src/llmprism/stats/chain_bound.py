"""Which trial spacings cannot be dominant, whatever chain is found for them: a bound that needs no chain.

`byte_steps` tries some hundreds of spacings and finds the best chain for each, which takes a loop over all silences.
A dominant chain needs many *dominant links*: two silences about one spacing apart with no silence between them that is
as long as both. How many such links can lie side by side is bounded from above by arrays alone, and nine trials of ten
fall through. Compiled, the loop is faster than the bound, so only the interpreted form asks it.

The bound allows for everything that a trial may do: the spacing moves by the tolerance when it is refined, and the
links keep the tolerance of the refined one.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["ROUNDING", "ChainBound"]

ROUNDING: Final = 1e-9
"""Relative slack for the rounding of the trial's own arithmetic."""


class ChainBound:
    """Silences at ascending `position` with `weight`, made ready for questions about the heaviest in a range."""

    def __init__(self, position: Float64, weight: Float64) -> None:
        self.position, self.weight = position, weight
        levels = [weight]
        while 2 << (len(levels) - 1) <= weight.size:
            reach = 1 << (len(levels) - 1)
            levels.append(np.maximum(levels[-1][:-reach], levels[-1][reach:]))
        self._heaviest = np.concatenate(levels)
        self._level_at = np.cumsum([0] + [level.size for level in levels[:-1]])
        lengths = np.arange(weight.size + 1)
        self._level = np.floor(np.log2(np.maximum(lengths, 1))).astype(np.int64)

    def links(self, chosen: Int64, spacing: float, tolerance: float, guard: float) -> int:
        """Dominant links that can lie side by side at most, between silences of which the first is `chosen`.

        `guard` is the share of a step next to a boundary where silences do not count.
        """
        shortest = spacing * (1.0 - tolerance) ** 2 * (1.0 - ROUNDING)
        longest = spacing * (1.0 + tolerance) ** 2 * (1.0 + ROUNDING)
        edge = guard * spacing * (1.0 + tolerance) * (1.0 + ROUNDING)
        begin, weight = self.position[chosen], self.weight[chosen]
        first_end = np.searchsorted(self.position, begin + shortest)
        after_end = np.searchsorted(self.position, begin + longest, side="right")
        first_inner = np.searchsorted(self.position, begin + edge, side="right")
        after_inner = np.searchsorted(self.position, begin + shortest - edge)
        inner = self._maximum(first_inner, after_inner)
        linked = (inner < weight) & (inner < self._maximum(first_end, after_end)) & (after_end > first_end)
        return int(np.unique(np.floor(begin[linked] / shortest)).size)

    def _maximum(self, first: Int64, after: Int64) -> Float64:
        """The heaviest silence of each range `first:after`, 0 for an empty one."""
        length = np.maximum(after - first, 0)
        level = self._level[length]
        at, width = self._level_at[level], np.left_shift(1, level)
        low = np.minimum(first, self.weight.size - width)
        high = np.maximum(after - width, 0)
        return np.where(length > 0, np.maximum(self._heaviest[at + low], self._heaviest[at + high]), 0.0)
