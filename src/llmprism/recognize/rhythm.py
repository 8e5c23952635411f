"""Do two clusters send at the same moments?

Step clocks say too little about jobs that hardly ever rest: in fully sharded training every rail may take another pause
for the end of a step. But a collective starts on all rails at once. So the starts of messages are counted in short
slots, and the two series are correlated at all delays of up to one step. For rails of one job no delay is better than
none; for two jobs the best delay is a matter of chance, and their drift against each other smears all of them.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int32, TransferTable, ranges

Float64 = NDArray[np.float64]

__all__ = ["rhythm"]

SLOTS_PER_STEP: Final = 200
"""Delays that chance could prefer, either way."""

SHORTEST_SLOT_NS: Final = 1_000_000
"""Stamps of coarse collectors and the clocks of two switches differ by up to this."""

MAX_SLOTS: Final = 1 << 17
"""Slots looked at: two minutes of the finest, 20 ms of work."""

DELAYS_IN_SPAN: Final = 8
"""The longest delay is at most this part of the time that both were seen: a job may have made two steps only."""

MIN_DELAYS: Final = 20
"""Delays, either way, from which the best one being none is not chance."""

NO_DELAY: Final = 1
"""Slots by which two rails may be apart."""


def rhythm(transfers: TransferTable, one: Int32, other: Int32, step_ns: float) -> float:
    """Correlation (0..1) of the starts of two sets of pairs; 0 where some delay would suit them better than none.

    Rails of one job reach 0.9; two jobs that drift through each other stay below 0.1 even at their best delay.
    """
    first, second = _starts(transfers, one), _starts(transfers, other)
    if not (first.size and second.size):
        return 0.0
    begin, end = max(int(first.min()), int(second.min())), min(int(first.max()), int(second.max()))
    longest_delay = min(step_ns, (end - begin) / DELAYS_IN_SPAN)
    slot_ns = max(int(longest_delay / SLOTS_PER_STEP), SHORTEST_SLOT_NS)
    slots = min((end - begin) // slot_ns, MAX_SLOTS)
    reach = int(longest_delay / slot_ns)
    if reach < MIN_DELAYS:
        return 0.0
    correlation = _correlation(_counts(first, begin, slot_ns, slots), _counts(second, begin, slot_ns, slots), reach)
    best = int(np.argmax(correlation))
    return float(correlation[best]) if abs(best - reach) <= NO_DELAY else 0.0


def _starts(transfers: TransferTable, pairs: Int32) -> NDArray[np.int64]:
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    return transfers.start_ns[rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]]


def _counts(start: NDArray[np.int64], begin: int, slot_ns: int, slots: int) -> Float64:
    place = (start - begin) // slot_ns
    counts = np.bincount(place[(place >= 0) & (place < slots)], minlength=slots).astype(np.float64)
    counts -= counts.mean()
    length = float(np.sqrt((counts**2).sum()))
    return counts / length if length > 0 else counts


def _correlation(first: Float64, second: Float64, reach: int) -> Float64:
    """Correlation at delays from -reach to +reach."""
    size = 1 << int(np.ceil(np.log2(first.size + reach + 1)))
    product = np.fft.rfft(first, size) * np.conj(np.fft.rfft(second, size))
    cyclic = np.fft.irfft(product, size)
    return np.concatenate([cyclic[-reach:], cyclic[: reach + 1]])
