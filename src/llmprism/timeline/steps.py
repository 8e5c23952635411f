"""Steps of a job and the end of each step on each member."""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps
from llmprism.stats.by_moment import NEVER, first_from
from llmprism.stats.stretches import stretch_starts
from llmprism.timeline.rules import RULES, TimelineRules

__all__ = ["member_ends", "steps_of"]


def steps_of(job: Job, layout: JobLayout, rules: TimelineRules = RULES) -> Steps:
    """The regular steps of the layout's clock, pauses and set-up distinguished."""
    clock = layout.clock
    if clock is None or not clock.steps:
        return Steps.empty()
    first = _first_activity(job.transfers, clock)
    boundary = _with_optimizer(_settled_first_end(clock, first, rules), first, layout, rules)
    regular = np.flatnonzero(clock.regular)
    if regular.size > 1 and regular[-1] == clock.regular.size - 1 and _cut_off(job.transfers, layout, clock, rules):
        regular = regular[:-1]
    start, end = boundary[regular], boundary[regular + 1]
    lead = first[regular] - start
    usual = median(lead)
    pause = (lead > rules.pause_factor * usual) & (lead - usual > median(end - start))
    start = np.where(pause, first[regular] - usual.astype(np.int64), start)
    setup = np.zeros(regular.size, dtype=np.bool_)
    duration = end - start
    setup[0] = bool(regular[0] == 0 and duration[0] > rules.setup_factor * median(duration))
    return Steps(start.astype(np.int64), end.astype(np.int64), setup)


def _first_activity(transfers: TransferTable, clock: StepClock) -> Int64:
    """Per step the start of its first training message (its own start where there is none)."""
    begin = clock.boundary_ns[:-1]
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    first = first_from(transfers.pair_offsets, transfers.start_ns, transfers.bytes, MESSAGE_FLOOR_BYTES, every, begin)
    first = np.where(first < NEVER, first, begin)
    return np.minimum(first, clock.boundary_ns[1:]).astype(np.int64)


def _with_optimizer(boundary: Int64, first: Int64, layout: JobLayout, rules: TimelineRules) -> Int64:
    """The boundaries, moved on by the optimizer, of which nothing is sent: a usual share of the rest that follows."""
    if not layout.groups:  # the end was not seen and has been estimated already
        return boundary
    share = rules.optimizer_and_forward if layout.pipelines else rules.optimizer_and_pass
    rest = np.maximum(first - boundary[:-1], 0)
    usual = float(median(rest))
    delay = share * np.append(np.minimum(rest, usual), usual)
    return boundary + delay.astype(np.int64)


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


def _settled_first_end(clock: StepClock, first: Int64, rules: TimelineRules) -> Int64:
    """The boundaries, the first step's end moved to where the second one's lead is the usual one, if the first is the
    job's own first: that takes long, and its optimizer allocates state, unseen by the network, before the second step
    begins. In a window of a running job the first step is like the others, and a pause after it is a checkpoint.
    """
    boundary = clock.boundary_ns.copy()
    lead = (first - boundary[:-1])[clock.regular]
    longer = (boundary[1] - boundary[0]) / max(clock.period_ns, 1.0) - 1.0
    own = longer > max(rules.first_longer, rules.first_spreads * clock.unevenness)
    if lead.size > 2 and clock.regular[:2].all() and own:
        usual = int(median(lead))
        if first[1] - boundary[1] > usual:
            boundary[1] = first[1] - usual
    return boundary


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
