"""Collectives inside the forward pass: context parallelism.

Gradients do not exist before the first backward pass. A ring that carries bytes while its members have only sent
activations so far exchanges something that the forward pass needs: keys and values of a context-parallel ring. A pair
may carry both; then what flows after its member's last pipeline message of the step is the gradients'.

Only jobs with pipelines show when their forward pass is; elsewhere nothing is decided here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable, ranges

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

__all__ = ["InStep", "find_in_step"]

MIN_SHARE: Final = 0.01
"""Share of a pair's bytes in the forward-only part of the steps: one micro-batch of many is enough."""

MIN_STEPS: Final = 0.5
"""Share of the steps in which it shows: set-up traffic and prefetching do not come every time."""

GRADIENT_SHARE: Final = 0.05
"""Share of a pair's bytes after the last pipeline message that makes it carry gradients too."""


@dataclass(frozen=True, slots=True)
class InStep:
    """Per asked pair: carries forward-pass collectives; carries gradients too. Per row of the table: is a gradient."""

    inside: Bool
    gradients: Bool
    gradient_row: Bool


def find_in_step(transfers: TransferTable, asked: Int64, forward: list[tuple[int, int]], clock: StepClock) -> InStep:
    """`forward` lists the (forward, backward) pairs of the pipelines."""
    steps = clock.boundary_ns.size - 1
    if steps < 1:
        none = np.zeros(transfers.pair_count, dtype=np.bool_)
        return InStep(none, ~none, np.ones(transfers.start_ns.size, dtype=np.bool_))
    first_forward = _extreme(transfers, [there for there, _ in forward], clock, latest=False)
    first_back = _extreme(transfers, [back for _, back in forward], clock, latest=False)
    last = _extreme(transfers, [pair for link in forward for pair in link], clock, latest=True)
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    gradients = np.ones(transfers.pair_count, dtype=np.bool_)
    gradient_row = np.ones(transfers.start_ns.size, dtype=np.bool_)
    for pair in asked:
        rows = slice(int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1]))
        start, size = transfers.start_ns[rows], transfers.bytes[rows].astype(np.float64)
        step = np.clip(np.searchsorted(clock.boundary_ns, start, side="right") - 1, 0, steps - 1)
        node = int(transfers.pair_src[pair])
        early = (start > first_forward[node][step]) & (start < first_back[node][step])
        share = float(size[early].sum()) / max(float(size.sum()), 1.0)
        if share < MIN_SHARE or np.unique(step[early]).size < MIN_STEPS * steps:
            continue
        late = start >= last[node][step]
        inside[pair] = True
        gradients[pair] = bool(size[late].sum() >= GRADIENT_SHARE * size.sum())
        gradient_row[rows] = late
    return InStep(inside, gradients, gradient_row)


class _Times(dict[int, Int64]):
    """Time per step of each node; nodes that take no part have a time that nothing is after."""

    def __init__(self, steps: int, missing: int) -> None:
        super().__init__()
        self._none = np.full(steps, missing, dtype=np.int64)

    def __missing__(self, node: int) -> Int64:
        return self._none


def _extreme(transfers: TransferTable, pairs: list[int], clock: StepClock, *, latest: bool) -> _Times:
    """First start (or last end) of these pairs' messages in each step, for both of their ends."""
    steps = clock.boundary_ns.size - 1
    missing = np.iinfo(np.int64).max
    times = _Times(steps, missing)
    for pair in pairs:
        rows = ranges(transfers.pair_offsets[pair : pair + 1], transfers.pair_offsets[pair + 1 : pair + 2])
        rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
        step = clock.step_at(transfers.start_ns[rows])
        rows, step = rows[step >= 0], step[step >= 0]
        for node in (int(transfers.pair_src[pair]), int(transfers.pair_dst[pair])):
            if node not in times:
                times[node] = np.full(steps, -1 if latest else missing, dtype=np.int64)
            if latest:
                np.maximum.at(times[node], step, transfers.end_ns[rows])
            else:
                np.minimum.at(times[node], step, transfers.start_ns[rows])
    return times
