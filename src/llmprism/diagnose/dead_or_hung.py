"""How likely it is that the rank that a stopped job waits for hangs, and has not died.

Whoever hangs is *alive*, or looks like it: it is still heard, its peers write to it *in vain*, again and again where it
cannot be reached, and what they had begun to send it is *supplied*, because buffers take it. Connections to a process
that dies are closed at once. So nobody writes to it while the others talk on (it is *dead*), everybody is *hushed* who
used to talk whether the job trains or not, words *single out* whom those that notice a death first have in common
(`noticed`), members say something more over a transport that talks with every message (they have *noticed* it, and not
if they go on for long without it), and messages between them are *cut* short, because they fail, too. Where it is not
known who is to blame (*nobody*) the same is asked of all members together.

None of this is sure, and where a collector sees no words hardly anything is left. So the signs are added up, as those
of who stopped are (`who_stopped`): the log odds of a hang are a weighted sum, with weights fitted to stops whose kind
is known (`rules.DeadOrHungRules`), each as it was seen and as it would be without its words. The chance is a promise.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.ending import Ending
from llmprism.diagnose.first_to_stop import heard_again, noticed_a_death, some_are_gone, written_to_in_vain
from llmprism.diagnose.heartbeats import Heartbeats
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.noticed import next_to_all_that_noticed
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.stats.logistic import logistic

__all__ = ["alone", "chance_of_a_hang", "cut_short", "signs_of_a_hang", "still_heard", "talks_a_lot"]


def alone(state: LastState, named: int, rules: FaultRules) -> bool:
    """Are most members heard again, and this one not?"""
    heard = heard_again(state, rules)
    return bool(heard.mean() >= rules.endings.heard_members and not heard[named])


def still_heard(running: Ending, state: LastState, rules: FaultRules) -> Bool:
    """Members that are still heard in the second half of the silence. Whether that is more than they usually say does
    not matter: the dead say nothing, and those who leave say it at once."""
    return np.asarray(state.heard_ns >= running.last_ns + rules.endings.gone * running.silence_ns)


def _long_ns(running: Ending, rules: FaultRules) -> float:
    """A crash takes the other ranks down within that."""
    return max(rules.endings.alive_steps * running.period_ns, rules.endings.alive_ns)


def chance_of_a_hang(signs: Float64, rules: FaultRules = RULES) -> float:
    """The chance that a rank hangs, and has not died, by the signs (`signs_of_a_hang`)."""
    rule = rules.dead_or_hung
    weights = (
        rule.anyway, rule.in_vain, rule.alive, rule.dead, rule.noticed, rule.singled_out, rule.supplied, rule.cut,
        rule.unnoticed, rule.hushed, rule.nobody,
    )  # fmt: skip
    return logistic(float(signs @ np.array(weights)))


def signs_of_a_hang(
    running: Ending, job: Job, state: LastState, culprit: int, until_ns: int, rules: FaultRules = RULES
) -> Float64:
    """The signs, in the order of the weights of `chance_of_a_hang`. `culprit` is the row of the member that is to blame
    (-1: nobody); the silence, of which `running` tells, was watched up to `until_ns`."""
    period = running.period_ns
    beats = Heartbeats.of(job, state.last_ns, period, rules, until_ns)
    in_vain, alive = _in_vain(running, state, culprit, rules), _is_alive(running, state, culprit, rules)
    shown = alive or in_vain
    with_messages = talks_a_lot(job, running, rules) and beats.gap_ns is None
    words = with_messages and not (shown or beats.go_on(running.alive_ns))
    return np.array([
        1.0,
        in_vain,
        alive,
        not shown and _others_live(running, state, culprit, rules),
        words and noticed_a_death(state, culprit, period, rules),
        next_to_all_that_noticed(job, state, period, until_ns, rules) >= 0,
        _supplied(state, culprit, period, rules),
        cut_short(job, state, culprit, period, rules),
        _without(running, state, culprit, rules) if state.talks else 0.0,
        0.0 if shown else _hushed(job, running, state, beats, until_ns),
        culprit < 0,
    ], dtype=np.float64)  # fmt: skip


def _is_alive(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Is who is to blame still heard while half of all are, or was it for longer than a crash takes all others down
    within? Or is everybody still heard?"""
    later, rule = still_heard(running, state, rules), rules.endings
    if culprit < 0:
        return bool(later.all())
    with_others = later[culprit] and later.mean() >= rule.heard_members
    return bool(with_others or state.heard_ns[culprit] > running.last_ns + _long_ns(running, rules))


