"""Records that a collector lost, or estimated from samples: the bytes of a step are put right before a layout is read.

Everything that follows the clock reads positions in bytes: where silences lie, how much is outstanding, how many
messages make a step. All of it takes for granted that a step moves the same bytes every time. Where one record in fifty
is missing the sums wander, the further the longer, and ends of steps wander with them.

*Lost or late?* A tick that is misplaced gives one step what it takes from the next, so over several steps together
bytes vary no more than over one. What is lost is not made up for: bytes over six steps vary by the root of six times as
much. Where most pairs show that, the collector loses records. Routed tokens vary in the same way, but not the bytes of
all pairs of a job.

*Put right.* Each pair's bytes within a step are scaled to what is usual for it. That moves nothing in time, and little
within the step; what is right in total is where the next step begins.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, medians
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["loses_records", "with_usual_bytes"]


def loses_records(job: Job, bulk: Bool, clock: StepClock, rules: LayoutRules = RULES) -> bool:
    """Do the bytes of most pairs wander from step to step, so that nothing makes up for what is missing?"""
    rule = rules.losses
    sent = _StepBytes.of(job.transfers, bulk, clock)
    together = min(rule.steps_together, clock.regular.size // 3)
    if together < 2 or not sent.pairs.size:
        return False
    share = sent.by_step / sent.usual[:, None]
    single, several = (_spread(share, clock.regular, steps, rules) for steps in (1, together))
    grows = rule.growth * np.sqrt(together)
    wander = (several > grows * single) & (several > rule.least_spread)
    if wander.mean() < rule.most_pairs:
        return False
    off = share[:, clock.regular] - 1.0
    if -np.minimum(off, 0.0).sum() < rule.missing * np.maximum(off, 0.0).sum():
        return False
    return _all_along(off, rules)


def _all_along(off: Float64, rules: LayoutRules) -> bool:
    """Are bytes off in all parts of the time, rather than while something is wrong with the job or its network?"""
    rule = rules.losses
    parts = off.shape[1] // rule.steps_together
    if parts < rule.least_parts:
        return False
    each = np.minimum(np.abs(off), rule.most_off).sum(axis=0)[: parts * rule.steps_together]
    by_part = each.reshape(parts, -1).sum(axis=1)
    return bool(np.quantile(by_part, 0.25) >= rule.all_along * by_part.mean())


def with_usual_bytes(job: Job, clock: StepClock, rules: LayoutRules = RULES) -> Job:
    """The job, its pairs with their usual bytes in every regular step of the clock."""
    transfers = job.transfers
    sent = _StepBytes.of(transfers, np.ones(transfers.pair_count, dtype=np.bool_), clock)
    factor = np.ones((transfers.pair_count, clock.regular.size + 1))
    own = sent.usual[:, None] / np.maximum(sent.by_step, 1.0)
    usable = clock.regular & (own >= 1.0 / rules.losses.most_factor) & (own <= rules.losses.most_factor)
    factor[sent.pairs, :-1] = np.where(usable, own, 1.0)
    step = clock.step_at(transfers.start_ns)  # -1, outside: the last column
    scaled = np.ceil(transfers.bytes * factor[transfers.pair_of_row, step]).astype(np.int64)
    return replace(job, transfers=replace(transfers, bytes=scaled))


@dataclass(frozen=True, slots=True)
class _StepBytes:
    """The bytes of some pairs in every step (pairs x steps), and in a usual one: those that send in most steps."""

    pairs: Int64
    usual: Float64
    by_step: Float64

    @classmethod
    def of(cls, transfers: TransferTable, bulk: Bool, clock: StepClock) -> _StepBytes:
        steps, step = clock.regular.size, clock.step_at(transfers.start_ns)
        inside = step >= 0
        cell = transfers.pair_of_row[inside].astype(np.int64) * steps + step[inside]
        sums = np.bincount(cell, transfers.bytes[inside], minlength=transfers.pair_count * steps)
        by_step = sums.reshape(transfers.pair_count, steps).astype(np.float64)
        usual = medians(by_step[:, clock.regular], axis=1) if clock.regular.any() else np.zeros(transfers.pair_count)
        pairs = np.flatnonzero(bulk & (usual > 0.0))
        return cls(pairs, usual[pairs], by_step[pairs])


def _spread(share: Float64, regular: Bool, steps: int, rules: LayoutRules) -> Float64:
    """By how much the sums over so many regular steps in a row differ from their median, for each pair: what three
    quarters of them stay below."""
    sums = np.lib.stride_tricks.sliding_window_view(share, steps, axis=1).sum(axis=2)
    whole = np.lib.stride_tricks.sliding_window_view(regular, steps).all(axis=1)
    if not whole.any():
        return np.zeros(share.shape[0])
    kept = sums[:, whole]
    off = np.abs(kept - medians(kept, axis=1)[:, None])
    return np.asarray(np.quantile(off, rules.losses.spread_quantile, axis=1))
