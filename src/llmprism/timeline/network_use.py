"""How a job uses its network: exposed communication, pipeline bubble, achieved bus bandwidth.

Exposed communication. Gradients that are sent while the backward pass still runs come in bursts with pauses between
them, in which the network waits for the computation; behind the last such pause nothing is left to compute. What a
member does from there, and from its last pipeline message, to the end of its synchronisation is waiting. All stages
wait for the one that ends last, so that its time is taken. With sharded parameters nothing tells waiting from
prefetching: no value.

Pipeline bubble. From the first activation that reaches it to the last gradient that leaves it, the last stage of a
pipeline has work. The rest of the step up to its exposed communication is the time in which the pipeline fills and
drains: (p - 1) / (m + p - 1) of it for p equal stages and m micro-batches.

Bus bandwidth. What a member sends in the synchronisation of gradients over the time in which it sends, which for a ring
is the figure that collective benchmarks call by this name.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from llmprism.arrays import Int64, evenly_spread, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind, Schedule, Sharding
from llmprism.model.timeline import Steps
from llmprism.stats.bursts import running_max
from llmprism.stats.integer_order import grouped_order
from llmprism.stats.stretches import stretch_starts
from llmprism.timeline.gradient_traffic import GradientTraffic, training_steps
from llmprism.timeline.latest_ends import latest_ends
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["ExposedSync", "bus_bandwidth_gbps", "exposed_synchronisation", "pipeline_bubble"]


@dataclass(frozen=True, slots=True)
class ExposedSync:
    """Per step the time in which nothing but the synchronisation of gradients goes on, at the stage that ends last;
    `end_ns` is 0 in steps in which none was seen."""

    begin_ns: Int64
    end_ns: Int64

    def share(self, steps: Steps) -> float | None:
        """Of the step; the median over the steps."""
        seen = self.end_ns > 0
        shares = (self.end_ns - self.begin_ns)[seen] / np.maximum(steps.duration_ns[seen], 1)
        return float(median(np.clip(shares, 0.0, 1.0))) if shares.size else None


def exposed_synchronisation(
    job: Job,
    layout: JobLayout,
    steps: Steps,
    traffic: GradientTraffic,
    rules: TimelineRules = RULES,
    *,
    optimizer_inside: bool,
) -> ExposedSync | None:
    """None where parameters are sharded, or no gradients are seen. With `optimizer_inside` the last pause, before the
    last third of the bytes, is that of the optimizer and belongs to the synchronisation."""
    transfers = job.transfers
    large = transfers.bytes[traffic.rows] >= MESSAGE_FLOOR_BYTES
    rows, step, pair = traffic.rows[large], traffic.step[large], traffic.pair[large]
    if layout.layout.sharding == Sharding.FSDP or not rows.size:
        return None
    member = np.concatenate((transfers.pair_src[pair], transfers.pair_dst[pair])).astype(np.int64)
    key = member * steps.count + np.concatenate((step, step))
    twice = np.concatenate((rows, rows))
    order = grouped_order(key, transfers.start_ns[twice])
    twice, key = twice[order], key[order]
    first = stretch_starts(key)
    offsets = np.append(first, key.size)
    cell = np.repeat(np.arange(first.size), np.diff(offsets))
    duration = steps.duration_ns[key[first] % steps.count]
    start, busy_until = transfers.start_ns[twice], running_max(transfers.end_ns[twice], offsets)
    opens = np.ones(twice.size, dtype=np.bool_)
    opens[1:] = start[1:] - busy_until[:-1] > rules.waiting_pause * duration[cell[1:]]
    if optimizer_inside:
        size = transfers.bytes[twice].astype(np.float64)
        sent = np.cumsum(size) - size
        opens &= sent - sent[first][cell] < rules.before_optimizer * np.add.reduceat(size, first)[cell]
    opens[first] = True
    begin = start[np.maximum.reduceat(np.where(opens, np.arange(twice.size), 0), first)]
    begin = np.maximum(begin, _last_pipeline_message(job, layout, steps, key[first]))
    end, own = busy_until[offsets[1:] - 1], key[first]
    seen = end > begin  # a pipeline message after the gradients is no activation: tied embeddings
    own, begin, end = own[seen], begin[seen], end[seen]
    return _last_stage_to_end(layout, steps, own // steps.count, own % steps.count, begin, end)


def _last_stage_to_end(
    layout: JobLayout, steps: Steps, member: Int64, step: Int64, begin: Int64, end: Int64
) -> ExposedSync:
    """Per step the median begin and end over the members of the stage that ends last."""
    stage_of = layout.stage_of()
    of_member = np.zeros(max((*stage_of, int(member.max(initial=0)))) + 1, dtype=np.int64)
    of_member[list(stage_of)] = list(stage_of.values())
    stage = of_member[member]
    result = ExposedSync(np.zeros(steps.count, dtype=np.int64), np.zeros(steps.count, dtype=np.int64))
    order = np.lexsort((stage, step))
    cuts = np.append(stretch_starts(step[order], stage[order]), order.size)
    for low, high in pairwise(cuts.tolist()):
        cell = order[low:high]
        middle, at = int(median(end[cell])), int(step[cell[0]])
        if middle > result.end_ns[at]:
            result.end_ns[at], result.begin_ns[at] = middle, int(median(begin[cell]))
    return result


def _last_pipeline_message(job: Job, layout: JobLayout, steps: Steps, wanted: Int64) -> Int64:
    """For each wanted member and step (member * steps + step, ascending) the end of the member's last pipeline message
    of the step; 0 where it has none."""
    transfers = job.transfers
    members = np.unique(wanted // steps.count)
    row_of = np.full(len(transfers.addresses), -1, dtype=np.int64)
    row_of[members] = np.arange(members.size)
    ends = np.stack([row_of[transfers.pair_src], row_of[transfers.pair_dst]])
    latest = latest_ends(
        transfers.pair_offsets, transfers.start_ns, transfers.end_ns,
        (layout.transfer_kind == PairKind.PP) & (transfers.bytes >= MESSAGE_FLOOR_BYTES), ends, members.size,
        steps.start_ns, steps.end_ns,
    )  # fmt: skip
    return latest[row_of[wanted // steps.count], wanted % steps.count]


def pipeline_bubble(
    job: Job, layout: JobLayout, steps: Steps, exposed: ExposedSync | None, rules: TimelineRules = RULES
) -> float | None:
    """Share of a step up to its exposed synchronisation (None: there is none); median over the steps. None where the
    schedule is not known. Of the pipelines the busiest counts: the others wait for it, which is not of the schedule."""
    counted = training_steps(steps)
    if layout.layout.schedule == Schedule.UNKNOWN or not counted.size or not layout.pipelines:
        return None
    pipelines = [pipeline for pipeline in layout.pipelines if len(pipeline) > 1]
    until = steps.end_ns if exposed is None else np.where(exposed.end_ns > 0, exposed.begin_ns, steps.end_ns)
    spread = evenly_spread(len(pipelines), rules.pipelines_looked_at)
    usual = [_usual_bubble(job.transfers, layout, steps, pipelines[place], until, counted) for place in spread.tolist()]
    return min((one for one in usual if one is not None), default=None)


def _usual_bubble(
    transfers: TransferTable, layout: JobLayout, steps: Steps, pipeline: tuple[int, ...], until: Int64, counted: Int64
) -> float | None:
    """The median share of the steps without work at the last stage. None where less than half of the steps show one:
    its messages are not seen, or gradients flow so early that the end of the work does not show."""
    to_last = _messages(transfers, layout, pipeline[-2], pipeline[-1])
    from_last = _messages(transfers, layout, pipeline[-1], pipeline[-2])
    arrived = _per_step(steps, transfers.start_ns[to_last], transfers.end_ns[to_last], last=False)[counted]
    left = _per_step(steps, transfers.start_ns[from_last], transfers.start_ns[from_last], last=True)[counted]
    start, end = steps.start_ns[counted], until[counted]
    seen = (arrived > start) & (left > arrived) & (end >= left)
    if 2 * int(seen.sum()) < counted.size:
        return None
    return float(median(1.0 - (left - arrived)[seen] / (end - start)[seen]))


def _messages(transfers: TransferTable, layout: JobLayout, src: int, dst: int) -> Int64:
    pair = int(transfers.pairs_between(np.array([src]), np.array([dst]))[0])
    if pair < 0:
        return np.zeros(0, dtype=np.int64)
    first, after = int(transfers.pair_offsets[pair]), int(transfers.pair_offsets[pair + 1])
    wanted = layout.transfer_kind[first:after] == PairKind.PP
    return first + np.flatnonzero(wanted & (transfers.bytes[first:after] >= MESSAGE_FLOOR_BYTES))


def _per_step(steps: Steps, start_ns: Int64, value: Int64, *, last: bool) -> Int64:
    """The first or the last value of the messages that begin in each step, 0 where there is none."""
    step = steps.at(start_ns)
    value, step = value[step >= 0], step[step >= 0]
    none = 0 if last else np.iinfo(np.int64).max
    result = np.full(steps.count, none, dtype=np.int64)
    if last:
        np.maximum.at(result, step, value)
    else:
        np.minimum.at(result, step, value)
    result[result == none] = 0
    return result


def bus_bandwidth_gbps(job: Job, traffic: GradientTraffic) -> float | None:
    """Gigabits per second; median over the members that send."""
    transfers = job.transfers
    large = transfers.bytes[traffic.rows] >= MESSAGE_FLOOR_BYTES
    rows, src = traffic.rows[large], transfers.pair_src[traffic.pair[large]]
    if not rows.size:
        return None
    order = grouped_order(src, transfers.start_ns[rows])
    rows, src = rows[order], src[order]
    first = stretch_starts(src)
    busy_until = running_max(transfers.end_ns[rows], np.append(first, rows.size))
    begin = transfers.start_ns[rows].copy()
    begin[1:] = np.where(src[1:] == src[:-1], np.maximum(begin[1:], busy_until[:-1]), begin[1:])
    busy = np.add.reduceat(np.maximum(transfers.end_ns[rows] - begin, 0), first)
    sent = np.add.reduceat(transfers.bytes[rows], first)
    usable = busy > 0
    return float(median(8.0 * sent[usable] / busy[usable])) if usable.any() else None
