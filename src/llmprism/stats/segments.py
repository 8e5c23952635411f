"""Stretches of a series in which evidence for something outweighs the evidence against it.

The series is cut so that the sum of the scores inside the stretches, less a price for each stretch, is largest: one
pass with two states, in or out. The price keeps single lucky values out; a fault that comes and goes has several
stretches.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64

__all__ = ["best_stretches"]


def best_stretches(scores: Float64, price: float) -> list[tuple[int, int, float]]:
    """(first, after, sum of the scores) of the stretches whose sums, less `price` for each, add up to most.

    >>> best_stretches(np.array([-1.0, 3.0, -1.0, 2.0, -9.0, 4.0, -1.0]), 3.0)
    [(1, 4, 4.0), (5, 6, 4.0)]
    """
    values = scores.tolist()
    out, inside = 0.0, -np.inf  # best sums that end outside, or inside, a stretch
    entered: list[bool] = []  # was it best to enter at this value?
    left: list[bool] = []  # was it best to be inside before this value, if one is outside at it?
    for value in values:
        enter = out - price > inside
        leave = inside > out
        entered.append(enter)
        left.append(leave)
        out, inside = (inside if leave else out), (out - price if enter else inside) + value
    state, after, found = inside > out, len(values), []
    for place in range(len(values) - 1, -1, -1):
        if state and entered[place]:
            found.append((place, after, float(sum(values[place:after]))))
            state = False
        elif not state and left[place]:
            state, after = True, place
    return found[::-1]
