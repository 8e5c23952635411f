"""Hang and crash: a job whose traffic ends in the middle of a step.

A job that ends does so between two steps. One that stops inside a step has lost somebody: the culprit is the member
that did least of its share of that last step, measured against the peers that do the same work. Members that answer
nothing although they were sent something stand out as zero. If the members' control messages go on afterwards the job
hangs; if everything falls silent it crashed. A job that begins no further step pauses, for an evaluation or a
checkpoint, or hangs in its first computation: its ranks live on, nothing goes to storage, and the silence is much
longer than any before. Nobody can be named then.

Catches: a killed, frozen or lost rank, from the first incomplete step. Must not shout at: jobs that end, records that
end because the window does, pauses between steps. Tested with the crash capture against all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.endings import Ending, final_ending, inner_endings, training_rows
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout
from llmprism.model.timeline import Timeline
from llmprism.stats.robust import known_median

Float64 = NDArray[np.float64]

__all__ = ["SETTLED_STEPS", "find_stopped", "is_settled", "job_state"]

SETTLED_STEPS: Final = 6
"""Steps from which it is known what is usual for a job: the set-up step, and a few that vary."""

FEW_STEPS: Final = 4
"""The same for a job that was there when the window began, so that its set-up is over."""

ALIVE_STEPS: Final = 3.0
"""Control messages this many steps after the last training message: the ranks live, the job hangs."""

ALIVE_FLOOR_NS: Final = 2_000_000_000
"""And at least two seconds: a crash takes the other ranks down within that."""

STANDSTILL_STEPS: Final = 4.0
"""Steps without a message after which a job whose ranks live hangs between two steps,"""

STANDSTILL_FLOOR_NS: Final = 20_000_000_000
"""and 20 s at least: shorter pauses for an evaluation or a checkpoint are usual,"""

STANDSTILL_GROWTH: Final = 3.0
"""and so many times the longest time from one step to the next before."""

STILL_HEARD: Final = 0.8
"""Share of the members with control messages that still send some then: of a job that has ended, stragglers do."""

BEHIND: Final = 0.8
"""Share of its peers' progress above which a member is not behind."""

SUSPECT_RANGE: Final = 0.25
"""Members within this share of the least progress are suspects: those that waited for the culprit are near it."""

BEYOND: Final = 1.001
"""Times the bytes that a member has sent: a message more, whatever a collector's rounding."""

DUE_STEPS: Final = 10
"""Earlier steps that tell when a message is due where a member has no peers."""

NAMED: Final = 0.95
"""Share of its peers' progress above which nobody is named: all stopped at about the same point."""

CLEAR: Final = 0.05
"""Share of a step by which the culprit must be behind the next one to be named with confidence."""


def is_settled(job: Job, timeline: Timeline, window: Window) -> bool:
    """Have enough steps been seen to know what is usual for the job?"""
    steps = timeline.steps
    if steps.count < FEW_STEPS:
        return False
    first = int(job.transfers.start_ns[job.transfers.pair_offsets[:-1]].min())
    from_the_first = first - window.start_ns < float(np.median(steps.duration_ns)) and not steps.setup.any()
    return steps.count >= SETTLED_STEPS or from_the_first


def job_state(job: Job, layout: JobLayout, timeline: Timeline, window: Window) -> JobState:
    """Running, ended, crashed or hung at the end of the window."""
    ending = final_ending(job, layout, timeline, window)
    if ending is None:
        return JobState.UNKNOWN
    settled = is_settled(job, timeline, window)
    if ending.broken_off and not settled:
        return JobState.STARTING  # loading, compiling and warming up look like breaking off
    if ending.broken_off:
        return JobState.HUNG if _alive(ending) else JobState.CRASHED
    if not ending.stopped:
        return JobState.RUNNING
    return JobState.HUNG if settled and _stands_still(job, timeline, ending) else JobState.ENDED


def find_stopped(job: Job, layout: JobLayout, timeline: Timeline, window: Window, state: JobState) -> list[Finding]:
    """One finding for each time that the job broke off; its state tells whether it has done so for good."""
    endings = inner_endings(job, layout, timeline)
    final = final_ending(job, layout, timeline, window) if state in (JobState.CRASHED, JobState.HUNG) else None
    if final is not None:
        endings.append(final)
    return [_finding(job, layout, timeline, ending, window) for ending in endings]


