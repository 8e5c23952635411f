"""When links rest, and the steps that lie between their longest rests.

A job's clock may tick among the passes of its pipelines: then what it takes for a step is the end of one and the begin
of the next. The links of a pipeline know better where no pass is cut off: after their longest common rest in each step,
while gradients are synchronised and the optimizer runs.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, rows_of_pairs

__all__ = ["common_rests", "rested_clock"]


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
