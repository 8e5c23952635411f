"""How a job's traffic ends, at the end of the window or before it comes back: normally, by the window, crashed, hung.

*At rest.* A job that ends or pauses does so where it rests in every step: the same bytes before, the usual silence of
the step after them. One that breaks off stands at another point. If all members are heard again afterwards, if only by
control messages, they said goodbye and nobody died. Where nobody is missing, and all stand at the same point of their
step (`stand_together`) or after a whole number of steps, the job has ended, although it does not rest there in others.

*Who stopped.* `last_state` knows when each member's next message was due, and `first_to_stop` who was missed. Who is to
blame all signs decide together (`who_stopped`), but for a member that alone fell silent.

*Whether at all.* Each gate takes the answer of the one before for a fact. Where they say that a job broke off, and it
was watched for a while, signs that need no clock are weighed against them (`whether_stopped`).

*Dead or hung* is decided by signs that add up, too (`dead_or_hung`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.dead_or_hung import alone, chance_of_a_hang, signs_of_a_hang, still_heard, talks_a_lot
from llmprism.diagnose.ending import Ending, Stop
from llmprism.diagnose.ends_in_silence import ends_in_silence
from llmprism.diagnose.fallen_silent import fallen_silent
from llmprism.diagnose.first_to_stop import (
    due_with,
    elsewhere,
    first_to_owe,
    heard_after,
    heard_again,
    is_starved,
    overdue_first,
    silent_as_never_before,
    silent_first,
)
from llmprism.diagnose.heartbeats import Heartbeats
from llmprism.diagnose.last_state import LastState, last_state
from llmprism.diagnose.noticed import next_to_all_that_noticed
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.usual_rest import rests_as_usual, whole_job
from llmprism.diagnose.whether_stopped import chance_of_a_stop, only_one_unheard, signs_of_whether
from llmprism.diagnose.who_stopped import who_stopped
from llmprism.model.flows import Window
from llmprism.model.job import Job, JobState
from llmprism.model.timeline import Steps, Timeline
from llmprism.stats.integer_order import stable_order

__all__ = ["Ending", "ending_at", "final_ending"]


def final_ending(job: Job, timeline: Timeline, window: Window, rules: FaultRules = RULES) -> Ending | None:
    """How the traffic stands at the end of the window; None for a job without steps."""
    training = training_messages(job)
    if timeline.steps.count < 2 or not training.any():
        return None
    last = int(job.transfers.end_ns[training].max())
    alive = int(job.transfers.end_ns.max())
    return ending_at(job, timeline.steps, last, window.end_ns, alive, None, rules=rules)


def ending_at(
    job: Job,
    steps: Steps,
    last: int,
    until: int,
    alive: int,
    resumed: int | None,
    talked: int | None = None,
    rules: FaultRules = RULES,
    *,
    connects: bool = False,
) -> Ending:
    """How the traffic stands whose last message ends at `last`, followed by silence up to `until`. `talked` is up to
    when control messages are signs of life: before a job comes back they are its successor's. `connects`: the members
    connected anew before they went on."""
    period = float(np.median(steps.duration_ns))
    step = int(np.searchsorted(steps.end_ns, last, side="right"))
    begun = int(steps.end_ns[step - 1]) if step else int(steps.start_ns[0])
    running = Ending(JobState.RUNNING, step, begun, last, resumed, until - last, alive, period)
    if not connects and _goes_on(job, last, until, period, rules):
        return running
    whole = whole_job(job, steps, last, period, rules)
    if whole is None and connects:
        return replace(running, state=JobState.CRASHED, since_ns=last)
    if whole is None:
        return (
            _as(running, JobState.ENDED) if running.silence_ns > rules.endings.varying_quiet_steps * period else running
        )
    if not connects and rests_as_usual(job, whole, running.silence_ns, period, rules):
        return running
    state = last_state(job, whole, until if talked is None else talked, period, rules)
    since = int(steps.start_ns[int(np.argmin(steps.setup))])
    silent = silent_as_never_before(job, state.last_ns, since)
    stop = Stop(running, job, whole, state, silent, since, until, connects=connects)
    found = _by_gates(stop, steps, rules)
    if connects and found.broken_off:  # agents live on and start the ranks again; a rank that hung is not
        return replace(found, state=JobState.CRASHED, kind_sure=1.0)
    return found


def _by_gates(stop: Stop, steps: Steps, rules: FaultRules) -> Ending:
    """What one sign after the other says, each of which takes the last one's answer for a fact."""
    running, state, period = stop.running, stop.state, stop.running.period_ns
    first = overdue_first(state, period, rules)
    if first >= 0 and state.lossy and stop.silent_ns[first] < 0.0:
        first = -1  # it was silent for as long before, while its records were lost
    quiet = stop.whole.unusual_ns(period, rules) if state.exact else rules.endings.varying_quiet_steps * period
    stopped = stop.connects or running.silence_ns > quiet
    if not stopped and not _missing(state, first, stop.until_ns, period, rules):
        return running
    watched = stop.watched(rules)
    talk_on = watched and bool(still_heard(running, state, rules).all())
    goodbye = not talk_on and _all_said_goodbye(state, running, rules)
    ended = _at_rest(state, steps, period, rules) or goodbye
    gone = _gone(stop, rules)
    missed = stopped and watched and (bool(gone.any()) or _surely_missed(stop, first, rules))
    if ended and not stop.connects and not missed:  # one that connects anew did not end: it was started again
        return _as(running, JobState.ENDED) if stopped else running
    together = not stop.connects and not missed and not _went_on_without(state, first, rules)
    late = rules.endings.together_steps * period
    if not together or not _may_rest(state, period, rules):
        late = min(late, _unlike_any_ns(stop, rules))
    if together and running.silence_ns <= late:
        return running  # all stand at the same point: the next message may be late
    blamed = _blamed(stop, (first, _silenced(stop, gone, rules)), late, rules, sure=missed)
    return blamed if stop.connects or not watched else _unless_ended(blamed, stop, rules)


