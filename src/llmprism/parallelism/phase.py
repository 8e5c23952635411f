"""Where in the cycle a step ends.

The clock that a job was recognised by may tick at any fixed point of the step: the gradients of the last stage end
long before those of the first. A step ends with its gradient synchronisation, and the next one begins with the first
activations. So in a job with pipelines the longest silence of *pipeline* traffic holds the boundary, and the last
gradient that began before the pipelines woke up again marks it. Without pipelines the silence of a whole group does.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable
from llmprism.stats.byte_steps import Chain, chain_at, find_steps
from llmprism.stats.silences import Silences, silences_of

Bool = NDArray[np.bool_]

__all__ = ["MESSAGE_FLOOR_BYTES", "gradient_clock", "pipeline_clock"]

MESSAGE_FLOOR_BYTES: Final = 1_000
"""Smaller records are heartbeats and store messages; the smallest gradient bucket of a real job was 6 KB."""

TOLERANCE: Final = 0.03
"""Relative deviation of one step's bytes within a whole group or all pipelines."""

SAME_STEPS: Final = 0.15
"""Relative difference allowed between the steps found here and those the job was recognised by."""


def pipeline_clock(transfers: TransferTable, pipeline: Bool, gradient: Bool, step_bytes: float,
                   clock: StepClock) -> StepClock | None:  # fmt: skip
    """Boundaries of a job with pipelines; None when the pipelines' silences do not tell as many steps as `clock`."""
    silences = _union(transfers, pipeline)
    if silences.count < 3 or step_bytes <= 0:
        return None
    chain = chain_at(silences, step_bytes, TOLERANCE)
    if not _agrees(chain, clock):
        return None
    asleep = silences.begin_ns[chain.boundaries]
    awake = asleep + silences.length_ns[chain.boundaries]
    end = np.maximum(asleep, _last_end_before(transfers, gradient, awake))
    regular = chain.regular
    if silences.bytes_before[chain.boundaries[0]] >= (1.0 - TOLERANCE) * chain.bytes_per_step:
        lead = int(np.median(awake[:-1] - end[:-1])) if end.size > 1 else 0
        first = int(transfers.start_ns[_rows(transfers, pipeline)].min()) - lead
        end, regular = np.concatenate([[first], end]), np.concatenate([[True], regular])
    return StepClock(end, regular, chain.dominance)


def gradient_clock(transfers: TransferTable, group: Bool, clock: StepClock) -> StepClock | None:
    """Boundaries of one group of a job without pipelines, from the silences of the whole group."""
    silences = _union(transfers, group)
    chain = find_steps(silences, max_steps=2 * clock.steps + 4)
    if chain is None or not _agrees(chain, clock):
        return None
    return StepClock(silences.begin_ns[chain.boundaries], chain.regular, chain.dominance)


def _agrees(chain: Chain, clock: StepClock) -> bool:
    return abs(chain.steps - clock.steps) <= 1 + SAME_STEPS * clock.steps


def _rows(transfers: TransferTable, pairs: Bool) -> Bool:
    return np.repeat(pairs, np.diff(transfers.pair_offsets))


def _union(transfers: TransferTable, pairs: Bool) -> Silences:
    rows = np.flatnonzero(_rows(transfers, pairs))
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    return silences_of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows], MESSAGE_FLOOR_BYTES)


def _last_end_before(transfers: TransferTable, pairs: Bool, limit_ns: Int64) -> Int64:
    """For each limit the latest end of a message of these pairs that began before it, or -1."""
    rows = np.flatnonzero(_rows(transfers, pairs) & (transfers.bytes >= MESSAGE_FLOOR_BYTES))
    if not rows.size:
        return np.full(limit_ns.size, -1, dtype=np.int64)
    rows = rows[np.argsort(transfers.start_ns[rows], kind="stable")]
    horizon = np.maximum.accumulate(transfers.end_ns[rows])
    index = np.searchsorted(transfers.start_ns[rows], limit_ns) - 1
    return np.where(index >= 0, horizon[np.maximum(index, 0)], -1)
