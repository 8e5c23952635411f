"""Whether the rank that a stopped job waits for has died, or hangs.

Nobody writes to a dead rank; the peers of a hung one go on writing to it until they need its answer. Heartbeats that go
on mean that ranks live, heartbeats that stop that they died. Over a transport that talks with every message those that
wait for a living rank announce their next message and are silent then; who has noticed that a rank is gone speaks
later, or says nothing at all any more.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.ending import Ending
from llmprism.diagnose.first_to_stop import heard_again, noticed_a_death, some_are_gone, written_to_in_vain
from llmprism.diagnose.heartbeats import Heartbeats
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import FaultRules
from llmprism.model.job import Job

__all__ = ["alone", "hung", "still_heard", "talks_a_lot"]


def alone(state: LastState, named: int, rules: FaultRules) -> bool:
    """Are most members heard again, and this one not?"""
    heard = heard_again(state, rules)
    return bool(heard.mean() >= rules.endings.heard_members and not heard[named])


def still_heard(running: Ending, state: LastState, rules: FaultRules) -> Bool:
    """Members that are still heard in the second half of the silence. Whether that is more than they usually say does
    not matter: the dead say nothing, and those who leave say it at once."""
    return np.asarray(state.heard_ns >= running.last_ns + rules.endings.gone * running.silence_ns)


def _all_live(running: Ending, state: LastState, culprit: int, rules: FaultRules) -> bool:
    """Is everybody still heard, or are nearly all and the one to blame?"""
    later = still_heard(running, state, rules)
    return bool(later.all() or (culprit >= 0 and later[culprit] and later.mean() >= rules.endings.heard))


def hung(running: Ending, job: Job, state: LastState, culprit: int, until: int, rules: FaultRules) -> bool:
    """Do the ranks live, and nothing but an answer is missing? Else one of them died. `culprit` is the row of the
    member that is to blame (-1: nobody)."""
    rule = rules.endings
    beats = Heartbeats.of(job, state.last_ns, running.period_ns, rules, until)
    if written_to_in_vain(state, culprit, running.silence_ns, rules):
        return True
    if beats.stopped(running.alive_ns, until):
        return False
    if _all_live(running, state, culprit, rules):
        return True
    if beats.go_on(running.alive_ns):
        if culprit < 0:
            return not some_are_gone(state, running.silence_ns, rules)
        if not alone(state, culprit, rules):
            return True
        talk = rule.still_written_to * (running.alive_ns - running.last_ns)
        return bool(state.addressed_ns[culprit] >= running.last_ns + talk)  # nobody writes to a dead one
    watched = running.silence_ns >= max(rule.watched_steps * running.period_ns, rule.watched_ns)
    if beats.gap_ns is None and watched and talks_a_lot(job, running, rules):
        return not noticed_a_death(state, culprit, running.period_ns, rules)
    if culprit < 0:
        return False
    due = float(state.due_ns[culprit])
    reach = max(rule.addressed_share * running.period_ns, rule.addressed_ns)
    written_to = state.supplied_ns[culprit] > max(due, float(state.heard_ns[culprit])) + reach
    without = running.last_ns - due > max(rule.without_share * running.period_ns, rule.without_ns)
    return bool(written_to or without)


def talks_a_lot(job: Job, running: Ending, rules: FaultRules) -> bool:
    """Do the members of the job exchange control messages in its usual steps?"""
    transfers = job.transfers
    when = transfers.start_ns[~training_messages(job)]
    since = running.last_ns - rules.endings.steps_back * running.period_ns
    usual = np.count_nonzero((when > since) & (when <= running.last_ns))
    return bool(usual >= rules.endings.control_per_step * rules.endings.steps_back * len(job.members))
