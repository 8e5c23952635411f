"""How likely it is that a job broke off, where one sign after the other says that it did.

The gates of `endings` take each answer for a fact: a clock that has the wrong phase makes a normal end look like a stop
in the middle of a step, and none of the later ones can doubt it. So signs that need no clock are weighed against what
they say. Those that do the same work are as far *apart* as while messages flow, where something stopped them anywhere,
and stand together where they ended. Words end *at once* with the last message of a job that ends, and go on, or come
once more, where somebody died or hangs. Somebody is to blame for a stop: the chance of the one *named* (`who_stopped`)
is high, or words *single out* one. And the longer the silence, in *steps*, the less the job may only be late.

The log odds are a weighted sum of these signs, with weights fitted to jobs whose truth is known
(`rules.WhetherStoppedRules`), so the chance is a promise: it is how sure a finding can be that anything broke off.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Float64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.ending import Ending
from llmprism.diagnose.first_to_stop import heard_again
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.who_stopped import Suspects
from llmprism.model.job import Job
from llmprism.stats.logistic import logistic

__all__ = ["chance_of_a_stop", "only_one_unheard", "signs_of_whether"]


def chance_of_a_stop(signs: Float64, rules: FaultRules = RULES) -> float:
    """The chance that the job broke off, by the signs (`signs_of_whether`)."""
    rule = rules.whether_stopped
    weights = (rule.anyway, rule.steps, rule.apart, rule.at_once, rule.named, rule.singled_out)
    return logistic(float(signs @ np.array(weights)))


def signs_of_whether(
    running: Ending,
    job: Job,
    state: LastState,
    suspects: Suspects,
    rules: FaultRules = RULES,
    *,
    singled_out: bool,
) -> Float64:
    """The signs, in the order of the weights of `chance_of_a_stop`. `running` is what is known of the silence, and
    `singled_out` whether somebody fell silent alone."""
    rule = rules.whether_stopped
    doublings = np.log2(max(running.silence_ns, 1) / running.period_ns)
    return np.array([
        1.0,
        np.clip(doublings, -rule.most_doublings, rule.most_doublings),
        _apart(state, rules),
        state.silent_at_once(rules) and _words(job, running.last_ns) > rule.few_words,
        suspects.sure * suspects.missed,
        singled_out or only_one_unheard(state, rules),
    ], dtype=np.float64)  # fmt: skip


def _words(job: Job, until_ns: int) -> float:
    """Small messages of the job until then, for each member."""
    small = ~training_messages(job) & (job.transfers.start_ns <= until_ns)
    return float(np.count_nonzero(small)) / len(job.members)


def _apart(state: LastState, rules: FaultRules) -> float:
    """The logarithm of how far members that do the same are apart, against while messages flow; 0 where that is not
    known, or where they always move in lockstep."""
    if not (state.usually_apart > rules.endings.lockstep_messages and np.isfinite(state.apart)):
        return 0.0
    return float(np.log(max(state.apart / state.usually_apart, rules.whether_stopped.least_apart)))


def only_one_unheard(state: LastState, rules: FaultRules = RULES) -> bool:
    """Do all but one member, two or more, say after the last message what they do not say there in other steps, and
    does nobody write to that one? At the end of a job all say goodbye or nobody does."""
    heard = heard_again(state, rules)
    alone = heard.sum() == heard.size - 1 >= rules.whether_stopped.least_others
    return bool(alone and state.addressed_ns[~heard][0] <= state.last_ns + rules.endings.heard_ns)
