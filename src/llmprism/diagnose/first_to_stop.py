"""Who stopped first, of the members of a job whose traffic has stopped.

*Due first.* Whoever waits for another is due after it, so the member to blame is the one whose next message was due
first (`overdue_first`).

*Ahead by all signs.* Where the due times alone do not decide, three clocks do that a stopped process stops at once and
that those who wait for it stop later: when its next message was due, when it was last heard, and when it was last heard
or written to, control messages included. Over gloo a rank that enters a collective says so at once by a small message,
so who has not is the one that was silent first.

*Longer than ever.* Whoever has been silent for longer than ever before while others went on is missing, whatever the
clock takes for a step (`silent_as_never_before`). At the end of a job, and in windows that end anywhere, nobody is.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import FaultRules
from llmprism.model.job import Job

__all__ = [
    "heard_again",
    "may_be_to_blame",
    "most_likely",
    "overdue_first",
    "silent_as_never_before",
]


def heard_again(state: LastState, rules: FaultRules) -> Bool:
    """Members that are heard after the last message of the training, and live. Where some say what they do not say
    there in other steps only they count: the others spoke before whatever happened. A mere announcement of the next
    message never does: nobody took it."""
    heard = state.heard_ns > state.last_ns + rules.endings.heard_ns
    if not state.as_usual.size:
        return np.asarray(heard)
    unusual = heard & ~state.as_usual
    return np.asarray(unusual if unusual.any() else heard & ~state.announced)


def overdue_first(state: LastState, period: float, rules: FaultRules) -> int:
    """The member that was due first; -1 where no member's due time is known.

    Those that lack what they usually have when they go on wait for somebody else. Where most are heard again after the
    last message, only those that are not are considered. One that stopped in the middle of a message was held up in it
    by one that had not begun: of two that were due at the same time the latter is to blame. Of several the one that was
    neither heard nor written to for longest.
    """
    due = may_be_to_blame(state, rules)
    if not np.isfinite(due).any():
        return -1
    first = int(np.nanargmin(due))
    if state.pause_ns[first] < rules.endings.in_flow * period:
        waiting = np.where(state.pause_ns >= rules.endings.in_flow * period, due, np.nan)
        if np.isfinite(waiting).any() and np.nanmin(waiting) - state.due_ns[first] <= rules.endings.same_time * period:
            first, due = int(np.nanargmin(waiting)), waiting
        elif _let_down(state, first, period, rules):
            return int(state.supplier[first])
    tied = due <= state.due_ns[first] + rules.endings.same_time * period
    return int(np.argmin(np.where(tied, _involved_ns(state), np.inf)))


def _let_down(state: LastState, first: int, period: float, rules: FaultRules) -> bool:
    """Had the member that sent this one, which passes on what it gets, its last message fallen silent before it, and
    was that heard or written to for the last time before it? Then that one stopped, due or not."""
    supplier = int(state.supplier[first]) if state.supplier.size else -1
    if supplier < 0 or not state.pause_ns[supplier] >= rules.endings.in_flow * period:
        return False
    involved = _involved_ns(state)
    return bool(state.sent_ns[supplier] <= state.sent_ns[first] and involved[supplier] < involved[first])


def _involved_ns(state: LastState) -> Float64:
    """When each member was last heard or written to: nobody writes to one that takes nothing, and it says nothing."""
    return np.maximum(state.heard_ns, state.addressed_ns).astype(np.float64)


def may_be_to_blame(state: LastState, rules: FaultRules) -> Float64:
    """Due times of those that may be to blame, NaN for the others."""
    due = state.due_ns.copy()
    starved = state.lag < -np.maximum(rules.endings.starved, rules.endings.sure_spreads * state.lag_spread)
    if state.announced.size:
        starved |= state.announced  # it sends its next message, and nobody takes it
    if np.isfinite(due[~starved]).any():
        due[starved] = np.nan
    heard = heard_again(state, rules)
    if heard.mean() >= rules.endings.heard_members and np.isfinite(state.due_ns[~heard]).any():
        due = np.where(heard, np.nan, state.due_ns)
    elif np.isfinite(due[~heard]).any():
        due[heard] = np.nan
    return due


def most_likely(state: LastState, period: float, rules: FaultRules) -> tuple[list[int], float]:
    """Members that may be to blame, the likeliest first, and by how much the first is ahead of all others: the sum of
    its leads by each of the three clocks, in steps, none of which counts for more than `most_lead`. Infinite where
    there is only one. After the last message of the job the clocks stop: whoever is heard then lives, and when it
    happens to be heard is chance."""
    rows = np.flatnonzero(np.isfinite(may_be_to_blame(state, rules)))
    if rows.size <= 1:
        return rows.tolist(), float("inf") if rows.size else 0.0
    clocks = (state.heard_ns, _involved_ns(state))
    ahead = np.zeros((rows.size, rows.size))
    for clock in (*(np.minimum(clock, state.last_ns) for clock in clocks), state.due_ns):
        lead = (clock[rows][None, :] - clock[rows][:, None]) / max(period, 1.0)
        ahead += np.clip(lead, -rules.endings.most_lead, rules.endings.most_lead)
    np.fill_diagonal(ahead, np.inf)
    least = ahead.min(axis=1)
    order = np.argsort(-least, kind="stable")
    return rows[order].tolist(), float(least[order[0]])


def silent_as_never_before(job: Job, last_ns: int) -> Float64:
    """By how many nanoseconds each member has been silent, when the last message of the training ended at `last_ns`,
    for longer than ever before; -inf for those that never sent a second one."""
    transfers = job.transfers
    rows = np.flatnonzero(training_messages(job) & (transfers.start_ns <= last_ns))
    member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    order = np.lexsort((transfers.start_ns[rows], member))
    member, start, end = member[order], transfers.start_ns[rows][order], transfers.end_ns[rows][order]
    longest, latest = np.zeros(len(job.members)), np.zeros(len(job.members))
    np.maximum.at(longest, member[1:], np.where(np.diff(member) == 0, start[1:] - end[:-1], 0))
    np.maximum.at(latest, member, end)
    return np.where(longest > 0.0, last_ns - latest - longest, -np.inf)
