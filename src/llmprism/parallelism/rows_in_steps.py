"""The transfers of some pairs inside the steps of a clock, and how much each pair has sent of a step's bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable, rows_of_pairs

__all__ = ["RowsInSteps", "rows_in_steps"]


@dataclass(frozen=True, slots=True)
class RowsInSteps:
    """Per row, those of one pair after those of another, in order of time: its number in the table, the pair (an index
    into `pairs`), the step, the cell (pair times steps plus step), and what the pair has sent of the step's bytes up to
    its end. `total` are the bytes of each cell."""

    rows: Int64
    pair: Int64
    step: Int64
    cell: Int64
    sent: Float64
    total: Float64


def rows_in_steps(transfers: TransferTable, pairs: Int64, clock: StepClock) -> RowsInSteps:
    rows, pair = rows_of_pairs(transfers.pair_offsets, pairs)
    step = clock.step_at(transfers.start_ns[rows])
    inside = step >= 0
    rows, pair, step = rows[inside], pair[inside], step[inside]
    size, cell = transfers.bytes[rows], pair * clock.regular.size + step
    total: Float64 = np.bincount(cell, size, minlength=pairs.size * clock.regular.size).astype(np.float64)
    return RowsInSteps(rows, pair, step, cell, np.cumsum(size) - (np.cumsum(total) - total)[cell], total)
