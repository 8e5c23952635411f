"""How far one direction of a link runs ahead of the other, in messages: what tells pipelines from collectives.

Activations go ahead and gradients follow: from the first activation of a step until its last gradient at least one
message is on its way and not answered, for most of the step, whether the two directions take turns or are sent
together. The two directions of a collective give and take the same within moments, and between collectives nothing is
outstanding. So within each step the balance of the two directions is looked at as a function of time; its *lead* is the
range in which it stays for most of that time, in units of the link's mean message. Where the step is said to begin does
not matter, because a range has no origin.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.features import Links
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["ends_apart", "leads"]


def leads(transfers: TransferTable, links: Links, clock: StepClock, rules: LayoutRules = RULES) -> Float64:
    """For each link the median over steps of the range of its balance, in messages; 0 for one-way links."""
    whole = np.flatnonzero(clock.whole)
    chosen = (
        whole[np.linspace(0, whole.size - 1, min(rules.kinds.lead_steps, whole.size)).astype(np.int64)]
        if whole.size
        else whole
    )
    begin, end = clock.boundary_ns[chosen], clock.boundary_ns[chosen + 1]
    result: Float64 = _leads(
        transfers.pair_offsets, transfers.end_ns, transfers.bytes,
        links.there.astype(np.int64), links.back.astype(np.int64), begin, end, MESSAGE_FLOOR_BYTES,
        rules.kinds.lead_outer,
    )  # fmt: skip
    return result


@kernel
def _leads(
    offsets: Int64, when: Int64, size: Int64, there: Int64, back: Int64, begin: Int64, end: Int64, floor: int,
    outer: float,
) -> Float64:  # fmt: skip
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
            ranges[k], sent = _range(when, size, low_a, high_a, low_b, high_b, begin[k], end[k], floor, outer)
            messages += sent
            total = max(size[low_a:high_a].sum(), size[low_b:high_b].sum())
            ranges[k] /= max(total, 1)
        result[index] = np.median(ranges) * messages / (2.0 * begin.size)
    return result


@kernel
def _range(
    when: Int64,
    size: Int64,
    a: int,
    a_end: int,
    b: int,
    b_end: int,
    begin: int,
    end: int,
    floor: int,
    outer: float,
) -> tuple[float, int]:
    """The range of the balance without the outer parts of the time, and the number of messages."""
    count = max(a_end - a, 0) + max(b_end - b, 0) + 1  # ends of overlapping transfers are not in order
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
        if not found and so_far >= outer * total:
            low, found = level[i], True
        if so_far >= (1.0 - outer) * total:
            high = level[i]
            break
    return high - low, messages


def ends_apart(transfers: TransferTable, links: Links, clock: StepClock) -> Float64:
    """For each link the time between the last messages of its two directions, as a share of the time from its first to
    its last message; median over steps, NaN where a direction is missing.

    A collective ends for both at once. The last gradient of a pipeline comes a backward pass after the last activation.
    A link's step is cut at its own longest silence, so that it does not matter where the clock ticks.
    """
    result: Float64 = _ends_apart(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns, transfers.bytes,
        links.there.astype(np.int64), links.back.astype(np.int64), clock.boundary_ns, MESSAGE_FLOOR_BYTES,
    )  # fmt: skip
    return result


@kernel
def _ends_apart(
    offsets: Int64, start: Int64, end: Int64, size: Int64, there: Int64, back: Int64, boundary: Int64, floor: int
) -> Float64:
    result = np.full(there.size, np.nan)
    for index in range(there.size):
        a, b = there[index], back[index]
        if a < 0 or b < 0:
            continue
        count = offsets[a + 1] - offsets[a] + offsets[b + 1] - offsets[b]
        begin, stop, way = np.empty(count, np.int64), np.empty(count, np.int64), np.empty(count, np.int64)
        n, i, j = 0, offsets[a], offsets[b]
        while i < offsets[a + 1] or j < offsets[b + 1]:
            first = j >= offsets[b + 1] or (i < offsets[a + 1] and start[i] <= start[j])
            row = i if first else j
            if size[row] >= floor:
                begin[n], stop[n], way[n] = start[row], end[row], 0 if first else 1
                n += 1
            if first:
                i += 1
            else:
                j += 1
        shares = _last_ends(begin[:n], stop[:n], way[:n], boundary)
        if shares.size > 0:
            result[index] = np.median(shares)
    return result


@kernel
def _last_ends(begin: Int64, stop: Int64, way: Int64, boundary: Int64) -> Float64:
    """Per cycle between two longest silences, one in each step, how far apart the two directions end."""
    shares = np.empty(boundary.size)
    count, row, previous = 0, 0, -1
    for k in range(boundary.size - 1):
        longest, cut, horizon = -1, -1, -1
        while row < begin.size and begin[row] < boundary[k + 1]:
            if begin[row] >= boundary[k] and row > 0:
                horizon = max(horizon, stop[row - 1])
                if begin[row] - horizon > longest:
                    longest, cut = begin[row] - horizon, row
            row += 1
        if cut < 0:
            previous = -1
            continue
        if previous >= 0:
            last = np.full(2, -1, dtype=np.int64)
            for i in range(previous, cut):
                last[way[i]] = max(last[way[i]], stop[i])
            if last[0] >= 0 and last[1] >= 0:
                shares[count] = abs(last[0] - last[1]) / max(max(last[0], last[1]) - begin[previous], 1)
                count += 1
        previous = cut
    return shares[:count]
