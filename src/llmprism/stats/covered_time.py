"""The silences of very many intervals, most of which lie where others are busy anyway.

Time is cut into slots. A slot that lies wholly within one interval, which began before it, holds no silence, and of
what starts in it only the bytes and the latest end matter, in any order. So only the rows that start in the other,
*open* slots are brought into order of time: few, where thousands of pairs are busy together.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.kernel import kernel
from llmprism.stats.order import stable_order
from llmprism.stats.silences import Silences, silences_of

__all__ = ["silences_of_many"]

MANY: Final = 50_000
"""Intervals from which slots are tried; fewer are sorted. The silences are the same."""

ROWS_PER_SLOT: Final = 4
"""Slots are so short that about as many intervals start in one: most last for many of them."""

LONGEST_SPAN_BITS: Final = 62
"""Times further apart than a signed integer holds are sorted."""


def silences_of_many(start_ns: Int64, end_ns: Int64, size: Int64, floor: int) -> Silences:
    """Silences of intervals in any order, those that start together in that of the rows; intervals below `floor` bytes
    add their bytes but break no silence."""
    if start_ns.size >= MANY:
        first, last = int(start_ns.min()), int(max(start_ns.max(), end_ns.max()))
        span = last - first
        shift = max(span.bit_length() - (start_ns.size // ROWS_PER_SLOT).bit_length(), 0)
        if span.bit_length() <= LONGEST_SPAN_BITS:
            return Silences(*_by_slots(start_ns, end_ns, size, floor, first, shift, (span >> shift) + 1))
    order = stable_order(start_ns)
    return silences_of(start_ns[order], end_ns[order], size[order], floor)


def _by_slots(
    start: Int64, end: Int64, size: Int64, floor: int, first: int, shift: int, slots: int
) -> tuple[Int64, Int64, Int64]:
    covered = _covered(start, end, size, floor, first, shift, slots)
    rows, held, latest = _open_rows(start, end, size, floor, first, shift, covered)
    rows = rows[stable_order(start[rows])]
    return _scan(start[rows], end[rows], size[rows], floor, first, shift, held, latest)


@kernel
def _covered(start: Int64, end: Int64, size: Int64, floor: int, first: int, shift: int, slots: int) -> Bool:
    """The slots that lie within an interval which began before them."""
    change = np.zeros(slots + 1, dtype=np.int64)
    for i in range(start.size):
        after, until = ((start[i] - first) >> shift) + 1, (end[i] - first) >> shift
        if size[i] >= floor and until > after:
            change[after] += 1
            change[until] -= 1
    covered, depth = np.zeros(slots, dtype=np.bool_), 0
    for slot in range(slots):
        depth += change[slot]
        covered[slot] = depth > 0
    return covered


@kernel
def _open_rows(
    start: Int64, end: Int64, size: Int64, floor: int, first: int, shift: int, covered: Bool
) -> tuple[Int64, Int64, Int64]:
    """The rows that start in open slots; of those in each covered slot the bytes and the latest end (-1: none)."""
    rows, count = np.empty(start.size, dtype=np.int64), 0
    held, latest = np.zeros(covered.size, dtype=np.int64), np.full(covered.size, -1, dtype=np.int64)
    for i in range(start.size):
        slot = (start[i] - first) >> shift
        if not covered[slot]:
            rows[count] = i
            count += 1
            continue
        held[slot] += size[i]
        if size[i] >= floor:
            latest[slot] = max(latest[slot], end[i])
    return rows[:count].copy(), held, latest


@kernel
def _scan(
    start: Int64, end: Int64, size: Int64, floor: int, first: int, shift: int, held: Int64, latest: Int64
) -> tuple[Int64, Int64, Int64]:
    """The silences, from the rows of open slots in order and from what the covered slots hold."""
    n = start.size + 1
    begin, length, before = np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64), np.empty(n, dtype=np.int64)
    count, slot, horizon, total, longest = 0, 0, np.int64(-1), np.int64(0), np.int64(1)
    for i in range(n):
        until = held.size if i == start.size else (start[i] - first) >> shift
        while slot < until:
            horizon, total = max(horizon, latest[slot]), total + held[slot]
            slot += 1
        if i == start.size:
            break
        if size[i] >= floor:
            if horizon >= 0 and start[i] > horizon:
                begin[count], length[count], before[count] = horizon, start[i] - horizon, total
                longest = max(longest, length[count])
                count += 1
            horizon = max(horizon, end[i])
        total += size[i]
    if horizon >= 0:
        begin[count], length[count], before[count] = horizon, longest, total
        count += 1
    return begin[:count], length[:count], before[:count]
