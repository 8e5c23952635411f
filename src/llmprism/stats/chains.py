"""The best chain of silences that are one spacing apart, by dynamic programming, and how well it does.

Silences lie in byte-space (see `silences`): at ascending `position`, with their length as `weight`. A chain is rewarded
for the silences on it, each up to a cap, and pays for links that miss the spacing; it may break off and go on elsewhere
for two caps. Loops over silences only: all of it runs inside the kernel that tries hundreds of spacings (`byte_steps`).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.kernel import kernel

__all__ = ["GUARD", "at_least", "cap_of", "judge", "kept_silences", "least_kept", "longest", "refined_chain"]

MISFIT_PRICE: Final = 0.3
"""Caps that a link costs which misses the spacing by all of the tolerance; half as far costs a quarter of it."""

FEW: Final = 12
"""Silences up to which a loop in Python is faster than arrays."""

GUARD: Final = 0.03
"""Share of a step next to a boundary in which silences belong to that boundary (tails of small messages)."""


def _link_by_arrays(position: Float64, weight: Float64, spacing: float, tolerance: float, cap: float) -> Int64:
    """The kernel below with arrays in place of its inner loop where many silences lie within the tolerance."""
    n = position.size
    where, length = position.tolist(), np.minimum(weight, cap).tolist()
    shortest, longest = spacing * (1.0 - tolerance), spacing * (1.0 + tolerance)
    best, previous = np.empty(n), [-1] * n
    totals: list[float] = []  # the same as `best`, for reading one by one
    low = high = lead = 0
    for i in range(n):
        gain, origin, here = 0.0, -1, where[i]
        if i > 0 and totals[lead] - 2.0 * cap > gain:
            gain, origin = totals[lead] - 2.0 * cap, lead
        while here - where[low] > longest:
            low += 1
        while high < i and here - where[high] >= shortest:
            high += 1
        if high - low > FEW:
            apart = ((here - position[low:high]) / spacing - 1.0) / tolerance
            values = best[low:high] - MISFIT_PRICE * cap * apart * apart
            j = int(values.argmax())
            if values[j] > gain:
                gain, origin = float(values[j]), low + j
        else:
            for j in range(low, high):
                if totals[j] > gain:  # a misfit only takes from it
                    misfit = ((here - where[j]) / spacing - 1.0) / tolerance
                    value = totals[j] - MISFIT_PRICE * cap * misfit * misfit
                    if value > gain:
                        gain, origin = value, j
        best[i] = length[i] + gain
        totals.append(length[i] + gain)
        previous[i] = origin
        lead = i if totals[i] > totals[lead] else lead
    chain = [lead]
    while previous[chain[-1]] >= 0:
        chain.append(previous[chain[-1]])
    return np.array(chain[::-1], dtype=np.int64)


@kernel(small=_link_by_arrays, looks=3)
def link(position: Float64, weight: Float64, spacing: float, tolerance: float, cap: float) -> Int64:
    """Best chain: sum of the (capped) silences minus the misfit of each link; a break costs two caps."""
    n = position.size
    shortest, longest = spacing * (1.0 - tolerance), spacing * (1.0 + tolerance)
    best, previous = np.empty(n), np.full(n, -1, dtype=np.int64)
    low = lead = 0  # `lead` is the best chain end so far
    for i in range(n):
        gain, origin = 0.0, -1
        if i > 0 and best[lead] - 2.0 * cap > gain:
            gain, origin = best[lead] - 2.0 * cap, lead
        while position[i] - position[low] > longest:
            low += 1
        j = low
        while j < i and position[i] - position[j] >= shortest:
            if best[j] > gain:  # a misfit only takes from it
                misfit = ((position[i] - position[j]) / spacing - 1.0) / tolerance
                value = best[j] - MISFIT_PRICE * cap * misfit * misfit
                if value > gain:
                    gain, origin = value, j
            j += 1
        best[i] = min(weight[i], cap) + gain
        previous[i] = origin
        lead = i if best[i] > best[lead] else lead
    count, i = 0, lead
    while i >= 0:
        count, i = count + 1, previous[i]
    chain = np.empty(count, dtype=np.int64)
    while lead >= 0:
        count -= 1
        chain[count] = lead
        lead = previous[lead]
    return chain


@kernel
def judge(
    position: Float64, weight: Float64, chain: Int64, spacing: float, tolerance: float
) -> tuple[float, float, int]:
    """Dominance, covered bytes and number of regular links."""
    dominant, regular, covered = 0, 0, 0.0
    for k in range(chain.size - 1):
        a, b = chain[k], chain[k + 1]
        length = position[b] - position[a]
        if abs(length / spacing - 1.0) > tolerance:
            continue
        regular += 1
        covered += length
        inner = 0.0
        for i in range(a + 1, b):
            if position[a] + GUARD * spacing < position[i] < position[b] - GUARD * spacing:
                inner = max(inner, weight[i])
        if inner < min(weight[a], weight[b]):
            dominant += 1
    return (dominant / regular if regular else 0.0), covered, regular


@kernel
def cap_of(ordered: Float64, steps: float) -> float:
    """Twice the median of the `steps` longest silences: one checkpoint pause must not outweigh many boundaries."""
    count = min(ordered.size, max(3, int(steps)))
    return 2.0 * float(ordered[count // 2])


@kernel
def longest(weight: Float64, ordered: Float64, steps: float) -> Int64:
    """The longest silences, some for every step; `ordered` are all, the longest first."""
    return np.flatnonzero(weight >= least_kept(ordered, steps))


def _at_least_by_arrays(position: Float64, weight: Float64, least: float) -> tuple[Float64, Float64]:
    """The kernel below without a loop."""
    chosen = weight >= least
    return position[chosen], weight[chosen]


@kernel(by_arrays=_at_least_by_arrays)
def at_least(position: Float64, weight: Float64, least: float) -> tuple[Float64, Float64]:
    """Where the silences of at least this length are, and how long."""
    where, length, count = np.empty(weight.size), np.empty(weight.size), 0
    for i in range(weight.size):
        if weight[i] >= least:
            where[count], length[count] = position[i], weight[i]
            count += 1
    return where[:count], length[:count]


@kernel(looks=0)
def kept_silences(steps: float) -> int:
    """How many of the longest silences are looked at for so many steps: some for each."""
    return int(6 * steps) + 20


@kernel(looks=0)
def least_kept(ordered: Float64, steps: float) -> float:
    """Length of the shortest of the longest silences, of which there are some for every step."""
    return float(ordered[min(ordered.size, kept_silences(steps)) - 1])


@kernel
def mean_link(position: Float64, chain: Int64, spacing: float, tolerance: float) -> float:
    """Mean bytes of the regular links: all of them lie within the tolerance, so none can pull it away."""
    total, count = 0.0, 0
    for k in range(chain.size - 1):
        length = position[chain[k + 1]] - position[chain[k]]
        if abs(length / spacing - 1.0) <= tolerance:
            total += length
            count += 1
    return total / count if count else spacing


@kernel(looks=0)
def refined_chain(
    position: Float64, weight: Float64, spacing: float, tolerance: float, cap: float
) -> tuple[Int64, float, float, float, int]:
    """The best chain of about this spacing, found once more at the mean of its own links: its silences, that spacing,
    and what `judge` says of it."""
    refined = mean_link(position, link(position, weight, spacing, tolerance, cap), spacing, tolerance)
    chain = link(position, weight, refined, tolerance, cap)
    dominance, covered, regular = judge(position, weight, chain, refined, tolerance)
    return chain, refined, dominance, covered, regular