def _alive(ending: Ending) -> bool:
    """Do the ranks still talk although they no longer train?"""
    return ending.alive_ns - ending.last_ns > max(ALIVE_STEPS * ending.period_ns, ALIVE_FLOOR_NS)


def _stands_still(job: Job, timeline: Timeline, ending: Ending) -> bool:
    """Do the ranks of a job that begins no further step live on for much longer than it ever paused?"""
    longest = STANDSTILL_GROWTH * float(np.diff(timeline.steps.end_ns).max())
    quiet = max(STANDSTILL_STEPS * ending.period_ns, STANDSTILL_FLOOR_NS, longest)
    since = max(ending.last_ns, job.outside_until_ns)
    if ending.alive_ns - since <= quiet:
        return False
    transfers = job.transfers
    control = transfers.bytes < MESSAGE_FLOOR_BYTES
    before, after = control & (transfers.start_ns <= since), control & (transfers.start_ns > since + quiet / 2)
    source = transfers.pair_src[transfers.pair_of_row]
    usual, heard = np.unique(source[before]), np.unique(source[after])
    return bool(usual.size and np.isin(usual, heard).mean() >= STILL_HEARD)


def _finding(job: Job, layout: JobLayout, timeline: Timeline, ending: Ending, window: Window) -> Finding:
    progress = _progress(job, layout, timeline, ending)
    worst = _culprit(job, layout, timeline, progress, ending)
    others = np.delete(progress, worst)
    clear = worst >= 0 and (not np.isfinite(others).any() or progress[worst] < np.nanmin(others) - CLEAR)
    hung = ending.resumed_ns is None and _alive(ending)
    return Finding(
        kind=FindingKind.HANG if hung else FindingKind.CRASH,
        job=job.id,
        where=_where(job, worst),
        start_ns=_silent_since(job, worst, ending),
        end_ns=ending.resumed_ns,
        severity=1.0,
        confidence=0.9 if clear else 0.6,
        lost_gpu_seconds=round(_lost_ns(timeline, ending, window) / 1e9 * len(job.members), 3),
        summary=_summary(job, worst, ending, hung=hung),
        evidence=(
            *(
                [Evidence("share of its part of the last step that the GPU did", round(float(progress[worst]), 3), 1.0)]
                if worst >= 0
                else []
            ),
            Evidence("share of the last step that the job did", round(ending.done, 3), 1.0),
            Evidence("seconds of silence after it", round(ending.silence_ns / 1e9, 3)),
        ),
    )


def _lost_ns(timeline: Timeline, ending: Ending, window: Window) -> float:
    """From the start of the step that broke off, which is lost, to the end of the next one less what it should take."""
    steps = timeline.steps
    if ending.resumed_ns is None or ending.step >= steps.count:
        return float(max(window.end_ns - ending.begun_ns, 0))
    return float(max(int(steps.end_ns[ending.step]) - ending.begun_ns - ending.period_ns, 0.0))


def _culprit(job: Job, layout: JobLayout, timeline: Timeline, progress: Float64, ending: Ending) -> int:
    """Row of the member to blame; -1 where nobody's part is known, or nobody is behind.

    Of those behind their peers, the one whose next message was due first: whoever waits for it is due later. Where
    that is not known, of those far behind, without those that got nothing from a suspect upstream: one that was told
    something in this step and did not answer; else the earliest stage; of several, the one that fell silent first.
    """
    if not np.isfinite(progress).any() or float(np.nanmin(progress)) > NAMED:
        return -1
    overdue = np.flatnonzero(progress < 1.0 - CLEAR)
    due = _due_ns(job, layout, timeline, overdue, ending)
    if np.isfinite(due).any():
        return int(overdue[np.argmin(_latest_in_lockstep(job, layout, overdue, due))])
    behind = np.flatnonzero(progress <= min(BEHIND, float(np.nanmin(progress)) + SUSPECT_RANGE))
    if not behind.size:
        return int(np.nanargmin(progress))
    transfers = job.transfers
    before = (transfers.bytes >= MESSAGE_FLOOR_BYTES) & (transfers.end_ns <= ending.last_ns)
    pair = transfers.pair_of_row[before]
    ends = transfers.end_ns[before]
    sent = _last_by(ends, transfers.pair_src[pair], len(transfers.addresses))
    told = _last_by(ends, transfers.pair_dst[pair], len(transfers.addresses))
    behind = behind[~_starved(job, layout, behind, ending)]
    address = np.array(job.members)[behind]
    answered = (told[address] < ending.begun_ns) | (sent[address] > told[address])
    stage_of = layout.stage_of()
    stage = np.array([stage_of.get(int(member), 0) for member in address])
    order = np.lexsort((sent[address], np.where(answered, stage, 0), answered))
    return int(behind[order[0]])


