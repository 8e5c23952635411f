"""How a job's traffic ends, at the end of the window or before it comes back: normally, by the window, crashed, hung.

*At rest.* A job that ends or pauses does so where it rests in every step: the same bytes before, the usual silence of
the step after them. One that breaks off stands at another point. If all members are heard again afterwards, if only by
control messages, they said goodbye and nobody died.

*Who was overdue first.* `last_state` knows when each member's next message was due. Whoever waits for another is due
after it, so the member to blame is the one that was due first, unless it is still heard while others are not.

*Dead or hung.* Nobody writes to a dead rank; the peers of a hung one go on writing to it until they need its answer.
Heartbeats that go on mean that ranks live, heartbeats that stop that they died.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.heartbeats import Heartbeats
from llmprism.diagnose.last_state import LastState, last_state
from llmprism.model.flows import Window
from llmprism.model.job import Job, JobState
from llmprism.model.timeline import Steps, Timeline

__all__ = ["Ending", "ending_at", "final_ending"]

QUIET_FACTOR: Final = 2.0
"""A silence is unusual when it is this many times the usual one at that point of the step,"""

QUIET_SHARE: Final = 0.1
"""and takes this share of a step at least: below it, it is jitter."""

VARYING_QUIET_STEPS: Final = 2.0
"""The same, in steps, for a job whose bytes per step vary: its place in the step is not known."""

OVERDUE_STEPS: Final = 0.5
"""A member that is overdue by so much while others go on has stopped, although the job has not been silent."""

TOGETHER_STEPS: Final = 4.0
"""Silence, in steps, after which a job has stopped in which nobody was missing before the others."""

RECENT_STEPS: Final = 4.0
"""Steps that tell, at first sight, how long a member may be silent,"""

GREW: Final = 1.2
"""and so many times the longest of that is not unusual."""

RESTING: Final = 0.4
"""Share of the longest silence of a step that the usual silence at a point must reach for the job to rest there."""

SURELY_RESTING: Final = 0.8
"""The same where the clock of the job sees no end of a step there,"""

AT_STEP_END: Final = 0.03
"""within this share of a step."""

LONG_MISSING: Final = 0.4
"""Steps that a member must have been overdue before the last message for the talk of all to be no goodbye."""

TALK_ON: Final = 2.5
"""Times as long as the talk of living ranks: the processes of a job that has ended are gone by then."""

STRETCHES: Final = 8
"""Stretches of time before that are looked at to know whether members are heard all the time,"""

ALWAYS: Final = 0.8
"""and share of members and stretches that must be."""

STARVED: Final = 0.008
"""Share of a step's bytes that a member must lack to wait for somebody,"""

IN_FLOW: Final = 0.002
"""Steps that a member pauses at most where it stops in the middle of a message,"""

NOT_BEGUN: Final = 0.05
"""that it pauses at least before it begins something new,"""

SAME_TIME: Final = 0.015
"""and by which two due times must differ, or by twice the spread of the pauses before them, to be told apart,"""

MOST_UNSURE: Final = 0.1
"""up to this many steps."""

FEW_SUSPECTS: Final = 0.75
"""Share of the members that may be to blame up to which one can stand out."""

LOCKSTEP: Final = 0.01
"""Share of a step by which a member may be overdue through jitter alone when the last message was sent,"""

SURE_SPREADS: Final = 3.0
"""and so many spreads of its pause."""

HEARD_NS: Final = 1_000_000
"""A message a millisecond after the last of the training is a sign of life."""

MOST: Final = 0.5
"""Share of the members that must be heard again for the silence of the others to tell."""

ADDRESSED_SHARE: Final = 0.02
"""Share of a step for which a member must be written to after its own message was due: else it may be dead."""

ADDRESSED_NS: Final = 10_000_000
"""And at least 10 ms: what is on its way when a rank dies arrives, or is refused, within that."""

STILL_WRITTEN_TO: Final = 0.5
"""Share of the time that others talk on for which they must write to a member that is not heard: else it is dead."""

WITHOUT_SHARE: Final = 0.3
"""Share of a step for which others must go on after a member was due to show that nobody has noticed,"""