def _in_vain(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Is who is to blame written to, and says nothing: for much of the silence, or for half of the time that the others
    talk on?"""
    if culprit < 0:
        return False
    if written_to_in_vain(state, culprit, running.silence_ns, rules):
        return True
    long = running.alive_ns - running.last_ns > _long_ns(running, rules)
    return long and _others_talk(running, state, culprit, rules) and _still_written_to(running, state, culprit, rules)


def _others_live(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Are half of the members still heard, and neither is who is to blame nor is it written to?"""
    if culprit < 0:
        return some_are_gone(state, running.silence_ns, rules)
    written_to = _still_written_to(running, state, culprit, rules)
    return _others_talk(running, state, culprit, rules) and not written_to


def _others_talk(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Are half of the members still heard, and who is to blame is not?"""
    later = still_heard(running, state, rules)
    return bool(later.mean() >= rules.endings.heard_members and not later[culprit])


def _still_written_to(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Is who is to blame written to for half of the time that the others talk on?"""
    talk_ns = running.alive_ns - running.last_ns
    return bool(state.addressed_ns[culprit] >= running.last_ns + rules.endings.still_written_to * talk_ns)


def _supplied(state: LastState, culprit: int, period_ns: float, rules: FaultRules) -> float:
    """For how long messages of the training still reached who is to blame after its own was due, and after it was
    heard for the last time."""
    if culprit < 0 or not np.isfinite(state.due_ns[culprit]):
        return 0.0
    since = max(float(state.due_ns[culprit]), float(state.heard_ns[culprit]))
    return _in_reaches(float(state.supplied_ns[culprit]) - since, period_ns, rules)


def _hushed(job: Job, running: Ending, state: LastState, beats: Heartbeats, until_ns: int) -> float:
    """The logarithm of how many words of the members are missing in the second half of the silence: of those that they
    say at any time of a step, so as in the quietest quarter of the steps before; many where a rhythm has stopped. None
    are where anybody is heard in it, or where words come with the messages of the training."""
    rules = beats.rules
    rule, back = rules.dead_or_hung, rules.endings.steps_back
    if beats.stopped(running.alive_ns, until_ns):
        return rule.most_missing
    if state.talks or still_heard(running, state, rules).any():
        return 0.0
    when = job.transfers.start_ns[~training_messages(job)]
    before = (running.last_ns - when) / running.period_ns
    phase = (before[(before > 0.0) & (before < back)] * rule.phases).astype(np.int64) % rule.phases
    each = rule.phases * float(np.bincount(phase, minlength=rule.phases).min()) / back
    missing = each * (1.0 - rules.endings.gone) * running.silence_ns / running.period_ns
    return min(float(np.log1p(missing)), rule.most_missing)


def _without(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> float:
    """For how long the others went on after the message of who is to blame was due."""
    if culprit < 0 or not np.isfinite(state.due_ns[culprit]):
        return 0.0
    return _in_reaches(running.last_ns - float(state.due_ns[culprit]), running.period_ns, rules)


def _in_reaches(time_ns: float, period_ns: float, rules: FaultRules) -> float:
    """The logarithm of a time, in those that what is on its way when a rank dies takes to arrive, or to be refused."""
    reach = max(rules.endings.addressed_share * period_ns, rules.endings.addressed_ns)
    return float(np.log1p(max(time_ns, 0.0) / reach))


def cut_short(job: Job, state: LastState, culprit: int, period_ns: float, rules: FaultRules = RULES) -> float:
    """The share of the pairs of members, without the one to blame, whose last message has a size that none of their
    messages had in the steps before, beyond the share of which that is true of the one before; half of them, and more,
    count as all."""
    rule, transfers = rules.dead_or_hung, job.transfers
    since = state.last_ns - (rules.endings.steps_back + 1) * period_ns
    chosen = training_messages(job) & (transfers.start_ns <= state.last_ns) & (transfers.end_ns >= since)
    blamed = -1 if culprit < 0 else job.members[culprit]
    others = (transfers.pair_src != blamed) & (transfers.pair_dst != blamed)
    rows = np.flatnonzero(chosen & others[transfers.pair_of_row])
    pair = transfers.pair_of_row[rows]
    order = np.lexsort((transfers.start_ns[rows], pair))
    pair, size = pair[order], transfers.bytes[rows][order]
    last, (pairs, count) = np.flatnonzero(np.diff(pair, append=-1)), np.unique(pair, return_counts=True)
    known = count >= rule.least_messages
    if not known.any():
        return 0.0
    of = np.searchsorted(pairs, pair)

    def share_odd(named: Int64) -> float:
        alike = np.abs(size / size[named][of] - 1.0) <= rule.same_size
        return float((np.bincount(of, alike, pairs.size)[known] <= 1.0).mean())  # itself

    more = share_odd(last) - share_odd(np.maximum(last - 1, 0))
    return min(max(more, 0.0) / rule.most_cut, 1.0)


def talks_a_lot(job: Job, running: Ending, rules: FaultRules) -> bool:
    """Do the members of the job exchange control messages in its usual steps?"""
    transfers = job.transfers
    when = transfers.start_ns[~training_messages(job)]
    since = running.last_ns - rules.endings.steps_back * running.period_ns
    usual = np.count_nonzero((when > since) & (when <= running.last_ns))
    return bool(usual >= rules.endings.control_per_step * rules.endings.steps_back * len(job.members))
