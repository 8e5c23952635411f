"""A step of pipelines ends before parameters that the first stage gathers while it computes its first forward pass.

A sharded optimizer may hide its gathers under the next forward pass: only the first bucket must have arrived before it
begins. Then the first stage still gathers, or has only just done so, when it sends its first activation. One that
gathers at the end of the step has gathered everything a whole forward pass before that. What is gathered under the
passes comes at once: the first stage sends nothing more then until its last backward pass.

How much it gathers in all is known: as much as it scatters, or half as much where gradients are of twice the width. So
the step ends where so much, less what came under the passes, is left to be gathered before the first activation: in the
longest silence of the first stage about that place.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.phase import message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.sharded_stages import begins_of_gathers, rests_of_stages
from llmprism.stats.silences import Silences

__all__ = ["before_gathers_ahead"]


def before_gathers_ahead(
    transfers: TransferTable, sign: Int8, gradient: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> StepClock:
    """The clock, its ticks where the first stage begins to gather; as it is where it does not gather under a pass.

    `sign` is +1 for pairs that carry activations, -1 for those that carry gradients between stages, 0 for all others;
    `gradient` marks the pairs of the replicas of a stage."""
    stages = np.setdiff1d(transfers.pair_src[sign > 0], transfers.pair_dst[sign > 0])
    of_first = np.isin(transfers.pair_src, stages)
    collectives, onward = gradient & of_first, np.flatnonzero(of_first & (sign > 0))
    shards = message_silences(transfers, collectives)
    rests = rests_of_stages(transfers, sign != 0, clock, rules)
    known = np.flatnonzero(rests.awake >= 0)
    if not shards.count or known.size < rules.ends.counted_ticks:
        return clock
    asleep, awake = rests.asleep[known], rests.awake[known]
    under = _under_the_passes(shards, asleep, awake, rules)
    if under is None or not _still_gathers(transfers, shards, onward, awake, under, rules):
        return clock
    left = [share * under.step - under.sent for share in rules.ends.gathered_of_rest]
    left = [most for most in left if most >= rules.ends.left_to_gather * under.step]
    if not left:
        return clock
    boundary = clock.boundary_ns.copy()
    boundary[known] = begins_of_gathers(shards, asleep, awake, tuple(left), rules)
    return clock if (np.diff(boundary) <= 0).any() else StepClock(boundary, clock.regular, clock.dominance)


@dataclass(frozen=True, slots=True)
class _Under:
    """Bytes that the first stage sends in a `step`, and those that it has `sent` of them under the first passes."""

    step: float
    sent: float


def _under_the_passes(shards: Silences, asleep: Int64, awake: Int64, rules: LayoutRules) -> _Under | None:
    """None where the first stage sends throughout its passes, or begins to in the midst of them."""
    length = asleep[1:] - awake[:-1]
    places = np.stack([awake[:-1] + length * eighths // 8 for eighths in range(6)])
    sent = bytes_at(shards, places.ravel()).reshape(places.shape)
    parts: Float64 = np.median(np.diff(sent, axis=0), axis=1)
    whole = float(median(np.diff(bytes_at(shards, awake))))
    still = np.flatnonzero(parts[::-1].cumsum()[::-1] > rules.ends.first_waits * whole)
    at_once = not still.size or parts[0] >= rules.ends.gathers_at_once * parts.max()
    return _Under(whole, float(parts[: still.size].sum())) if at_once and still.size < parts.size else None


def _still_gathers(
    transfers: TransferTable, shards: Silences, onward: Int64, awake: Int64, under: _Under, rules: LayoutRules
) -> bool:
    """Has the first stage gathered all but what a pass exchanges so late that it has computed its first activation
    while it did, by more than the clocks of two switches differ?"""
    last = bytes_at(shards, awake) + under.sent - rules.ends.exchanged_ahead * under.step
    waits = float(median(awake - time_at(shards, last)))
    return waits <= rules.ends.still_gathers * _pass_ns(transfers, onward, awake, rules) - rules.ends.moment_floor_ns


def _pass_ns(transfers: TransferTable, onward: Int64, awake: Int64, rules: LayoutRules) -> float:
    """How long these pairs usually rest for each activation between the first record of a step and the second. A record
    may hold several activations: as many as it is times as large as small ones are."""
    rests, sizes = [], []
    for pair in onward.tolist():
        rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
        rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
        first = np.searchsorted(transfers.start_ns[rows], awake)
        now, then = rows[first[first + 1 < rows.size]], rows[first[first + 1 < rows.size] + 1]
        rests.append(transfers.start_ns[then] - transfers.start_ns[now] - transfers.active_ns[now])
        sizes.append(transfers.bytes[now])
    if not rests or not (size := np.concatenate(sizes)).size:
        return 0.0
    single = np.quantile(size, rules.ends.single_messages)
    return max(0.0, float(median(np.concatenate(rests) / np.maximum(size / single, 1.0))))
