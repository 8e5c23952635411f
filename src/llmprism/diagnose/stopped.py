"""Hang and crash: a job whose traffic ends in the middle of a step.

A job that ends does so between two steps. One that stops inside a step has lost somebody: the culprit is the member
that did least of its share of that last step, measured against the peers that do the same work. Members that answer
nothing although they were sent something stand out as zero. If the members' control messages go on afterwards the job
hangs; if everything falls silent it crashed.

Catches: a killed, frozen or lost rank, from the first incomplete step. Must not shout at: jobs that end, records that
end because the window does, pauses between steps. Tested with the crash capture against all others.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.model.flows import Window
from llmprism.model.job import Job, JobState
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps, Timeline

Float64 = NDArray[np.float64]
Bool = NDArray[np.bool_]
Int64 = NDArray[np.int64]

__all__ = ["find_stopped", "job_state"]

MESSAGE_FLOOR_BYTES: Final = 1_000
"""Smaller records are heartbeats and store messages."""

COMPLETE: Final = 0.9
"""Share of a step's bytes from which its end was not in the middle of it."""

STARTED: Final = 0.002
"""Share of a step's bytes that must have flowed for the step to have begun."""

SILENT_STEPS: Final = 2.0
"""Silence at the end of the window, in steps, after which a job has stopped."""

QUIET_FACTOR: Final = 2.0
"""A shorter silence counts too when it is this many times the usual longest at the same point of earlier steps."""

QUIET_REACH: Final = 0.05
"""Share of a step's bytes around a point that is the same point."""

QUIET_QUANTILE: Final = 0.9
"""Of the earlier steps: how long a silence at that point may usually last."""

QUIET_SHARE: Final = 0.1
"""And this share of a step at least: below it, it is jitter."""

ALIVE_STEPS: Final = 3.0
"""Control messages this many steps after the last training message: the ranks live, the job hangs."""

ALIVE_FLOOR_NS: Final = 2_000_000_000
"""And at least two seconds: a crash takes the other ranks down within that."""


@dataclass(frozen=True, slots=True)
class _Ending:
    """How the traffic ended: time of the last training message, share of the last step done, and what came after."""

    last_ns: int
    begun_ns: int
    done: float
    silence_ns: int
    usual_silence_ns: int
    alive_ns: int
    period_ns: float


def job_state(job: Job, layout: JobLayout, timeline: Timeline, window: Window) -> JobState:
    """Running, starting, ended, crashed or hung at the end of the window."""
    ending = _ending(job, layout, timeline, window)
    if ending is None:
        return JobState.UNKNOWN
    stopped = ending.silence_ns > SILENT_STEPS * ending.period_ns
    inside = STARTED < ending.done < COMPLETE
    quiet = max(QUIET_FACTOR * ending.usual_silence_ns, QUIET_SHARE * ending.period_ns)
    broken_off = inside and (stopped or ending.silence_ns > quiet)
    if broken_off:
        alive = ending.alive_ns - ending.last_ns
        return JobState.HUNG if alive > max(ALIVE_STEPS * ending.period_ns, ALIVE_FLOOR_NS) else JobState.CRASHED
    return JobState.ENDED if stopped else JobState.RUNNING


def find_stopped(job: Job, layout: JobLayout, timeline: Timeline, state: JobState, window: Window) -> list[Finding]:
    """The finding for a job in the state `crashed` or `hung`."""
    ending = _ending(job, layout, timeline, window)
    if state not in (JobState.CRASHED, JobState.HUNG) or ending is None:
        return []
    progress = _progress(job, layout, timeline, ending)
    worst = int(np.nanargmin(progress)) if np.isfinite(progress).any() else -1
    others = np.delete(progress, worst)
    clear = worst >= 0 and (not np.isfinite(others).any() or progress[worst] < np.nanmin(others) - 0.05)
    name = job.transfers.addresses[job.members[worst]] if worst >= 0 else job.id
    kind = FindingKind.CRASH if state is JobState.CRASHED else FindingKind.HANG
    lost = max(window.end_ns - ending.last_ns, 0) / 1e9 * len(job.members)
    verb = "died" if kind is FindingKind.CRASH else "fell silent"
    advice = (
        "read its log and its server's kernel log for the cause, then restart without it"
        if kind is FindingKind.CRASH
        else "take a stack dump of that rank, check its GPU for an Xid and its NIC for link flaps"
    )
    return [
        Finding(
            kind=kind,
            job=job.id,
            where=Where(WhereType.GPU, name) if worst >= 0 else Where(WhereType.JOB, job.id),
            start_ns=_silent_since(job, worst, ending),
            end_ns=None,
            severity=1.0,
            confidence=0.9 if clear else 0.6,
            lost_gpu_seconds=round(lost, 3),
            summary=(
                f"GPU {name} {verb} in step {timeline.steps.count} and the job's other "
                f"{len(job.members) - 1} GPUs stopped with it: {advice}."
            ),
            evidence=(
                Evidence("share of its part of the last step that the GPU did", round(float(progress[worst]), 3), 1.0),
                Evidence("share of the last step that the job did", round(ending.done, 3), 1.0),
                Evidence("seconds of silence up to the end of the window", round(ending.silence_ns / 1e9, 3)),
            ),
        )
    ]