def _gone(stop: Stop, rules: FaultRules) -> Bool:
    """Members that have fallen silent while the others talk on; not before a job comes back, when agents talk."""
    if stop.running.resumed_ns is not None or not stop.watched(rules):
        return np.zeros(len(stop.job.members), np.bool_)
    return fallen_silent(stop.job, stop.running.last_ns, stop.until_ns, stop.since_ns, rules)


def _silenced(stop: Stop, gone: Bool, rules: FaultRules) -> int:
    """The member that fell silent first, whatever was due: next to all that noticed, or alone silent while the others
    talk on (`gone`), or `silent_ns` for longer than ever; -1: nobody."""
    running, state = stop.running, stop.state
    if running.resumed_ns is None:
        dead = next_to_all_that_noticed(stop.job, state, running.period_ns, stop.until_ns, rules)
        if dead >= 0 or gone.sum() == 1:
            return dead if dead >= 0 else int(np.argmax(gone))
    return (
        silent_first(state, stop.silent_ns, running.period_ns, rules) if running.step >= rules.endings.few_steps else -1
    )


def _unless_ended(blamed: Ending, stop: Stop, rules: FaultRules) -> Ending:
    """The same, or a normal end where all fell silent at once when a step may have been over."""
    overdue, steps = _surely_overdue(stop.state, rules), stop.whole.stands_at_an_end(rules)
    ended = blamed.broken_off and ends_in_silence(stop.state, overdue, blamed.period_ns, rules, whole_steps=steps)
    return _as(blamed, JobState.ENDED) if ended else blamed


def _as(ending: Ending, state: JobState) -> Ending:
    return Ending(
        state, ending.step, ending.begun_ns, ending.last_ns, ending.resumed_ns, ending.silence_ns, ending.alive_ns,
        ending.period_ns,
    )  # fmt: skip


