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
from llmprism.stats.integer_order import stable_order
from llmprism.stats.silences import Silences, scan_silences, silences_of

__all__ = ["silences_of_pairs"]

MANY: Final = 50_000
"""Intervals from which slots are tried; fewer are sorted. The silences are the same."""

ROWS_PER_SLOT: Final = 4
"""Slots are so short that about as many intervals start in one: most last for many of them."""

LONGEST_SPAN_BITS: Final = 62
"""Times further apart than a signed integer holds are sorted."""


def silences_of_pairs(offsets: Int64, start_ns: Int64, end_ns: Int64, size: Int64, pairs: Bool, floor: int) -> Silences:
    """Silences of the rows of the marked pairs together (`offsets` cut the rows by pairs; the rows of a pair are in
    order of their start); those below `floor` bytes add their bytes but break no silence."""
    own = np.flatnonzero(pairs & (np.diff(offsets) > 0))
    rows = int((offsets[own + 1] - offsets[own]).sum())
    if rows >= MANY:
        first, last = int(start_ns[offsets[own]].min()), int(max(start_ns.max(), end_ns.max()))
        bits = (last - first).bit_length()
        shift = max(bits - (rows // ROWS_PER_SLOT).bit_length(), 0)
        if bits <= LONGEST_SPAN_BITS:
            return _by_slots(offsets, start_ns, end_ns, size, own, floor, first, shift, ((last - first) >> shift) + 1)
    chosen = np.flatnonzero(np.repeat(pairs, np.diff(offsets)))
    return _sorted_silences(start_ns, end_ns, size, chosen, floor)


def _sorted_silences(start: Int64, end: Int64, size: Int64, rows: Int64, floor: int) -> Silences:
    begin = start[rows]
    order = stable_order(begin)
    rows = rows[order]
    return silences_of(begin[order], end[rows], size[rows], floor)


def _by_slots(
    offsets: Int64, start: Int64, end: Int64, size: Int64, pairs: Int64, floor: int, first: int, shift: int, slots: int
) -> Silences:
    covered = _covered(offsets, start, end, size, pairs, floor, first, shift, slots)
    rows, held, latest = _open_rows(offsets, start, end, size, pairs, floor, first, shift, covered)
    rows = rows[stable_order(start[rows])]
    return Silences(*scan_silences(start[rows], end[rows], size[rows], floor, first, shift, held, latest))


@kernel
def _covered(
    offsets: Int64, start: Int64, end: Int64, size: Int64, pairs: Int64, floor: int, first: int, shift: int, slots: int
) -> Bool:
    """The slots that lie within an interval which began before them."""
    change = np.zeros(slots + 1, dtype=np.int64)
    for pair in pairs:
        for i in range(offsets[pair], offsets[pair + 1]):
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
    offsets: Int64, start: Int64, end: Int64, size: Int64, pairs: Int64, floor: int, first: int, shift: int,
    covered: Bool,
) -> tuple[Int64, Int64, Int64]:  # fmt: skip
    """The rows that start in open slots; of those in each covered slot the bytes and the latest end (-1: none)."""
    rows, count = np.empty(start.size, dtype=np.int64), 0
    held, latest = np.zeros(covered.size, dtype=np.int64), np.full(covered.size, -1, dtype=np.int64)
    for pair in pairs:
        for i in range(offsets[pair], offsets[pair + 1]):
            slot = (start[i] - first) >> shift
            if not covered[slot]:
                rows[count] = i
                count += 1
                continue
            held[slot] += size[i]
            if size[i] >= floor:
                latest[slot] = max(latest[slot], end[i])
    return rows[:count].copy(), held, latest