def _latest_in_lockstep(
    job: Job, layout: JobLayout, rows: NDArray[np.int64], due: NDArray[np.float64]
) -> NDArray[np.float64]:
    """The latest due time of the suspects on the same server and stage: they live and die together, so one that went on
    speaks for all. Messages to a dead member fail on its lane only."""
    stage_of = layout.stage_of()
    cell = [
        (job.places[row] if job.places and job.places[row] else row, stage_of.get(job.members[row])) for row in rows
    ]
    latest: dict[tuple[str | int, int | None], float] = {}
    for mine, when in zip(cell, due.tolist(), strict=True):
        latest[mine] = max(latest.get(mine, when), when)
    return np.array([latest[mine] for mine in cell])


def _due_ns(
    job: Job, layout: JobLayout, timeline: Timeline, suspects: NDArray[np.int64], ending: Ending
) -> NDArray[np.float64]:
    """When each suspect should have sent more than it did: its peers did so in this step, or it did in earlier ones."""
    messages, steps = _SentMessages.of(job, layout), timeline.steps
    sent = np.array([messages.between(row, ending.begun_ns, ending.last_ns)[1].sum() for row in suspects.tolist()])
    due = np.full(suspects.size, np.nan)
    if layout.groups:
        row_of = {address: row for row, address in enumerate(job.members)}
        group_of = {row_of[m]: number for number, group in enumerate(layout.groups) for m in group.members}
        group = np.array([group_of.get(row, -1) for row in suspects.tolist()])
        for number in np.unique(group[group >= 0]).tolist():
            mine, rows = group == number, [row_of[m] for m in layout.groups[number].members]
            begun = [messages.begin_beyond(row, sent[mine], ending.begun_ns, ending.last_ns) for row in rows]
            due[mine] = known_median(np.stack(begun))
    else:
        earlier = range(max(0, ending.step - DUE_STEPS), min(ending.step, steps.count))
        spans = [(int(steps.start_ns[k]), int(steps.end_ns[k])) for k in earlier]
        for i, row in enumerate(suspects.tolist()):
            begun = [messages.begin_beyond(row, sent[i : i + 1], *span) for span in spans]
            due[i] = known_median(np.array(begun).ravel())
    return np.where(np.isfinite(due), due, np.inf)