WITHOUT_NS: Final = 200_000_000
"""and at least 200 ms: a crash stops the others within that."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The traffic after step `step - 1`, which ended at `begun_ns`, ends at `last_ns`; then came `silence_ns`.

    `state` is running, ended, crashed or hung. `culprit` (row of the member, -1: nobody stands out) was due at
    `since_ns`, `lead_ns` before the next one. `resumed_ns` is None where the job did not come back; `alive_ns` is the
    time of the last message of any sort between its members before it did.
    """

    state: JobState
    step: int
    begun_ns: int
    last_ns: int
    resumed_ns: int | None
    silence_ns: int
    alive_ns: int
    period_ns: float
    culprit: int = -1
    since_ns: int = 0
    lead_ns: float = 0.0
    heard_alone: bool = False

    @property
    def broken_off(self) -> bool:
        return self.state in (JobState.CRASHED, JobState.HUNG)


def final_ending(job: Job, timeline: Timeline, window: Window) -> Ending | None:
    """How the traffic stands at the end of the window; None for a job without steps."""
    training = training_messages(job)
    if timeline.steps.count < 2 or not training.any():
        return None
    last = int(job.transfers.end_ns[training].max())
    alive = int(job.transfers.end_ns.max())
    return ending_at(job, timeline.steps, last, window.end_ns, alive, None)


def ending_at(
    job: Job,
    steps: Steps,
    last: int,
    until: int,
    alive: int,
    resumed: int | None,
    talked: int | None = None,
    *,
    connects: bool = False,
) -> Ending:
    """How the traffic stands whose last message ends at `last`, followed by silence up to `until`. `talked` is up to
    when control messages are signs of life: before a job comes back they are its successor's. `connects`: the members
    connected anew before they went on."""
    period = float(np.median(steps.duration_ns))
    step = int(np.searchsorted(steps.end_ns, last, side="right"))
    begun = int(steps.end_ns[step - 1]) if step else int(steps.start_ns[0])
    plain = Ending(JobState.RUNNING, step, begun, last, resumed, until - last, alive, period)
    if _goes_on(job, last, until, period):
        return plain
    state = last_state(job, steps, last, until if talked is None else talked, period)
    if state is None:
        return _as(plain, JobState.ENDED) if plain.silence_ns > VARYING_QUIET_STEPS * period else plain
    first = _overdue_first(state, period)
    usual = QUIET_FACTOR * (state.rest_ns if np.isfinite(state.rest_ns) else 0.0)
    quiet = QUIET_SHARE * period + max(usual, GREW * state.most_rest_ns)
    if not state.exact:
        quiet = VARYING_QUIET_STEPS * period
    stopped = plain.silence_ns > quiet
    if not stopped and not _missing(state, first, until, period):
        return plain
    if _at_rest(state, steps, period, connects) or _all_said_goodbye(job, state, period, alive):
        return _as(plain, JobState.ENDED) if stopped else plain
    if not _went_on_without(state, first) and plain.silence_ns <= TOGETHER_STEPS * period:
        return plain  # all stand at the same point: the next message may be late
    return _blamed(plain, job, state, first, until)


def _as(ending: Ending, state: JobState) -> Ending:
    return Ending(
        state, ending.step, ending.begun_ns, ending.last_ns, ending.resumed_ns, ending.silence_ns, ending.alive_ns,
        ending.period_ns,
    )  # fmt: skip


def _goes_on(job: Job, last: int, until: int, period: float) -> bool:
    """Has no member been silent for longer than in the steps before? Most jobs go on, and no more is looked at."""
    if until - last > QUIET_SHARE * period:
        return False
    transfers = job.transfers
    rows = np.flatnonzero(training_messages(job) & (transfers.end_ns >= until - RECENT_STEPS * period))
    sender = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    spoken = np.zeros(len(job.members), dtype=np.int64)
    np.maximum.at(spoken, sender, transfers.end_ns[rows])
    silent = until - spoken
    if (silent <= OVERDUE_STEPS * period).all():
        return True
    order = np.lexsort((transfers.start_ns[rows], sender))
    same = np.diff(sender[order]) == 0
    gap = np.where(same, transfers.start_ns[rows][order][1:] - transfers.end_ns[rows][order][:-1], 0)
    longest = np.zeros(len(job.members), dtype=np.int64)
    np.maximum.at(longest, sender[order][1:], gap)
    return bool((silent <= np.maximum(GREW * longest, OVERDUE_STEPS * period)).all())


