"""Where a job's traffic breaks off: at the end of the window, or inside it before the job comes back.

A job that ends does so between two steps, a job that pauses too. An *ending* lies inside a step: part of its bytes have
flowed, then nothing does, for longer than earlier steps ever paused at that point.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, Window
from llmprism.model.job import Job
from llmprism.model.layout import JobLayout, PairKind
from llmprism.model.timeline import Steps, Timeline
from llmprism.stats.order import stable_order

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

__all__ = ["Ending", "final_ending", "inner_endings", "training_rows"]

COMPLETE: Final = 0.9
"""Share of a step's bytes from which its end was not in the middle of it."""

WHOLE: Final = 0.97
"""The same for a job whose steps all carry the same bytes."""

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

EXACT: Final = 0.005
"""Relative spread of a job's bytes per step below which its collector loses nothing."""

AWAY_STEPS: Final = 5.0
"""Silence inside the window, in steps, after which a job has been away."""

AWAY_FLOOR_NS: Final = 3_000_000_000
"""And at least three seconds: no job restarts faster."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Of the step that began at `begun_ns` the share `done` was sent up to `last_ns`; then came `silence_ns`.

    `step` counts the steps before it; `resumed_ns` is None where the job did not come back; `alive_ns` is the time of
    the last message of any sort between its members before it did. `usual_silence_ns` is 0 where the silence is too
    short to be compared with it.
    """

    step: int
    begun_ns: int
    last_ns: int
    resumed_ns: int | None
    done: float
    silence_ns: int
    usual_silence_ns: int
    alive_ns: int
    period_ns: float
    exact: bool = True

    @property
    def stopped(self) -> bool:
        """Has the job been silent for several steps?"""
        return self.silence_ns > SILENT_STEPS * self.period_ns

    @property
    def broken_off(self) -> bool:
        """Did it stop in the middle of a step?"""
        quiet = max(QUIET_FACTOR * self.usual_silence_ns, QUIET_SHARE * self.period_ns)
        soon = self.exact and self.silence_ns > quiet
        return STARTED < self.done < (WHOLE if self.exact else COMPLETE) and (self.stopped or soon)


def training_rows(job: Job, layout: JobLayout) -> Bool:
    training: Bool = layout.transfer_kind != PairKind.UNKNOWN
    return training & (job.transfers.bytes >= MESSAGE_FLOOR_BYTES)


def final_ending(job: Job, layout: JobLayout, timeline: Timeline, window: Window) -> Ending | None:
    """How the traffic stands at the end of the window; None for a job without steps."""
    messages = _Messages.of(job, layout, timeline)
    if messages is None:
        return None
    last = messages.last_ns
    step = timeline.steps.count - int(messages.last_is_cut_short(last))
    return messages.ending(step, last, None, window.end_ns - last, int(job.transfers.end_ns.max()))


def inner_endings(job: Job, layout: JobLayout, timeline: Timeline) -> list[Ending]:
    """Where the job broke off inside the window and came back."""
    steps = timeline.steps
    if steps.count < 2:
        return []
    away = max(AWAY_FLOOR_NS, AWAY_STEPS * float(np.median(steps.duration_ns)))
    pauses = np.flatnonzero(steps.start_ns[1:] - steps.end_ns[:-1] > away) + 1
    messages = _Messages.of(job, layout, timeline) if pauses.size else None
    if messages is None:
        return []
    found = []
    for step in pauses:
        gap = messages.longest_silence(int(steps.end_ns[step - 1]), int(steps.start_ns[step]))
        if gap is None or gap[1] - gap[0] <= away:
            continue
        before = job.transfers.end_ns[job.transfers.end_ns < gap[1]]
        ending = messages.ending(int(step), gap[0], gap[1], gap[1] - gap[0], int(before.max()))
        if ending.broken_off:
            found.append(ending)
    return found


