"""What the detectors look at, measured once per job: who was late, and how fast messages moved.

*Lateness.* Members of one data-parallel group do the same work, so they are ready to send their gradients at the same
time. A member that first sends long after the median of the others in a step was computing late. The others can only
send what they have and wait, so they are not late themselves.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int8, Int32, Int64
from llmprism.diagnose.rates import pair_rates, timed_pairs
from llmprism.diagnose.restarts import inner_endings
from llmprism.diagnose.rhythm import with_whole_steps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.unseen_steps import with_unseen_steps
from llmprism.model.flows import MESSAGE_FLOOR_BYTES
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps, Timeline
from llmprism.stats.stretches import stretch_starts, stretches_of

__all__ = ["JobEvidence", "first_messages_ns", "first_of_members", "gather_evidence", "usual_steps", "with_a_past"]


@dataclass(frozen=True, slots=True, weakref_slot=True)
class JobEvidence:
    """One job's measurements. Rows of `lateness_ns` follow `job.members`, rows of `rate` the pairs of its transfers;
    columns are steps. NaN where nothing was measured. `counted` marks the steps that may be judged (not set-up; none
    where the clock beats to parts of steps),
    `timed` the pairs whose messages are large enough for a slow link to show."""

    job: Job
    layout: JobLayout
    timeline: Timeline
    state: JobState
    duration_ns: Float64
    counted: Bool
    normal_ns: float
    lateness_ns: Float64
    rate: Float64
    timed: Bool
    pair_kind: Int8
    group_of_pair: Int64

    @property
    def gpus(self) -> int:
        return len(self.job.members)

    @property
    def steps(self) -> int:
        return int(self.duration_ns.size)


def gather_evidence(
    job: Job, layout: JobLayout, timeline: Timeline, state: JobState, rules: FaultRules = RULES
) -> JobEvidence:
    """`timeline` is completed by the steps that the clock left out."""
    timeline = with_unseen_steps(job, with_whole_steps(timeline, rules), rules)
    steps = timeline.steps
    duration = steps.duration_ns.astype(np.float64)
    counted = ~steps.setup & ~_started_again(job, timeline, rules)
    if _are_parts(duration[counted], rules):
        counted[:] = False
    pair_kind = _pair_kind(job, layout)
    return JobEvidence(
        job=job,
        layout=layout,
        timeline=timeline,
        state=state,
        duration_ns=duration,
        counted=counted,
        normal_ns=_normal_duration(duration[counted]),
        lateness_ns=_lateness(job, layout, steps, rules),
        rate=pair_rates(job.transfers, steps, pair_kind != PairKind.UNKNOWN, rules),
        timed=timed_pairs(job.transfers, rules),
        pair_kind=pair_kind,
        group_of_pair=_group_of_pair(job, layout, pair_kind),
    )


def usual_steps(evidence: JobEvidence, rules: FaultRules) -> Bool:
    """The counted steps that are not slower than the job's normal one."""
    usual: Bool = evidence.counted & (evidence.duration_ns < rules.members.slowdown * evidence.normal_ns)
    return usual


def with_a_past(usual: Bool, rules: FaultRules) -> Bool:
    """Steps before which enough of the `usual` ones were seen to say that something is longer than it used to be: a job
    that warms up, or loses a neighbour, only becomes faster."""
    enough: Bool = np.cumsum(usual) >= rules.members.late_steps
    return enough


def _are_parts(duration: Float64, rules: FaultRules) -> bool:
    """Do long steps, which come and go, take most of the time? Then the clock beats to parts of the true steps, or to
    the traffic of a job that is being set up, and what is usual for a step is not known. A fault may take most of the
    time too, but in one stretch."""
    if not duration.size:
        return False
    long = duration >= rules.members.long_step * _normal_duration(duration)
    usual_time = float(duration[~long].sum()) / float(duration.sum())
    return usual_time < rules.evidence.usual_time and len(stretches_of(long, bridge=0)) > 1


def _started_again(job: Job, timeline: Timeline, rules: FaultRules) -> Bool:
    """Long first steps after the job was away: they set up again, like the very first; and the steps that it broke off
    and began with where it came back."""
    steps = timeline.steps
    again = np.zeros(steps.count, dtype=np.bool_)
    if steps.count > 1:
        usual = float(np.median(steps.duration_ns))
        away = steps.start_ns[1:] - steps.end_ns[:-1] > rules.endings.away_steps * usual
        again[1:] = away & (steps.duration_ns[1:] > rules.evidence.setup_factor * usual)
        for ending in inner_endings(job, timeline, rules):
            moments = [ending.last_ns, ending.resumed_ns or ending.last_ns]
            broken, first = np.clip(np.searchsorted(steps.end_ns, moments, side="right"), 0, steps.count - 1)
            again[[broken, first]] = True
            again[first + 1 : first + 2] |= (
                steps.duration_ns[first + 1 : first + 2] > rules.evidence.setup_factor * usual
            )
    return again