def _missing(state: LastState, first: int, until: int, period: float) -> bool:
    """Has one member stopped while others go on, so that the job as a whole has not been silent?"""
    if first < 0 or not state.exact or not _surely_overdue(state)[first]:
        return False
    long_ago = until - float(state.due_ns[first]) > OVERDUE_STEPS * period
    return long_ago and until - float(state.sent_ns[first]) > QUIET_FACTOR * float(state.longest_ns[first])


def _at_rest(state: LastState, steps: Steps, period: float, connects: bool) -> bool:
    """Does the job rest at this point in every step, with nobody missing when the last message was sent?

    Where steps have several long silences the clock must agree that this is the one between two of them; so must it for
    a job whose members connect anew afterwards: none ends in the middle of a step to begin again.
    """
    ended = steps.end_ns[int(np.argmin(np.abs(steps.end_ns - state.last_ns)))]
    between = abs(int(ended) - state.last_ns) <= AT_STEP_END * period
    if connects and not between:
        return False
    rests = RESTING if between else SURELY_RESTING
    if not (state.exact and state.rest_ns >= rests * state.longest_rest_ns > 0.0):
        return False
    silent = (state.heard_ns <= state.last_ns) & (
        state.pause_ns >= IN_FLOW * period
    )  # in flow while all rest: a lost record
    return not (_surely_overdue(state) & silent).any()


def _surely_overdue(state: LastState) -> Bool:
    """Members whose message was due, beyond all jitter, when the last message of the job was sent."""
    period_floor = LOCKSTEP * max(state.longest_rest_ns, float(np.nanmax(state.pause_ns, initial=0.0)))
    late = state.last_ns - state.due_ns
    return np.asarray(np.nan_to_num(late, nan=-1.0) > np.maximum(SURE_SPREADS * state.spread_ns, period_floor))


def _heard_again(state: LastState) -> Bool:
    return np.asarray(state.heard_ns > state.last_ns + HEARD_NS)


def _all_said_goodbye(job: Job, state: LastState, period: float, alive: int) -> bool:
    """Was everybody heard again after the last message? That is no goodbye where they talk on and on, or talk on after
    one of them had long been missing, or are heard as often at any time."""
    if not _heard_again(state).all() or _always_heard(job, state):
        return False
    missing = state.last_ns - float(np.nanmin(state.due_ns, initial=np.inf)) > LONG_MISSING * period
    beats = Heartbeats(state.last_ns, period, None)
    return not ((missing and beats.go_on(alive)) or (state.exact and beats.go_on(alive, TALK_ON)))


def _always_heard(job: Job, state: LastState) -> bool:
    """Are nearly all members heard by small messages in every stretch of the same length before?"""
    transfers = job.transfers
    length = max(int(state.heard_ns.max()) - state.last_ns, 1)
    since = state.last_ns - STRETCHES * length
    rows = np.flatnonzero(
        ~training_messages(job) & (transfers.start_ns > since) & (transfers.start_ns <= state.last_ns)
    )
    member = transfers.pair_src[transfers.pair_of_row[rows]].astype(np.int64)
    stretch = (transfers.start_ns[rows] - since) // length
    heard = np.unique(member * (STRETCHES + 1) + stretch).size
    return heard >= ALWAYS * STRETCHES * len(job.members)


def _overdue_first(state: LastState, period: float) -> int:
    """The member that was due first; -1 where no member's due time is known.

    Those that lack what they usually have when they go on wait for somebody else. Where most are heard again after the
    last message, only those that are not are asked. One that stopped in the middle of a message was held up in it by
    one that had not begun: of two that were due at the same time the latter is to blame. Of several the one that was
    neither heard nor written to for longest.
    """
    due = _suspects(state)
    if not np.isfinite(due).any():
        return -1
    first = int(np.nanargmin(due))
    if state.pause_ns[first] < IN_FLOW * period:
        begun = np.where(state.pause_ns > NOT_BEGUN * period, due, np.nan)
        if np.isfinite(begun).any() and np.nanmin(begun) - state.due_ns[first] <= SAME_TIME * period:
            first, due = int(np.nanargmin(begun)), begun
    unsure = 2.0 * np.nan_to_num(np.hypot(state.spread_ns, state.spread_ns[first]))
    tied = due <= state.due_ns[first] + np.maximum(SAME_TIME * period, np.minimum(unsure, MOST_UNSURE * period))
    return int(np.argmin(np.where(tied, _involved_ns(state), np.inf)))