@dataclass(frozen=True, slots=True)
class _SentMessages:
    """Training messages in the order of their senders and starts: those of member (row) `i` begin at `offsets[i]`."""

    start: NDArray[np.int64]
    size: NDArray[np.int64]
    offsets: NDArray[np.int64]

    @classmethod
    def of(cls, job: Job, layout: JobLayout) -> _SentMessages:
        transfers = job.transfers
        rows = np.flatnonzero(training_rows(job, layout))
        member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
        order = np.lexsort((transfers.start_ns[rows], member))
        offsets = np.searchsorted(member[order], np.arange(len(job.members) + 1))
        return cls(transfers.start_ns[rows[order]], transfers.bytes[rows[order]], offsets)

    def between(self, row: int, first: int, last: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Starts and sizes of what a member began to send between two times."""
        own = slice(self.offsets[row], self.offsets[row + 1])
        low = np.searchsorted(self.start[own], first, side="left")
        high = np.searchsorted(self.start[own], last, side="right")
        return self.start[own][low:high], self.size[own][low:high]

    def begin_beyond(self, row: int, sent: Float64, first: int, last: int) -> Float64:
        """How long after `first` a member begins the message that takes it beyond each of these bytes; NaN: never."""
        start, size = self.between(row, first, last)
        message = np.searchsorted(np.cumsum(size), sent * BEYOND, side="right")
        return np.append(start.astype(np.float64) - first, np.nan)[message]


def _starved(job: Job, layout: JobLayout, suspects: NDArray[np.int64], ending: Ending) -> NDArray[np.bool_]:
    """Suspects whose earlier stage is a suspect too and has sent them nothing in this step: they only wait."""
    transfers = job.transfers
    fresh = (transfers.bytes >= MESSAGE_FLOOR_BYTES) & (transfers.start_ns >= ending.begun_ns)
    fresh &= transfers.start_ns <= ending.last_ns
    pair = np.unique(transfers.pair_of_row[fresh])
    sent = set(zip(transfers.pair_src[pair].tolist(), transfers.pair_dst[pair].tolist(), strict=True))
    before = {late: early for pipeline in layout.pipelines for early, late in pairwise(pipeline)}
    address = [job.members[row] for row in suspects]
    names = set(address)
    return np.array([before.get(a) in names and (before[a], a) not in sent for a in address], dtype=np.bool_)


def _last_by(when: NDArray[np.int64], node: NDArray[np.int32], nodes: int) -> NDArray[np.int64]:
    last = np.full(nodes, -1, dtype=np.int64)
    np.maximum.at(last, node, when)
    return last


def _where(job: Job, row: int) -> Where:
    if row < 0:
        return Where(WhereType.JOB, job.id)
    return Where(WhereType.GPU, job.transfers.addresses[job.members[row]])


def _summary(job: Job, row: int, ending: Ending, *, hung: bool) -> str:
    if hung and not ending.broken_off:
        quiet = ending.silence_ns / 1e9
        advice = "take stack dumps and look for a rank that computes or waits for data; no fault if it evaluates"
        return f"The job has not begun step {ending.step} for {quiet:.0f} s although its ranks are alive: {advice}."
    who = f"GPU {job.transfers.addresses[job.members[row]]}" if row >= 0 else "A GPU"
    others = f"the job's other {len(job.members) - 1} GPUs stopped with it"
    if hung:
        advice = "take a stack dump of that rank, check its GPU for an Xid and its NIC for link flaps"
        return f"{who} fell silent in step {ending.step} and {others}: {advice}."
    if ending.resumed_ns is not None:
        away = (ending.resumed_ns - ending.last_ns) / 1e9
        advice = "read its log and its server's kernel log for the cause"
        return f"{who} died in step {ending.step}, {others}, and the job came back after {away:.0f} s: {advice}."
    advice = "read its log and its server's kernel log for the cause, then restart without it"
    return f"{who} died in step {ending.step} and {others}: {advice}."


def _progress(job: Job, layout: JobLayout, timeline: Timeline, ending: Ending) -> Float64:
    """Each member's share of its usual bytes sent in the last step, against the best of its peers."""
    transfers, steps = job.transfers, timeline.steps
    rows = training_rows(job, layout)
    member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    start, size = transfers.start_ns[rows], transfers.bytes[rows].astype(np.float64)
    inside = (start >= steps.start_ns[0]) & (start < ending.begun_ns)
    usual = np.bincount(member[inside], size[inside], minlength=len(job.members)) / ending.step
    after = (start >= ending.begun_ns) & (start <= ending.last_ns)
    done = np.bincount(member[after], size[after], minlength=len(job.members)) / np.maximum(usual, 1.0)
    row_of = {address: row for row, address in enumerate(job.members)}
    progress = np.full(done.size, np.nan)
    for peers in _peers(job, layout):
        index = [row_of[address] for address in peers]
        best = done[index].max()
        progress[index] = done[index] / best if best > 0 else np.nan
    return progress


def _peers(job: Job, layout: JobLayout) -> list[tuple[int, ...]]:
    """Members that do the same work: of one group, else of one pipeline, else all."""
    if layout.groups:
        return [group.members for group in layout.groups]
    return list(layout.pipelines) or [job.members]


def _silent_since(job: Job, row: int, ending: Ending) -> int:
    """When the culprit should have answered: the last message it was sent, or its own last one if later."""
    if row < 0:
        return ending.last_ns
    transfers = job.transfers
    pair = transfers.pair_of_row
    large = transfers.bytes >= MESSAGE_FLOOR_BYTES
    address = job.members[row]
    before = large & (transfers.end_ns <= ending.last_ns)
    told = transfers.end_ns[before & (transfers.pair_dst[pair] == address) & (transfers.start_ns >= ending.begun_ns)]
    sent = transfers.end_ns[before & (transfers.pair_src[pair] == address)]
    times = ([int(told.min())] if told.size else []) + ([int(sent.max())] if sent.size else [])
    return max(times, default=ending.last_ns)