def _goes_on(job: Job, last: int, until: int, period: float, rules: FaultRules) -> bool:
    """Has no member been silent for longer than in the steps before? Most jobs go on, and no more is looked at."""
    if until - last > rules.endings.quiet_share * period:
        return False
    transfers = job.transfers
    rows = np.flatnonzero(training_messages(job) & (transfers.end_ns >= until - rules.endings.recent_steps * period))
    sender = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    spoken = np.zeros(len(job.members), dtype=np.int64)
    np.maximum.at(spoken, sender, transfers.end_ns[rows])
    silent = until - spoken
    if (silent <= rules.endings.overdue_steps * period).all():
        return True
    order = np.lexsort((transfers.start_ns[rows], sender))
    same = np.diff(sender[order]) == 0
    gap = np.where(same, transfers.start_ns[rows][order][1:] - transfers.end_ns[rows][order][:-1], 0)
    longest = np.zeros(len(job.members), dtype=np.int64)
    np.maximum.at(longest, sender[order][1:], gap)
    return bool((silent <= np.maximum(rules.endings.grew * longest, rules.endings.overdue_steps * period)).all())


def _missing(state: LastState, first: int, until: int, period: float, rules: FaultRules) -> bool:
    """Has one member stopped while others go on, so that the job as a whole has not been silent?"""
    if first < 0 or not state.exact or not _surely_overdue(state, rules)[first]:
        return False
    if state.took_ns > rules.endings.slow_pace * period:
        return False  # everybody moves on, slowly
    if state.last_ns - float(state.due_ns[first]) < rules.endings.clear_overdue * period:
        return False  # the others have stopped as well: the next message of all may be late
    long_ago = until - float(state.due_ns[first]) > rules.endings.overdue_steps * period
    return long_ago and until - float(state.sent_ns[first]) > rules.endings.quiet_factor * float(
        state.longest_ns[first]
    )


def _at_rest(state: LastState, steps: Steps, period: float, rules: FaultRules) -> bool:
    """Does the job rest at this point in every step, with nobody missing when the last message was sent?

    Where steps have several long silences the clock must agree that this is the one between two of them. Where bytes do
    not tell (they vary, or the collector loses records) the clock alone says so.
    """
    ended = steps.end_ns[int(np.argmin(np.abs(steps.end_ns - state.last_ns)))]
    between = abs(int(ended) - state.last_ns) <= rules.endings.at_step_end * period
    if not state.exact:
        return abs(int(ended) - state.last_ns) <= rules.endings.clock_step_end * period
    rests = rules.endings.resting if between else rules.endings.surely_resting
    if _has_begun_again(state, period, rules):
        return False
    if not (state.rest_ns >= rests * state.longest_rest_ns > 0.0):
        return False
    in_flow = state.pause_ns < rules.endings.in_flow * period  # while all rest: a lost record
    all_live = bool((state.heard_ns > state.last_ns).all())  # nobody is gone for whom another could wait
    return all_live or not (_surely_overdue(state, rules) & ~in_flow).any()


def _may_rest(state: LastState, period: float, rules: FaultRules) -> bool:
    """Is the usual silence here one that a job may end in, if the clock saw the end of its step there?"""
    rests = state.rest_ns >= rules.endings.resting * state.longest_rest_ns > 0.0
    return rests and not _has_begun_again(state, period, rules)


def _unlike_any_ns(stop: Stop, rules: FaultRules) -> float:
    """Some times as long as the whole job was ever silent since its set-up, and two seconds at least: by less than that
    a message may be late."""
    rule, transfers = rules.endings, stop.job.transfers
    seen = (transfers.start_ns >= stop.since_ns) & (transfers.start_ns <= stop.running.last_ns)
    rows = training_messages(stop.job) & seen
    order = stable_order(transfers.start_ns[rows])
    start, end = transfers.start_ns[rows][order], np.maximum.accumulate(transfers.end_ns[rows][order])
    return max(rule.watched_ns, rule.hang_growth * float((start[1:] - end[:-1]).max(initial=0)))


