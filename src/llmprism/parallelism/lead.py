"""How far one direction of a link runs ahead of the other, in messages: what tells pipelines from collectives.

Activations go ahead and gradients follow: from the first activation of a step until its last gradient at least one
message is on its way and not answered, for most of the step, whether the two directions take turns or are sent
together. The two directions of a collective give and take the same within moments, and between collectives nothing is
outstanding. So within each step the balance of the two directions is looked at as a function of time; its *lead* is the
range in which it stays for most of that time, in units of the link's mean message. Where the step is said to begin does
not matter, because a range has no origin.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable
from llmprism.parallelism.features import Links

Float64 = NDArray[np.float64]

__all__ = ["leads"]

OUTER: Final = 0.15
"""Share of the step's time at either end of the range that is left out: bursts of collectives take less."""

STEPS: Final = 48
"""Steps looked at, spread over the window: a median needs no more."""


def leads(transfers: TransferTable, links: Links, clock: StepClock) -> Float64:
    """For each link the median over steps of the range of its balance, in messages; 0 for one-way links."""
    whole = np.flatnonzero(clock.whole)
    chosen = whole[np.linspace(0, whole.size - 1, min(STEPS, whole.size)).astype(np.int64)] if whole.size else whole
    begin, end = clock.boundary_ns[chosen], clock.boundary_ns[chosen + 1]
    result: Float64 = _leads(
        transfers.pair_offsets, transfers.end_ns, transfers.bytes,
        links.there.astype(np.int64), links.back.astype(np.int64), begin, end, MESSAGE_FLOOR_BYTES,
    )  # fmt: skip
    return result


@kernel
def _leads(
    offsets: Int64, when: Int64, size: Int64, there: Int64, back: Int64, begin: Int64, end: Int64, floor: int
) -> Float64:
    result = np.zeros(there.size)
    for index in range(there.size):
        a, b = there[index], back[index]
        if a < 0 or b < 0 or begin.size == 0:
            continue
        ranges, messages = np.zeros(begin.size), 0
        for k in range(begin.size):
            low_a = offsets[a] + np.searchsorted(when[offsets[a] : offsets[a + 1]], begin[k])
            high_a = offsets[a] + np.searchsorted(when[offsets[a] : offsets[a + 1]], end[k])
            low_b = offsets[b] + np.searchsorted(when[offsets[b] : offsets[b + 1]], begin[k])
            high_b = offsets[b] + np.searchsorted(when[offsets[b] : offsets[b + 1]], end[k])
            ranges[k], sent = _range(when, size, low_a, high_a, low_b, high_b, begin[k], end[k], floor)
            messages += sent
            total = max(size[low_a:high_a].sum(), size[low_b:high_b].sum())
            ranges[k] /= max(total, 1)
        result[index] = np.median(ranges) * messages / (2.0 * begin.size)
    return result


@kernel
def _range(
    when: Int64, size: Int64, a: int, a_end: int, b: int, b_end: int, begin: int, end: int, floor: int
) -> tuple[float, int]:
    """The range of the balance without the outer parts of the time, and the number of messages."""
    count = a_end - a + b_end - b + 1
    level, lasts = np.zeros(count), np.zeros(count)
    balance, last, n, messages = 0.0, begin, 0, 0
    while a < a_end or b < b_end:
        first = b >= b_end or (a < a_end and when[a] <= when[b])
        moment = when[a] if first else when[b]
        level[n], lasts[n] = balance, moment - last
        last = moment
        n += 1
        amount = size[a] if first else size[b]
        if amount >= floor:
            messages += 1
        balance += amount if first else -amount
        if first:
            a += 1
        else:
            b += 1
    level[n], lasts[n] = balance, end - last
    order = np.argsort(level)
    total, so_far, low, high = lasts.sum(), 0.0, level[order[0]], level[order[-1]]
    found = False
    for i in order:
        so_far += lasts[i]
        if not found and so_far >= OUTER * total:
            low, found = level[i], True
        if so_far >= (1.0 - OUTER) * total:
            high = level[i]
            break
    return high - low, messages
