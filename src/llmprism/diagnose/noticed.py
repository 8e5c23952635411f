"""Whom those that notice a death have in common: the one that they all exchange messages with.

The connections of a process that dies are closed, and only who has one to it can notice that. Ranks exchange the
messages of a ring, a tree or a pipeline with few others, so the first to notice are next to the dead one: NCCL's
watchdog then tells the store, by a message of a size that nobody sends while the job trains; or the header of a message
is sent to the dead rank, and the message itself never follows. Later ones notice that the first have left.

It needs neither bytes of a step nor times at which messages are due. Where ranks announce their messages (gloo), they
notice by words of usual sizes, so that one of a new size is not the first, and nothing is said here.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job

__all__ = ["next_to_all_that_noticed"]


def next_to_all_that_noticed(
    job: Job, state: LastState, period_ns: float, until_ns: int, rules: FaultRules = RULES
) -> int:
    """The row of the only member that is silent since the first noticed something, and next to it and to those that
    noticed after it, one by one, as far as they have one in common; -1 where there is none, or several."""
    if state.announced.any():
        return -1
    since = state.last_ns - rules.endings.steps_back * period_ns
    when = _first_words(job, state, since, until_ns, rules)
    at_once = when <= when.min() + rules.endings.alive_ns  # what is said later is said by those that start again
    order = np.argsort(when, kind="stable")[: int((at_once & np.isfinite(when)).sum())]
    if not order.size:
        return -1
    ends = _exchanges(job, since, state.last_ns)
    suspects: Bool = _next_to(order[0], ends, when.size) & (state.heard_ns < when[order[0]])
    for row in order[1:].tolist():
        if suspects.sum() <= 1:
            break
        common = suspects & _next_to(row, ends, when.size)
        if not common.any():
            break
        suspects = common
    return int(np.argmax(suspects)) if suspects.sum() == 1 else -1


def _first_words(job: Job, state: LastState, since_ns: float, until_ns: int, rules: FaultRules) -> Float64:
    """When each member, after its last message of the training, first says a thing of a size that nobody's words had
    since `since_ns` while the job trained, and says it once; infinite for those that do not, and for all where words
    have new sizes at any time. What is said again and again are signs of life."""
    transfers, members = job.transfers, np.array(job.members)
    rows = np.flatnonzero(~training_messages(job) & (transfers.start_ns >= since_ns) & (transfers.start_ns <= until_ns))
    who = np.searchsorted(members, transfers.pair_src[transfers.pair_of_row[rows]])
    when, size = transfers.start_ns[rows], transfers.bytes[rows]
    sent = np.nan_to_num(state.sent_ns, nan=float(state.last_ns))
    after = when > sent[who]
    usual, times = np.unique(size[when <= sent.min()], return_counts=True)
    if (times == 1).sum() > rules.endings.new_words * times.sum():
        return np.full(members.size, np.inf)
    new = after & ~np.isin(size, usual)
    sizes, kind = np.unique(size, return_inverse=True)
    said = np.bincount((who * sizes.size + kind)[after], minlength=members.size * sizes.size)
    new &= said[who * sizes.size + kind] == 1
    first = np.full(members.size, np.inf)
    np.minimum.at(first, who[new], when[new])
    return first


def _exchanges(job: Job, since_ns: float, last_ns: int) -> tuple[Int64, Int64]:
    """Rows of the members at both ends of each pair with messages of the training."""
    transfers, members = job.transfers, np.array(job.members)
    rows = training_messages(job) & (transfers.end_ns >= since_ns) & (transfers.start_ns <= last_ns)
    pairs = np.unique(transfers.pair_of_row[rows])
    source, target = (np.searchsorted(members, end[pairs]) for end in (transfers.pair_src, transfers.pair_dst))
    return source, target


def _next_to(row: int, ends: tuple[Int64, Int64], members: int) -> Bool:
    """Members that exchange messages of the training with this one."""
    (source, target), near = ends, np.zeros(members, dtype=np.bool_)
    near[target[source == row]] = near[source[target == row]] = True
    return near