def _has_begun_again(state: LastState, period: float, rules: FaultRules) -> bool:
    """Has the job already rested at this point, and stands who spoke last in the middle of a message? Little of that
    was sent, so that bytes see no difference, but the rest was over. Or has it sent the few bytes with which steps
    begin for longer than clocks are off?"""
    if state.begun_anew:
        return True
    latest = int(np.argmax(np.nan_to_num(state.sent_ns)))
    begun = bool(state.pause_ns[latest] < rules.endings.in_flow * period)
    return begun and state.rested_ns >= rules.endings.surely_resting * state.rest_ns > 0.0


def _surely_missed(stop: Stop, first: int, rules: FaultRules) -> bool:
    """Did others go on for long after a member was due, or was it silent for longer than ever since the set-up, or is
    it the only one that does not announce its next message? Then no job has ended here, wherever it rests."""
    state, silent = stop.state, stop.silent_ns
    least = rules.endings.in_vain * stop.running.period_ns
    if _left_out(state, first, rules) and talks_a_lot(stop.job, stop.running, rules):
        return True
    if bool((silent >= least).any()):
        return True
    if first < 0 or not state.exact or is_starved(state, rules)[first] or not _surely_overdue(state, rules)[first]:
        return False
    overdue = state.last_ns - float(state.due_ns[first])
    return overdue >= least or min(overdue, float(silent[first])) >= rules.endings.both_signs * least


def _left_out(state: LastState, first: int, rules: FaultRules) -> bool:
    """Is the member that was due first the only one that is not heard again, and does nobody write to it?"""
    return first >= 0 and not bool(heard_again(state, rules)[first]) and only_one_unheard(state, rules)


def _surely_overdue(state: LastState, rules: FaultRules) -> Bool:
    """Members whose message was due, beyond all jitter and after the longest pause that they made there, when the last
    message of the job was sent."""
    period_floor = rules.endings.lockstep * max(state.longest_rest_ns, float(np.nanmax(state.pause_ns, initial=0.0)))
    late = state.last_ns - state.due_ns
    jitter = np.maximum(rules.endings.sure_spreads * state.spread_ns, state.longest_ns - state.pause_ns)
    return np.asarray(np.nan_to_num(late, nan=-1.0) > np.maximum(np.nan_to_num(jitter), period_floor))


def _all_said_goodbye(state: LastState, running: Ending, rules: FaultRules) -> bool:
    """Was everybody heard again after the last message? That is no goodbye where they talk on and on, or are heard as
    often at any time."""
    if not heard_after(state, rules).all() or state.by_chance >= rules.endings.always:
        return False
    beats = Heartbeats(state.last_ns, running.period_ns, None, rules)
    return not (state.exact and beats.go_on(running.alive_ns, rules.endings.talk_on))


def _blamed(stop: Stop, firsts: tuple[int, int], late: float, rules: FaultRules, *, sure: bool) -> Ending:
    """`firsts` are who was due first and who fell silent alone (-1: nobody), `late` for how long the next message may
    be. `sure`: somebody was surely missed, so that the job has neither ended nor only paused."""
    (first, alone), running, state = firsts, stop.running, stop.state
    owes = first >= 0 and state.exact and first == first_to_owe(state, running.period_ns, rules)
    missed = sure or owes or _went_on_without(state, first, rules)
    if not missed and not stop.connects and _may_have_ended(state, running, rules):
        return _as(running, JobState.ENDED)
    stands_out = alone >= 0 or (missed and (owes or _surely_first(state, first, stop.job.places, running, rules)))
    if not stands_out and not stop.connects:
        if running.silence_ns <= max(late, 0 if sure else rules.endings.watched_ns):
            return running  # nobody is surely missing: the next message may be late
        if not sure and not state.exact and not heard_after(state, rules).any():
            return _as(running, JobState.ENDED)  # it may rest here: its bytes do not tell, and nobody noticed a death
    return _broke_off(stop, alone, rules)


