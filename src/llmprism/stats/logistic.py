"""The chance that log odds say, for all that is a sum of fitted signs."""

from __future__ import annotations

import math

__all__ = ["logistic"]


def logistic(odds: float) -> float:
    """The chance of something with these natural log odds, however large they are.

    >>> logistic(0.0), logistic(-1000.0), logistic(1000.0)
    (0.5, 0.0, 1.0)
    """
    if odds >= 0.0:
        return 1.0 / (1.0 + math.exp(-odds))
    return math.exp(odds) / (1.0 + math.exp(odds))
