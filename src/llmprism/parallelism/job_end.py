"""Where the steps of a job end, by how the job itself does.

A job that ends has ended its last step: nothing is sent for a next one. So every pair has sent whole steps then, and
what it sends between that place of its bytes and the clock's tick, in all steps before, is the next step's (gathers of
parameters, the first activations), or this step's where the tick is too early. A step ends when the last pair has sent
its bytes. Nothing need be silent there: gathers that hide under the next forward pass leave no pause at the end of a
step, and no other trace of it than the job's last step, which has none behind it.

A checkpoint or an evaluation that the window ends in tells the same. But who crashes or hangs leaves a step in the
middle, and so does a window. In a pipeline that shows: activations are outstanding. Elsewhere it does where parameters
are gathered on other pairs than gradients are reduced on, as by rings that run the other way round: each pair has sent
whole steps then, those that gather one less, and who is stopped in a step leaves pairs in parts of theirs. Otherwise
the end says only that a tick is missing, where pairs have sent whole steps since the last one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median, medians
from llmprism.kernel import kernel
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import Sharding
from llmprism.parallelism.byte_line import on_byte_line, running_medians, with_missing_ticks
from llmprism.parallelism.interruptions import interruption_ns
from llmprism.parallelism.partial_layout import PartialLayout
from llmprism.parallelism.phase import message_silences, outstanding, sent_by
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import half_of_sum
from llmprism.stats.silences import Silences

__all__ = ["counted_from_end", "with_settled_clock"]


def with_settled_clock(draft: PartialLayout) -> PartialLayout:
    """The draft, its clock on the line of the job's bytes (where only gradients are sent) and counted from its end."""
    job, links, clock = draft.whole, draft.stage_links, draft.clock
    if not draft.groups:
        return draft
    silences = message_silences(job.transfers, job.transfers.pair_bytes > 0)
    if not draft.pipes.forward:
        clock = on_byte_line(silences, clock, draft.rules)
    clock = with_missing_ticks(silences, clock, draft.rules)
    placed = bool(links) and draft.sharded is not None and draft.sharded.sharding is Sharding.FSDP
    clock = counted_from_end(job, silences, draft.job.transfers, links, clock, draft.rules, placed=placed)
    return replace(draft, clock=clock)


def counted_from_end(
    job: Job,
    silences: Silences,
    passes: TransferTable,
    links: list[tuple[int, int]],
    clock: StepClock,
    rules: LayoutRules = RULES,
    *,
    placed: bool = False,
) -> StepClock:
    """The clock, its ticks at the place of the bytes at which the job ended; as it is where the job did not, or left a
    step in the middle, and but for missing ones where its ticks are `placed` by what is gathered already. `silences`
    are those of all its messages; `links` are those between stages, as pairs there and back, of whose rows `passes` has
    bytes for activations and their gradients only."""
    transfers = job.transfers
    if clock.steps < rules.clock.least_steps or silences.count < clock.steps:
        return clock
    end = int(silences.begin_ns[-1])
    ticks = clock.boundary_ns[clock.boundary_ns < end - 0.5 * clock.period_ns]
    interrupted = job.watched_until_ns - end > interruption_ns(silences, clock, rules)
    if not interrupted or ticks.size < rules.ends.counted_ticks:
        return clock
    bulk = job.bulk if job.bulk is not None else transfers.pair_bytes > 0
    found = _from_end(transfers, bulk, links, ticks, end, rules)
    if found is None or (links and not _all_answered(passes, links, silences.begin_ns, clock, rules)):
        return clock
    gathers = (bool(links) and 1 <= found.steps <= 2) or (found.whole and found.steps == 1)
    ticks_too_late = found.early > 0.0 and gathers and not placed
    if not ticks_too_late and (found.early != 0.0 or found.steps < 1 or ticks.size < clock.boundary_ns.size):
        return clock
    when = _reached(transfers.pair_offsets, transfers.end_ns, transfers.bytes, found.pairs, found.due)
    seen, missing = when[:, : ticks.size], when[:, ticks.size :].max(axis=0)
    moved = np.append(_moved(seen, ticks, clock.period_ns, rules) if ticks_too_late else ticks, missing)
    by = float(median(ticks - moved[: ticks.size])) / clock.period_ns
    if (np.diff(moved) <= 0).any() or (ticks_too_late and by <= rules.ends.counted_early):
        return clock  # bytes that take no time are no gathering: a member lacks them that was let down
    regular = np.append(clock.regular[: ticks.size - 1], np.ones(found.steps, dtype=np.bool_))
    return StepClock(moved, regular, clock.dominance, complete=ticks_too_late)