def _pair_kind(job: Job, layout: JobLayout) -> Int8:
    """The kind of most of each pair's bytes: messages have kinds, and a pair that exchanges tokens in a pass may carry
    its gradients afterwards."""
    transfers, kinds = job.transfers, max(PairKind) + 1
    cell = transfers.pair_of_row.astype(np.int64) * kinds + layout.transfer_kind
    held = np.bincount(cell, transfers.bytes, minlength=transfers.pair_count * kinds)
    return np.asarray(held.reshape(-1, kinds).argmax(axis=1), dtype=np.int8)


def _group_of_pair(job: Job, layout: JobLayout, pair_kind: Int8) -> Int64:
    """Index of the group whose collectives a pair carries, -1 for other pairs."""
    transfers = job.transfers
    group_of = np.full(len(transfers.addresses), -1, dtype=np.int64)
    for index, group in enumerate(layout.groups):
        if group.kind == PairKind.DP:
            group_of[list(group.members)] = index
    return np.where(pair_kind == PairKind.DP, group_of[transfers.pair_src], -1)


def _normal_duration(duration: Float64) -> float:
    """The usual step: the lower quartile, because faults only lengthen steps and may last for half of the window."""
    return float(np.quantile(duration, 0.25)) if duration.size else 0.0


def _lateness(job: Job, layout: JobLayout, steps: Steps, rules: FaultRules) -> Float64:
    """First gradient message of each member in each step, after the median of the other members of its group.

    Where a message cannot leave before its receiver is ready, the member before the late one is as late as it; so the
    first message *to* a member decides between the two, with a lesser weight.
    """
    first = first_messages_ns(job, layout, steps, rules)
    sent, got = (first_of_members(job, first, end) for end in (job.transfers.pair_src, job.transfers.pair_dst))
    late = np.full(sent.shape, np.nan)
    row_of = {member: row for row, member in enumerate(job.members)}
    for group in layout.groups:
        if group.kind != PairKind.DP:
            continue
        rows = np.array([row_of[member] for member in group.members])
        behind = got[rows] - _median_of_others(got[rows])
        late[rows] = sent[rows] - _median_of_others(sent[rows])
        late[rows] += rules.evidence.tie_break * np.clip(np.nan_to_num(behind), 0.0, np.maximum(late[rows], 0.0))
    return late


def _median_of_others(values: Float64) -> Float64:
    """Per column, for each row the median of the other rows."""
    count = values.shape[0]
    if count <= 2:
        return values[::-1] if count == 2 else np.full(values.shape, np.nan)
    order = np.sort(values, axis=0)
    low, high = (count - 2) // 2, (count - 1) // 2
    lower = np.where(values <= order[low], order[low + 1], order[low])
    upper = np.where(values <= order[high], order[min(high + 1, count - 1)], order[high])
    middle: Float64 = 0.5 * (lower + upper)
    return middle


def first_messages_ns(job: Job, layout: JobLayout, steps: Steps, rules: FaultRules = RULES) -> Float64:
    """Pairs x steps: start of the first gradient message after the start of the step; infinite where there is none."""
    transfers = job.transfers
    first = np.full((transfers.pair_count, steps.count), np.inf)
    if not steps.count:
        return first
    floor = np.maximum(MESSAGE_FLOOR_BYTES, rules.evidence.message_share * (transfers.pair_bytes / (steps.count + 1)))
    large = transfers.bytes >= np.repeat(floor, np.diff(transfers.pair_offsets))
    rows = np.flatnonzero((layout.transfer_kind == PairKind.DP) & large)
    step = steps.at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    pair = transfers.pair_of_row[rows]
    earliest = stretch_starts(pair, step)  # rows of a pair are sorted by start
    rows, step, pair = rows[earliest], step[earliest], pair[earliest]
    first[pair, step] = transfers.start_ns[rows] - steps.start_ns[step]
    return first


def first_of_members(job: Job, first_ns: Float64, end_of_pair: Int32) -> Float64:
    """Members x steps: the first of the messages from (or to) each member, given those of its pairs; NaN without."""
    first = np.full((len(job.members), first_ns.shape[1]), np.inf)
    np.minimum.at(first, np.searchsorted(np.array(job.members), end_of_pair), first_ns)
    return np.where(np.isfinite(first), first, np.nan)