def _involved_ns(state: LastState) -> Float64:
    """When each member was last heard or written to: nobody writes to one that takes nothing, and it says nothing."""
    return np.maximum(state.heard_ns, state.addressed_ns).astype(np.float64)


def _suspects(state: LastState) -> Float64:
    """Due times of those that may be to blame, NaN for the others."""
    due = state.due_ns.copy()
    starved = state.lag < -np.maximum(STARVED, SURE_SPREADS * state.lag_spread)
    if np.isfinite(due[~starved]).any():
        due[starved] = np.nan
    heard = _heard_again(state)
    if heard.mean() >= MOST and np.isfinite(state.due_ns[~heard]).any():
        due = np.where(heard, np.nan, state.due_ns)
    elif np.isfinite(due[~heard]).any():
        due[heard] = np.nan
    return due


def _blamed(plain: Ending, job: Job, state: LastState, first: int, until: int) -> Ending:
    beats = Heartbeats.of(job, state.last_ns, plain.period_ns)
    named = first if _went_on_without(state, first) or _stands_out(job, state, first, plain.period_ns) else -1
    due = float(state.due_ns[named]) if named >= 0 else float(plain.last_ns)
    hung = beats.go_on(plain.alive_ns)
    if named >= 0:
        reach = max(ADDRESSED_SHARE * plain.period_ns, ADDRESSED_NS)
        written_to = state.addressed_ns[named] > max(due, float(state.heard_ns[named])) + reach
        alone = bool(_heard_again(state).mean() >= MOST and not _heard_again(state)[named])
        talk = STILL_WRITTEN_TO * (plain.alive_ns - plain.last_ns)
        if hung and alone and state.addressed_ns[named] < plain.last_ns + talk:
            hung = False  # the others live, and nobody writes to this one any more
        elif not hung and not beats.stopped(plain.alive_ns, until):
            without = plain.last_ns - due > max(WITHOUT_SHARE * plain.period_ns, WITHOUT_NS)
            hung = written_to or without
    else:
        alone = False
    others = np.delete(state.due_ns, named) if named >= 0 else state.due_ns[:0]
    lead = float(np.nanmin(others)) - due if np.isfinite(others).any() else 0.0
    return Ending(
        JobState.HUNG if hung else JobState.CRASHED,
        plain.step,
        plain.begun_ns,
        plain.last_ns,
        plain.resumed_ns,
        plain.silence_ns,
        plain.alive_ns,
        plain.period_ns,
        named,
        int(min(due, plain.last_ns)),
        max(lead, 0.0),
        alone,
    )


def _went_on_without(state: LastState, first: int) -> bool:
    """Did others go on after this member was due? Else all stopped at the same moment and nobody stands out."""
    if first < 0:
        return False
    if bool(_surely_overdue(state).any()):
        return True
    heard = _heard_again(state)
    return bool(heard.mean() >= MOST and not heard[first])


def _stands_out(job: Job, state: LastState, first: int, period: float) -> bool:
    """Were all others that may be to blame in the middle of a message, due later, or heard or written to after this
    one? A job that is killed as a whole leaves many in the middle of something."""
    if first < 0 or not state.exact or state.pause_ns[first] < IN_FLOW * period:
        return False
    due, involved = _suspects(state), _involved_ns(state)
    tied = (due <= state.due_ns[first] + SAME_TIME * period) & (state.pause_ns >= IN_FLOW * period)
    tied[first] = False
    reach = max(HEARD_NS, IN_FLOW * period)
    if _always_heard(job, state):  # then who is heard last is chance
        reach = max(reach, float(involved.max()) - state.last_ns)
    alike = tied & (involved <= involved[first] + reach)
    known = float(np.isfinite(state.due_ns).mean())
    return not alike.any() and np.isfinite(due).mean() <= FEW_SUSPECTS <= known
