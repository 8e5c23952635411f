"""When links rest: what they send between two rests, and the steps that lie between their longest ones.

A job's clock may tick among the passes of its pipelines: then what it takes for a step is the end of one and the begin
of the next. The links of a pipeline know better where no pass is cut off: after their longest common rest in each step,
while gradients are synchronised and the optimizer runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, rows_of_pairs
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import half_of_sum

__all__ = ["PairBursts", "bursts_of_pair", "common_rests", "overlaps", "rested_clock", "usual_rest"]


def common_rests(transfers: TransferTable, pairs: Int64) -> tuple[Int64, Float64]:
    """When each rest of all of these pairs ends, and how long it is."""
    rows, _ = rows_of_pairs(transfers.pair_offsets, pairs)
    rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    start, ended = transfers.start_ns[rows], np.maximum.accumulate(transfers.end_ns[rows])
    return start[1:], np.maximum(start[1:] - ended[:-1], 0).astype(np.float64)


def rested_clock(transfers: TransferTable, pairs: Int64, clock: StepClock) -> StepClock:
    """A clock that ticks after the longest common rest of these pairs in each step."""
    start, rest = common_rests(transfers, pairs)
    step = clock.step_at(start)
    order = np.lexsort((-rest, step))
    order = order[step[order] >= 0]
    cut = order[np.flatnonzero(np.diff(step[order], prepend=-1))]
    if cut.size < 2:
        return clock
    whole = clock.regular[step[cut]]
    regular = whole[:-1] & whole[1:] & (np.diff(step[cut]) == 1)
    return StepClock(start[cut], regular, clock.dominance)


@dataclass(frozen=True, slots=True)
class PairBursts:
    """The bursts of a pair: when each begins and ends, and its bytes; the rows of the table and the burst of each."""

    begin: Int64
    end: Int64
    size: Float64
    rows: Int64
    number: Int64

    def largest(self, count: int) -> PairBursts:
        """So many of the largest, in the order in which they come; without rows."""
        kept = np.sort(np.argsort(-self.size, kind="stable")[:count])
        return replace(self, begin=self.begin[kept], end=self.end[kept], size=self.size[kept], rows=kept[:0])


def bursts_of_pair(transfers: TransferTable, pair: int, pause: float) -> PairBursts:
    """What a pair sends without resting for longer than the pause, wherever a clock ticks."""
    rows = _messages(transfers, pair)
    if not rows.size:
        return PairBursts(rows, rows, np.zeros(0), rows, rows)
    begun = np.append(True, _rests(transfers, rows) > pause)
    first, number = np.flatnonzero(begun), np.cumsum(begun) - 1
    size = np.bincount(number, transfers.bytes[rows]).astype(np.float64)
    return PairBursts(
        transfers.start_ns[rows[first]], np.maximum.reduceat(transfers.end_ns[rows], first), size, rows, number
    )


def usual_rest(transfers: TransferTable, pair: int, steps: int) -> float:
    """A rest that half of the silent time of a pair is longer than, without the longest of each step."""
    rest = np.sort(_rests(transfers, _messages(transfers, pair)))
    return half_of_sum(rest[: max(rest.size - steps, 1)]) if rest.size else 0.0


def overlaps(one: PairBursts, other: PairBursts, rules: LayoutRules = RULES) -> tuple[Int64, Bool]:
    """For each burst of one pair that of the other (which must have some) that it has most time in common with, and
    whether they are at one time."""
    after = np.searchsorted(other.begin, one.begin)
    near, most = after, np.full(one.begin.size, -np.inf)
    for place in (np.maximum(after - 1, 0), np.minimum(after, other.begin.size - 1)):
        shared = np.minimum(one.end, other.end[place]) - np.maximum(one.begin, other.begin[place])
        shorter = np.minimum(one.end - one.begin, other.end[place] - other.begin[place])
        share = shared / np.maximum(shorter, 1)
        near, most = np.where(share > most, place, near), np.maximum(share, most)
    return near, most >= rules.stages.at_one_time


def _messages(transfers: TransferTable, pair: int) -> Int64:
    rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    return rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]


def _rests(transfers: TransferTable, rows: Int64) -> Float64:
    rests: Float64 = np.maximum(transfers.start_ns[rows[1:]] - transfers.end_ns[rows[:-1]], 0).astype(np.float64)
    return rests
