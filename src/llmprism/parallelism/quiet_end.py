"""Where a step ends when its gradients are not seen.

A job of one replica, or one whose replicas share servers, shows nothing but its pipelines. They rest from the last
gradient that reaches the first stage to the first activation that leaves it; the step ends somewhere in between. Two
signs tell where:

* *The norm.* Clipping needs the norm of all gradients: tiny messages between most members within a moment, once in
  every rest, after the last backward pass. An evaluation in the rest has other such messages; the norm is then the one
  that comes when it usually does.
* *The last backward pass.* The last stage computes every micro-batch forward and backward without waiting in between,
  so its messages show how long one takes. The first stage has one backward pass to go, two thirds of that.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64, Int64, nearest
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.phase import rests_after
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["quiet_ends"]


def quiet_ends(transfers: TransferTable, links: list[tuple[int, int]], last_links: list[tuple[int, int]],
               batches: int | None, clock: StepClock, rules: LayoutRules = RULES) -> StepClock:  # fmt: skip
    """The clock of the pipelines, which ticks when they go to rest, moved to where the steps end.

    `links` and `last_links` are (forward, backward) pairs: of all stages, and of the last two.
    """
    pipelines = np.zeros(transfers.pair_count, dtype=np.bool_)
    pipelines[[pair for link in links for pair in link]] = True
    rest = np.maximum(rests_after(transfers, pipelines, clock.boundary_ns), 0)
    delay = _norms(transfers, clock, rest, rules)
    if delay is None:
        delay = _backward_pass(transfers, last_links, batches, clock, rest, rules)
    return StepClock(clock.boundary_ns + delay, clock.regular, clock.dominance)


def _norms(transfers: TransferTable, clock: StepClock, rest: Int64, rules: LayoutRules) -> Int64 | None:
    """Time from each boundary to the end of the last burst of tiny messages in the rest; None where there is none."""
    when = np.sort(transfers.end_ns[transfers.bytes < MESSAGE_FLOOR_BYTES])
    moment = max(rules.ends.moment_floor_ns, int(rules.ends.moment * clock.period_ns))
    members = np.union1d(transfers.pair_src, transfers.pair_dst).size
    crowd = np.arange(1, when.size + 1) - np.searchsorted(when, when - moment, side="left")
    when = when[crowd >= max(rules.ends.take_part * members, 2)]
    last = np.searchsorted(when, clock.boundary_ns + rest, side="right") - 1
    delay = np.where(last >= 0, when[np.maximum(last, 0)], 0) - clock.boundary_ns if when.size else -rest
    seen = (delay > moment) & (rest > 0)  # what ends with the last message belongs to it
    if seen.sum() < rules.ends.norm_seen * max((rest > 0).sum(), 1):
        return None
    usual = float(np.median(delay[seen]))
    if float(np.median(np.abs(delay[seen] - usual))) > rules.ends.norm_steady * clock.period_ns:
        return None
    elsewhere = seen & (np.abs(delay - usual) > rules.ends.norm_steady * clock.period_ns)
    delay = np.where(elsewhere, when[nearest(clock.boundary_ns + int(usual), when)] - clock.boundary_ns, delay)
    seen &= (delay > moment) & (delay <= rest)
    return np.where(seen, delay, min(usual, float(rest.max(initial=0)))).astype(np.int64)


def _backward_pass(transfers: TransferTable, last_links: list[tuple[int, int]], batches: int | None, clock: StepClock,
                   rest: Int64, rules: LayoutRules) -> Int64:  # fmt: skip
    """Time that the first stage computes on after the last gradient has reached it."""
    if batches is None or not last_links:
        return np.zeros(clock.boundary_ns.size, dtype=np.int64)
    spans = np.concatenate([_busy(transfers, forward, backward, clock) for forward, backward in last_links])
    spans = spans[np.isfinite(spans)]
    backward = rules.stages.backward_share * float(np.median(spans)) / batches if spans.size else 0.0
    return np.where(rest > 0, np.minimum(rest, backward), backward).astype(np.int64)


def _busy(transfers: TransferTable, forward: int, backward: int, clock: StepClock) -> Float64:
    """Per regular step the time from the first activation's arrival at the last stage to its last gradient."""
    arrived = np.full(clock.regular.size, np.inf)
    left = np.full(clock.regular.size, -np.inf)
    for pair in (forward, backward):
        rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
        rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
        step = clock.step_at(transfers.start_ns[rows])
        rows, step = rows[step >= 0], step[step >= 0]
        if pair == forward:
            np.minimum.at(arrived, step, transfers.end_ns[rows].astype(np.float64))
        else:
            np.maximum.at(left, step, transfers.start_ns[rows].astype(np.float64))
    span = (left - arrived)[clock.regular]
    return np.where(span > 0, span, np.nan)