def _broke_off(stop: Stop, alone: int, rules: FaultRules) -> Ending:
    """The ending of a job that broke off, with who is to blame: the member that fell silent `alone` (-1: there is
    none), or the likeliest of the suspects. Where the silence was watched, the signs that need no clock must agree."""
    running, state = stop.running, stop.state
    suspects = who_stopped(stop.job, stop.whole, state, stop.silent_ns, running.period_ns, rules)
    sure = 1.0
    if stop.watched(rules) and not stop.connects:
        signs = signs_of_whether(running, stop.job, state, suspects, rules, singled_out=alone >= 0)
        sure = chance_of_a_stop(signs, rules)
        if sure < rules.whether_stopped.broken:
            return _as(running, JobState.ENDED)
    culprit = alone if alone >= 0 else suspects.culprit(rules)
    chance = rules.endings.sure_silenced if alone >= 0 else suspects.sure
    due = np.nan_to_num(state.due_ns[culprit] if culprit >= 0 else np.nan, nan=float(running.last_ns))
    hangs = chance_of_a_hang(signs_of_a_hang(running, stop.job, state, culprit, stop.until_ns, rules), rules)
    return replace(
        running,
        state=JobState.HUNG if hangs > 1.0 - hangs else JobState.CRASHED,
        kind_sure=max(hangs, 1.0 - hangs),
        culprit=culprit,
        since_ns=int(min(due, running.last_ns)),
        lead_ns=_lead_ns(state, culprit) if culprit >= 0 else 0.0,
        chance=chance if culprit >= 0 else 0.0,
        suspects=tuple(one for one in suspects.likeliest if one[0] != culprit),
        sure=sure,
    )


def _surely_first(state: LastState, first: int, places: Sequence[str], running: Ending, rules: FaultRules) -> bool:
    """Is it sure enough that this member was due first?

    What is usual must be known. Others went on without it for more than jitter, and nobody else (`places` names those
    that move as one) was due at the same time; where bytes tell where a member stands it is also enough that others
    went on for long, or that all others, and only they, are heard again.
    """
    rule = rules.endings
    if running.step < rule.few_steps:
        return False
    heard = heard_again(state, rules)
    overdue = running.last_ns - float(state.due_ns[first])
    long = overdue >= rule.clear_overdue * running.period_ns
    if state.exact and (long or bool(not heard[first] and heard.sum() == heard.size - 1)):
        return True
    tied = due_with(state, first, running.period_ns, rules) & elsewhere(first, places, heard.size)
    return bool(_surely_overdue(state, rules)[first]) and not tied.any()


def _lead_ns(state: LastState, first: int) -> float:
    """From when this member was due to when the next one was; 0 where it was not the first."""
    others = np.delete(state.due_ns, first)
    return max(float(np.nanmin(others)) - float(state.due_ns[first]), 0.0) if np.isfinite(others).any() else 0.0


def _may_have_ended(state: LastState, running: Ending, rules: FaultRules) -> bool:
    """Where nobody is missing: has the job rested here before; or does the clock say that a step had just ended, or do
    all stand at the same point, as after a step, and are not all heard any more?"""
    if _rested_here_once(state, running.period_ns, rules):
        return True
    whole = state.after_whole_steps and not _has_begun_again(state, running.period_ns, rules)
    return state.exact and (state.together or whole) and not still_heard(running, state, rules).all()


def _rested_here_once(state: LastState, period: float, rules: FaultRules) -> bool:
    """Has the job rested at this point, in one of its last steps, for as long as it rests anywhere? Where all stop in
    the same moment that is an end, whatever part of the step the clock takes for a step. Where bytes vary they do not
    say what was the same point."""
    rested = state.exact and state.most_rest_ns >= rules.endings.surely_resting * state.longest_rest_ns > 0.0
    return rested and not _has_begun_again(state, period, rules)


def _went_on_without(state: LastState, first: int, rules: FaultRules) -> bool:
    """Did others go on after this member was due? Else all stopped at the same moment and nobody stands out."""
    if first < 0:
        return False
    if bool(_surely_overdue(state, rules).any()):
        return True
    return alone(state, first, rules)
