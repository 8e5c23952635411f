"""Steps of a job and the end of each step on each member."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps
from llmprism.stats.stretches import stretch_starts
from llmprism.timeline.first_step import with_first_steps
from llmprism.timeline.member_begins import first_messages
from llmprism.timeline.optimizer_end import last_done, with_optimizer
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["member_ends", "steps_of"]


def steps_of(job: Job, layout: JobLayout, rules: TimelineRules = RULES) -> Steps:
    """The regular steps of the layout's clock, pauses and set-up distinguished."""
    clock = layout.clock
    if clock is None or not clock.steps:
        return Steps.empty()
    complete = clock.complete
    clock = with_first_steps(job, layout, clock, rules)
    first = first_messages(job.transfers, clock.boundary_ns, rules)
    boundary = with_optimizer(layout, clock.boundary_ns, first, rules)
    done = last_done(job, layout, clock.boundary_ns, first, rules)
    regular = np.flatnonzero(clock.regular)
    to_the_end = regular.size > 1 and regular[-1] == clock.regular.size - 1 and not complete
    if to_the_end and _cut_off(job.transfers, layout, clock, rules):
        regular = regular[:-1]
    start, end = boundary[regular], boundary[regular + 1]
    lead = first[regular] - start
    usual = median(lead)
    pause = (lead > rules.pause_factor * usual) & (lead - usual > median(end - start))
    start = np.where(pause, first[regular] - usual.astype(np.int64), start)
    setup = np.zeros(regular.size, dtype=np.bool_)
    duration = end - start
    setup[0] = bool(regular[0] == 0 and duration[0] > rules.setup_factor * median(duration))
    over = None if done is None else np.maximum(done[regular + 1], end)
    job_end_ns = int(clock.boundary_ns[-1]) if complete else 0
    return Steps(start.astype(np.int64), end.astype(np.int64), setup, over, job_end_ns)


def _cut_off(transfers: TransferTable, layout: JobLayout, clock: StepClock, rules: TimelineRules) -> bool:
    """Does the window end within the last step? Then nothing is sent after it, and less was sent in it than in the
    others, by more than those differ: a step ends when its bytes are sent."""
    counted = transfers.bytes >= MESSAGE_FLOOR_BYTES
    gradients = counted & (layout.transfer_kind == PairKind.DP)
    rows = np.flatnonzero(gradients if gradients.any() else counted)
    if not rows.size or int(transfers.start_ns[counted].max()) > clock.boundary_ns[-1]:
        return False
    step = clock.step_at(transfers.start_ns[rows])
    sent = np.bincount(step[step >= 0], transfers.bytes[rows[step >= 0]], minlength=clock.regular.size)
    others = sent[:-1][clock.regular[:-1]]
    usual = float(median(others))
    spread = float(median(np.abs(others - usual)))
    return bool(sent[-1] < usual - max(rules.cut_off * usual, rules.cut_off_spreads * spread))


def member_ends(job: Job, layout: JobLayout, steps: Steps) -> Int64:
    """When each member's last gradient message of each step ended; -1 where none was seen."""
    members = np.array(job.members, dtype=np.int64)
    ends = np.full((members.size, steps.count), -1, dtype=np.int64)
    if not steps.count:
        return ends
    transfers = job.transfers
    counted = (layout.transfer_kind == PairKind.DP) & (transfers.bytes >= MESSAGE_FLOOR_BYTES)
    rows = np.flatnonzero(counted)
    step = steps.up_to(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    pair = transfers.pair_of_row[rows]
    first = stretch_starts(pair, step)
    latest = np.maximum.reduceat(transfers.end_ns[rows], first)
    for ends_of_pair in (transfers.pair_src, transfers.pair_dst):
        member = np.searchsorted(members, ends_of_pair[pair[first]])
        np.maximum.at(ends, (member, step[first]), latest)
    return ends