@dataclass(frozen=True, slots=True)
class _Messages:
    """A job's transfers, which of them are training messages (some are), and the bytes of these in every step."""

    transfers: TransferTable
    training: Bool
    steps: Steps
    step_bytes: Float64

    @classmethod
    def of(cls, job: Job, layout: JobLayout, timeline: Timeline) -> _Messages | None:
        transfers, steps = job.transfers, timeline.steps
        training = training_rows(job, layout)
        if steps.count < 2 or not training.any():
            return None
        size = np.where(training, transfers.bytes, 0)
        step_bytes = np.bincount(steps.at(transfers.start_ns) + 1, size, minlength=steps.count + 1)[1:]
        return cls(transfers, training, steps, step_bytes.astype(np.float64))

    @property
    def last_ns(self) -> int:
        return int(self.transfers.end_ns[self.training].max())

    @property
    def period_ns(self) -> float:
        return float(np.median(self.steps.duration_ns))

    def ending(self, step: int, last: int, resumed: int | None, silence: int, alive: int) -> Ending:
        begun = int(self.steps.end_ns[step - 1])
        start, _, size = self.between(begun, last)
        share = np.cumsum(size) / max(float(np.median(self.step_bytes)), 1.0)
        done = float(share[-1]) if share.size else 0.0
        if done > COMPLETE + 1.0 - STARTED and self.exact():
            unseen = int(done + 1.0 - COMPLETE)
            begun = int(start[np.searchsorted(share, unseen)]) if unseen < done else last
            done, step = max(done - unseen, 0.0), step + unseen
        compared = self.exact() and STARTED < done < WHOLE and silence > QUIET_SHARE * self.period_ns
        usual = self.usual_silence(done) if compared else 0
        return Ending(step, begun, last, resumed, done, silence, usual, alive, self.period_ns, self.exact())

    def between(self, first: int, last: int) -> tuple[Int64, Int64, Int64]:
        """Starts, ends and sizes of the messages that start between two times, sorted by start."""
        start = self.transfers.start_ns
        rows = np.flatnonzero(self.training & (start >= first) & (start <= last))
        rows = rows[stable_order(start[rows])]
        return start[rows], self.transfers.end_ns[rows], self.transfers.bytes[rows]

    def last_is_cut_short(self, last: int) -> bool:
        """Has the step that was counted last less than its bytes, and does nothing follow it?"""
        if self.steps.count < 3 or last > self.steps.end_ns[-1] or not self.exact():
            return False
        return bool(self.step_bytes[-1] < WHOLE * np.median(self.step_bytes))

    def exact(self) -> bool:
        """Does every step carry the same bytes, so that a share of a step means something?"""
        usual = float(np.median(self.step_bytes))
        return bool(np.median(np.abs(self.step_bytes - usual)) <= EXACT * usual)

    def longest_silence(self, first: int, last: int) -> tuple[int, int] | None:
        """Begin and end of the longest silence between two times."""
        begin, end, _ = self.between(first, last)
        if begin.size < 2:
            return None
        horizon = np.maximum.accumulate(end)
        longest = int(np.argmax(begin[1:] - horizon[:-1]))
        return int(horizon[longest]), int(begin[longest + 1])

    def usual_silence(self, done: float) -> int:
        """The longest silence that steps usually keep when this share of their bytes has been sent."""
        steps = self.steps
        begin, end, size = self.between(int(self.transfers.start_ns.min()), self.last_ns)
        horizon = np.maximum.accumulate(end)
        silence = np.maximum(begin[1:] - horizon[:-1], 0)
        step = np.searchsorted(steps.end_ns, horizon[:-1], side="left")
        inside = (step < steps.count) & (begin[1:] > steps.start_ns[np.minimum(step, steps.count - 1)])
        total = np.bincount(step[inside], size[:-1][inside], minlength=steps.count)
        before = np.concatenate([[0.0], np.cumsum(total)])
        sent = np.cumsum(np.where(inside, size[:-1], 0))
        share = (sent - before[step]) / np.maximum(np.append(total, 1.0)[step], 1.0)
        near = inside & (np.abs(share - done) <= QUIET_REACH)
        longest = np.zeros(steps.count, dtype=np.int64)
        np.maximum.at(longest, step[near], silence[near])
        longest = longest[~steps.setup]
        return int(max(np.quantile(longest, QUIET_QUANTILE), 0.6 * longest.max())) if longest.size else 0