def _training_rows(job: Job, layout: JobLayout) -> Bool:
    training: Bool = layout.transfer_kind != PairKind.UNKNOWN
    return training & (job.transfers.bytes >= MESSAGE_FLOOR_BYTES)


def _ending(job: Job, layout: JobLayout, timeline: Timeline, window: Window) -> _Ending | None:
    transfers, steps = job.transfers, timeline.steps
    rows = _training_rows(job, layout)
    if steps.count < 2 or not rows.any():
        return None
    begun = int(steps.end_ns[-1])
    size = transfers.bytes[rows]
    start, end = transfers.start_ns[rows], transfers.end_ns[rows]
    last = int(end.max())
    whole = float(size[(start >= steps.start_ns[0]) & (start < begun)].sum()) / steps.count
    after = float(size[start >= begun].sum())
    done = after / max(whole, 1.0)
    return _Ending(
        last_ns=last,
        begun_ns=begun,
        done=done,
        silence_ns=window.end_ns - last,
        usual_silence_ns=_usual_silence(start, end, size, steps, done),
        alive_ns=int(transfers.end_ns.max()),
        period_ns=float(np.median(steps.duration_ns)),
    )


def _usual_silence(start: Int64, end: Int64, size: Int64, steps: Steps, done: float) -> int:
    """The longest silence that earlier steps usually keep when the same share of their bytes has been sent."""
    order = np.argsort(start, kind="stable")
    begin, horizon, sent = start[order], np.maximum.accumulate(end[order]), np.cumsum(size[order])
    silence = np.maximum(begin[1:] - horizon[:-1], 0)
    step = np.searchsorted(steps.end_ns, horizon[:-1], side="left")
    inside = (step < steps.count) & (begin[1:] > steps.start_ns[np.minimum(step, steps.count - 1)])
    total = np.bincount(step[inside], size[order][:-1][inside], minlength=steps.count)
    before = np.concatenate([[0.0], np.cumsum(total)])
    share = (sent[:-1] - sent[:-1][inside][0] - before[step]) / np.maximum(np.append(total, 1.0)[step], 1.0)
    near = inside & (np.abs(share - done) <= QUIET_REACH)
    longest = np.zeros(steps.count, dtype=np.int64)
    np.maximum.at(longest, step[near], silence[near])
    longest = longest[~steps.setup]
    return int(max(np.quantile(longest, QUIET_QUANTILE), 0.6 * longest.max())) if longest.size else 0


def _progress(job: Job, layout: JobLayout, timeline: Timeline, ending: _Ending) -> Float64:
    """Each member's share of its usual bytes sent in the last step, against the best of its peers."""
    transfers, steps = job.transfers, timeline.steps
    rows = _training_rows(job, layout)
    member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    start, size = transfers.start_ns[rows], transfers.bytes[rows].astype(np.float64)
    inside = (start >= steps.start_ns[0]) & (start < ending.begun_ns)
    usual = np.bincount(member[inside], size[inside], minlength=len(job.members)) / steps.count
    after = start >= ending.begun_ns
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


def _silent_since(job: Job, row: int, ending: _Ending) -> int:
    """When the culprit should have answered: the last message it was sent, or its own last one if later."""
    if row < 0:
        return ending.last_ns
    transfers = job.transfers
    pair = transfers.pair_of_row
    large = transfers.bytes >= MESSAGE_FLOOR_BYTES
    address = job.members[row]
    told = large & (transfers.pair_dst[pair] == address) & (transfers.start_ns >= ending.begun_ns)
    sent = large & (transfers.pair_src[pair] == address)
    times = [int(transfers.end_ns[mask].min() if mask is told else transfers.end_ns[mask].max())
             for mask in (told, sent) if mask.any()]  # fmt: skip
    return max(times, default=ending.last_ns)
