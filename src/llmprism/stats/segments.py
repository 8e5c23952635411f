"""Stretches of a series in which evidence for something outweighs the evidence against it.

The series is cut so that the sum of the scores inside the stretches, less a price for each stretch, is largest: one
pass with two states, in or out. The price keeps single lucky values out; a fault that comes and goes has several
stretches.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.kernel import kernel

__all__ = ["best_stretches"]


def best_stretches(scores: Float64, price: float) -> list[tuple[int, int, float]]:
    """(first, after, sum of the scores) of the stretches whose sums, less `price` for each, add up to most.

    >>> best_stretches(np.array([-1.0, 3.0, -1.0, 2.0, -9.0, 4.0, -1.0]), 3.0)
    [(1, 4, 4.0), (5, 6, 4.0)]
    """
    first, after, total = _stretches(scores, float(price))
    return list(zip(first.tolist(), after.tolist(), total.tolist(), strict=True))


@kernel(looks=3)
def _stretches(scores: Float64, price: float) -> tuple[Int64, Int64, Float64]:
    """Their first values, those after their last ones, and the sums of their scores."""
    n = scores.size
    out, inside = 0.0, -np.inf  # best sums that end outside, or inside, a stretch
    entered = np.empty(n, dtype=np.bool_)  # was it best to enter at this value?
    left = np.empty(n, dtype=np.bool_)  # was it best to be inside before this value, if one is outside at it?
    for place in range(n):
        enter, leave = out - price > inside, inside > out
        entered[place], left[place] = enter, leave
        out, inside = (inside if leave else out), (out - price if enter else inside) + scores[place]
    first, after, count = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), 0
    state, end = inside > out, n
    for place in range(n - 1, -1, -1):
        if state and entered[place]:
            first[count], after[count] = place, end
            count += 1
            state = False
        elif not state and left[place]:
            state, end = True, place
    first, after = first[:count][::-1].copy(), after[:count][::-1].copy()
    total = np.zeros(count)
    for number in range(count):
        for place in range(first[number], after[number]):
            total[number] += scores[place]
    return first, after, total
