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
    inside = np.zeros(transfers.pair_count, dtype=np.bool_)
    gradients = np.ones(transfers.pair_count, dtype=np.bool_)
    gradient_row = np.ones(transfers.start_ns.size, dtype=np.bool_)
    rows = ranges(transfers.pair_offsets[asked], transfers.pair_offsets[asked + 1])
    if not forward or not rows.size:
        return InStep(inside, gradients, gradient_row)
    there, back = np.array(forward, dtype=np.int64).T
    pair = np.repeat(np.arange(asked.size), transfers.pair_offsets[asked + 1] - transfers.pair_offsets[asked])
    start, size = transfers.start_ns[rows], transfers.bytes[rows].astype(np.float64)
    step = np.clip(np.searchsorted(clock.boundary_ns, start, side="right") - 1, 0, steps - 1)
    node = transfers.pair_src[asked][pair]
    early = start > _extreme(transfers, there, clock, latest=False).at(node, step)
    early &= start < _extreme(transfers, back, clock, latest=False).at(node, step)
    late = start >= _extreme(transfers, np.concatenate([there, back]), clock, latest=True).at(node, step)
    total = np.bincount(pair, size, minlength=asked.size)
    share = np.bincount(pair[early], size[early], minlength=asked.size) / np.maximum(total, 1.0)
    seen = np.bincount(np.unique(pair[early] * steps + step[early]) // steps, minlength=asked.size)
    found = (share >= MIN_SHARE) & (seen >= MIN_STEPS * steps)
    after = np.bincount(pair[late], size[late], minlength=asked.size)
    inside[asked[found]] = True
    gradients[asked[found]] = (after >= GRADIENT_SHARE * total)[found]
    gradient_row[rows[found[pair]]] = late[found[pair]]
    return InStep(inside, gradients, gradient_row)


@dataclass(frozen=True, slots=True)
class _Times:
    """Time per step of each node; `row` of a node that takes no part is the last, a time that nothing is after."""

    row: Int64
    times: Int64

    def at(self, node: NDArray[np.int32], step: Int64) -> Int64:
        return self.times[self.row[node], step]


def _extreme(transfers: TransferTable, pairs: Int64, clock: StepClock, *, latest: bool) -> _Times:
    """First start (or last end) of these pairs' messages in each step, for both of their ends."""
    steps = clock.boundary_ns.size - 1
    missing = np.iinfo(np.int64).max
    ends = np.stack([transfers.pair_src[pairs], transfers.pair_dst[pairs]])
    nodes, index = np.unique(ends, return_inverse=True)
    index = index.reshape(ends.shape)
    row = np.full(len(transfers.addresses), nodes.size, dtype=np.int64)
    row[nodes] = np.arange(nodes.size)
    times = np.full((nodes.size + 1) * steps, -1 if latest else missing, dtype=np.int64)
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    pair = np.repeat(np.arange(pairs.size), transfers.pair_offsets[pairs + 1] - transfers.pair_offsets[pairs])
    step = clock.step_at(transfers.start_ns[rows])
    kept = (transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES) & (step >= 0)
    rows, pair, step = rows[kept], pair[kept], step[kept]
    for end in index:
        if latest:
            np.maximum.at(times, end[pair] * steps + step, transfers.end_ns[rows])
        else:
            np.minimum.at(times, end[pair] * steps + step, transfers.start_ns[rows])
    by_node = times.reshape(nodes.size + 1, steps)
    by_node[-1] = missing
    return _Times(row, by_node)