def _moved(when: Int64, ticks: Int64, period_ns: float, rules: LayoutRules) -> Int64:
    """The ticks where the last pair has sent its bytes of the step; those that are far from their usual place of it (a
    record was lost, a checkpoint came between) at that."""
    off = np.minimum(when, ticks).max(axis=0) - ticks
    usual = int(median(off))
    return ticks + np.where(np.abs(off - usual) <= rules.ends.near_phase * period_ns, off, usual)


def _all_answered(
    passes: TransferTable, links: list[tuple[int, int]], moments: Int64, clock: StepClock, rules: LayoutRules
) -> bool:
    """Is less than half of a message outstanding in the last of these moments, or little of what ever is?"""
    sign = np.zeros(passes.pair_count, dtype=np.int8)
    sign[[there for there, _ in links]] = 1
    sign[[back for _, back in links]] = -1
    message = half_of_sum(passes.bytes[passes.messages_of(sign != 0)])
    waiting = outstanding(passes, sign, moments, clock.period_ns)
    return bool(waiting.bytes[-1] <= 0.5 * message or waiting.share[-1] <= rules.ends.settled)


@dataclass(frozen=True, slots=True)
class _FromEnd:
    """Pairs whose steps repeat, what each will have sent by the end of the step at each tick and at those that are
    missing after the last, the share of a step that all of them send between that and the ticks (`early`, for the next
    step; negative: after the ticks), and how many steps after the last tick the job ended. `whole`: each pair has sent
    a whole number of its own steps since the last tick, some of them one less than the others, and no more than
    parameters are: pairs that send one message in a step have sent whole ones whenever they are stopped."""

    pairs: Int64
    due: Float64
    early: float
    steps: int
    whole: bool = False


def _from_end(
    transfers: TransferTable, bulk: Bool, links: list[tuple[int, int]], ticks: Int64, end: int, rules: LayoutRules
) -> _FromEnd | None:
    """None where the pairs whose steps repeat are not most of the bytes, or where one that carries gradients lacks more
    than parameters are: then they were not sent. Counted from the end steps lie on a line, which retransmissions and
    evaluations move for all that was before."""
    pairs = np.flatnonzero(bulk & (transfers.pair_bytes > 0))
    level = sent_by(transfers.pair_offsets, transfers.end_ns, transfers.bytes, pairs, np.append(ticks, end))
    length = np.diff(level[:, :-1], axis=1)
    step = medians(length, axis=1)
    spread = medians(np.abs(length - step[:, None]), axis=1)
    noise = rules.ends.surely_behind * np.maximum(rules.clock.exact_bytes * step, spread)
    exact = (spread <= rules.clock.step_tolerance * step) & (step > 0)
    if not exact.any() or step[exact].sum() < rules.ends.counted_bytes * step.sum():
        return None
    since = (level[:, -1] - level[:, -2]) / np.maximum(step, 1.0)
    whole = not links and _one_less(since[exact], (noise / np.maximum(step, 1.0))[exact])
    steps = int(np.rint(since[exact].max() if whole else (since * step)[exact].sum() / step[exact].sum()))
    line = level[:, -1:] - step[:, None] * np.arange(steps + ticks.size - 1, -1, -1)
    off = running_medians(level[:, :-1] - line[:, : ticks.size], min(2 * rules.ends.line_ticks + 1, ticks.size))
    between_stages = np.isin(pairs, [pair for link in links for pair in link])
    if not whole and (~between_stages & (off[:, -1] - noise > rules.ends.gathered_at_most * step)).any():
        return None
    line[:, : ticks.size] += off - off[:, -1:]
    early = float(np.where(np.abs(off[:, -1]) <= noise, 0.0, off[:, -1])[exact].sum() / step[exact].sum())
    early = early if abs(early) > rules.ends.counted_early else 0.0
    whole = whole and early <= rules.ends.gathered_share[1]
    return _FromEnd(pairs[exact], (line - noise[:, None])[exact], early, steps, whole)


def _one_less(since: Float64, noise: Float64) -> bool:
    """Has each pair sent a whole number of its steps, within its noise, some of them one less than all others?"""
    count = np.rint(since)
    return bool((np.abs(since - count) <= noise).all() and np.ptp(count) == 1.0)


@kernel
def _reached(offsets: Int64, end: Int64, size: Int64, pairs: Int64, due: Float64) -> Int64:
    """When each pair had sent so many bytes (ascending for each): the end of the row that made them up; -1 where it was
    none."""
    when = np.full(due.shape, -1, dtype=np.int64)
    for index in range(pairs.size):
        row, total, last = offsets[pairs[index]], 0.0, np.int64(-1)
        for k in range(due.shape[1]):
            while row < offsets[pairs[index] + 1] and total < due[index, k]:
                total += size[row]
                last = max(last, end[row])
                row += 1
            when[index, k] = last
    return when
