"""By how much the gradients of one end of a pipeline are synchronised after those of the other end.

The backward pass ends on the first stage. So the gradients of the first stage are complete, and are synchronised, at
least one backward pass after those of the last stage, whatever else shares the links between the stages. Each end has
a centre of its gradients in every step, taken round from one step to the next. Where gradients flow throughout the
step (parameters gathered for every pass) there is no centre, and half of a step later is half of a step earlier. So
centres are vectors on a circle, and their cross product is taken: it is the difference where this is short, and
vanishes where it means nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import known_median

__all__ = ["later_gradients"]


def later_gradients(
    transfers: TransferTable,
    gradient: Bool,
    ends: list[tuple[int, int]],
    boundary_ns: Int64,
    rules: LayoutRules = RULES,
) -> Float64:
    """For each two ends of a pipeline the time in ns by which the first of them synchronises after the other, median
    over the steps; 0 where either synchronises nothing. `gradient` marks the pairs."""
    members, place = np.unique(np.array(ends, dtype=np.int64).reshape(-1, 2), return_inverse=True)
    if boundary_ns.size < 2 or not members.size:
        return np.zeros(len(ends))
    centre = _centres(transfers, gradient, members, boundary_ns)
    one, other = (centre[end] for end in place.reshape(-1, 2).T)
    known = (one != 0) & (other != 0)
    later = (one * np.conj(other)).imag / (2 * np.pi) * np.diff(boundary_ns)
    enough = np.count_nonzero(known, axis=1) >= rules.stages.centred_steps
    return np.where(enough, known_median(np.where(known, later, np.nan), axis=1), 0.0)


def _centres(transfers: TransferTable, gradient: Bool, members: Int64, boundary_ns: Int64) -> NDArray[np.complex128]:
    """Members x steps: where in the step (an angle) a member sends its gradients; the length is 1 where it sends all at
    one moment, 0 where it sends none or throughout the step."""
    steps = boundary_ns.size - 1
    number = np.full(len(transfers.addresses), -1, dtype=np.int64)
    number[members] = np.arange(members.size)
    rows = np.flatnonzero(
        transfers.rows_of(gradient & (number[transfers.pair_src] >= 0)) & (transfers.bytes >= MESSAGE_FLOOR_BYTES)
    )
    step = np.searchsorted(boundary_ns, transfers.start_ns[rows], side="right") - 1
    inside = (step >= 0) & (step < steps)
    rows, step = rows[inside], step[inside]
    middle = 0.5 * (transfers.start_ns[rows] - boundary_ns[step] + transfers.end_ns[rows] - boundary_ns[step])
    angle = 2 * np.pi * middle / np.maximum(np.diff(boundary_ns), 1)[step]
    size, cell = transfers.bytes[rows].astype(np.float64), number[transfers.pair_src[transfers.pair_of_row[rows]]]
    sums = [
        np.bincount(cell * steps + step, size * part, minlength=members.size * steps)
        for part in (np.cos(angle), np.sin(angle), np.ones(rows.size))
    ]
    centre = np.empty(members.size * steps, dtype=np.complex128)
    centre.real, centre.imag = (part / np.maximum(sums[2], 1.0) for part in sums[:2])
    return centre.reshape(members.size, steps)
