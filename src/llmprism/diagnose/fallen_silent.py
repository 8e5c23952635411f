"""Who has fallen silent while the others talk on, by the words that living ranks say all the time.

Stores, watchdogs and launchers make every rank say something once a second or so, whether the job trains, rests,
evaluates or waits. A rank that says nothing for several times as long as it ever did, while most of the others talk
until the end of the silence, is gone or stands still: no job has ended here, wherever it rests, and none only pauses.
In a pause nobody leaves, and at the end of a job all do, though not at once: of two real ones with 8 and 16 ranks some
are gone when the others still talk three seconds later. So ten seconds of silence are asked for.

Who talks again after a long silence does not talk on: its server belongs to another job by then.

It needs no bytes of a step and no times at which messages are due. It says nothing where words come with the messages
of the training only (gloo): nobody talks then when these stop.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job

__all__ = ["fallen_silent"]


def fallen_silent(job: Job, last_ns: int, until_ns: int, since_ns: int, rules: FaultRules = RULES) -> Bool:
    """The members of a job whose last message of the training ended at `last_ns`, and that was watched until
    `until_ns`, which have fallen silent while the others talk on; nobody where most do not. What is usual is what they
    said since `since_ns`, when the set-up was done."""
    rule, transfers, count = rules.endings, job.transfers, len(job.members)
    rows = np.flatnonzero(~training_messages(job) & (transfers.start_ns >= since_ns) & (transfers.start_ns <= until_ns))
    member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    order = np.lexsort((transfers.start_ns[rows], member))
    member, when = member[order], transfers.start_ns[rows][order]
    spoken = np.full(count, last_ns, dtype=np.int64)
    np.maximum.at(spoken, member, when)
    same, until_last = np.diff(member) == 0, when[1:] <= last_ns
    usual, later = (_longest(same & chosen, member, when, count) for chosen in (until_last, ~until_last))
    talks_on = (spoken >= last_ns + rule.to_the_end * (until_ns - last_ns)) & (later <= rule.silent_growth * usual)
    if talks_on.mean() <= rule.heard_members:
        return np.zeros(count, dtype=np.bool_)
    words = np.bincount(member[1:][same & until_last], minlength=count)
    least = np.maximum(rule.silent_growth * usual, rule.short_hang_ns)
    return np.asarray((words >= rule.least_beats) & (until_ns - spoken > least))


def _longest(chosen: Bool, member: Int64, when: Int64, count: int) -> Int64:
    """The longest of the chosen times between two words of each member; 0 where it has none."""
    longest = np.zeros(count, dtype=np.int64)
    np.maximum.at(longest, member[1:][chosen], np.diff(when)[chosen])
    return longest
