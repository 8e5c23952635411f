"""Signs of who stopped first, of the members of a job whose traffic has stopped (`who_stopped` adds them up).

*Due first.* Whoever waits for another is due after it, so a member whose next message was due before all others' was
missed (`overdue_first`).

*Owes a message.* A member of a ring passes on what it gets at once. Who has got something and not passed it on stopped;
those that passed on all they got wait for it (`first_to_owe`).

*Longer than ever.* Whoever has been silent for longer than ever before while others went on is missing, whatever the
clock takes for a step (`silent_as_never_before`). At the end of a job, and in windows that end anywhere, nobody is.

*Words.* Who is heard again after the last message lives, and so does who announces its next one. Nobody writes to one
that is gone.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import FaultRules
from llmprism.model.job import Job

__all__ = [
    "due_with",
    "elsewhere",
    "first_to_owe",
    "has_announced",
    "heard_after",
    "heard_again",
    "involved_ns",
    "is_starved",
    "may_be_to_blame",
    "noticed_a_death",
    "overdue_first",
    "silent_as_never_before",
    "silent_first",
    "some_are_gone",
    "written_to_in_vain",
]


def heard_again(state: LastState, rules: FaultRules) -> Bool:
    """Members of `heard_after`; nobody where no more of them are heard than in any time as long: who happens to be
    heard then is chance, but where the transport talks with every message."""
    heard, usual = heard_after(state, rules), state.by_chance
    if state.talks:
        return heard
    by_chance = usual + rules.endings.sure_spreads * np.sqrt(usual * (1.0 - usual) / heard.size)
    return np.zeros_like(heard) if heard.mean() <= by_chance else heard


def heard_after(state: LastState, rules: FaultRules) -> Bool:
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
    by one that had not begun: of two that were due at the same time the latter is to blame. Of several the one that
    owed its message first, else the one that was neither heard nor written to for longest.
    """
    due = may_be_to_blame(state, period, rules)
    if not np.isfinite(due).any():
        return -1
    first = int(np.nanargmin(due))
    waiting = np.where(state.pause_ns >= rules.endings.in_flow * period, due, np.nan)
    if np.isfinite(waiting).any() and np.nanmin(waiting) - state.due_ns[first] <= rules.endings.same_time * period:
        first, due = int(np.nanargmin(waiting)), waiting
    elif state.pause_ns[first] < rules.endings.in_flow * period and _let_down(state, first, period, rules):
        return int(state.supplier[first])
    tied = due <= state.due_ns[first] + _same_time_ns(state, first, period, rules)
    owing = first_to_owe(state, period, rules)
    if owing >= 0 and tied[owing]:
        return owing
    if not state.talks and not heard_again(state, rules).any():
        return first  # who happens to be heard, or written to, last is chance
    involved = np.where(tied, np.minimum(involved_ns(state), state.last_ns), np.inf)
    return int(np.lexsort((due, involved))[0])


def first_to_owe(state: LastState, period: float, rules: FaultRules) -> int:
    """The member that has got a message and not passed it on, as it does at once where it stands, clearly before any
    other had, and before the others stopped; -1 where there is none."""
    if not state.supplied_ns.size:
        return -1
    passes_on = state.pause_ns <= rules.endings.same_time * period
    owes = np.where((state.supplied_ns > state.sent_ns), state.supplied_ns, np.inf)
    first = int(np.argmin(owes))
    following = min(float(np.delete(owes, first).min(initial=np.inf)), float(state.last_ns))
    clear = following - float(owes[first]) >= rules.endings.same_time * period
    return first if clear and passes_on[first] else -1


def due_with(state: LastState, first: int, period: float, rules: FaultRules) -> Bool:
    """Who else that may be to blame was due at the same time as this member, or before it."""
    due = may_be_to_blame(state, period, rules)
    tied = due <= state.due_ns[first] + _same_time_ns(state, first, period, rules)
    tied[first] = False
    return np.asarray(tied)


def elsewhere(first: int, places: Sequence[str], members: int) -> Bool:
    """Members that are not in the same place as this one (`places` names that of each), as far as that is known."""
    servers = np.array(places) if places else np.full(members, "")
    return np.asarray((servers != servers[first]) | (servers == ""))


def _same_time_ns(state: LastState, first: int, period: float, rules: FaultRules) -> Float64:
    """By how much the due time of each member may be after that of `first` for both to be due at the same time: what
    their pauses vary by, and no more than a small part of a step where bytes tell which pause it is."""
    rule = rules.endings
    jitter = rule.sure_spreads * np.hypot(np.nan_to_num(state.spread_ns), np.nan_to_num(state.spread_ns[first]))
    most = rule.same_time * period if state.exact else np.inf
    return np.asarray(np.clip(jitter, rule.in_flow * period, most))


def _let_down(state: LastState, first: int, period: float, rules: FaultRules) -> bool:
    """Had the member that sent this one, which passes on what it gets, its last message fallen silent before it, and
    was that heard or written to for the last time before it? Then that one stopped, due or not."""
    supplier = int(state.supplier[first]) if state.supplier.size else -1
    if supplier < 0 or not state.pause_ns[supplier] >= rules.endings.in_flow * period:
        return False
    involved = involved_ns(state)
    return bool(state.sent_ns[supplier] <= state.sent_ns[first] and involved[supplier] < involved[first])


def involved_ns(state: LastState) -> Float64:
    """When each member was last heard or written to: nobody writes to one that takes nothing, and it says nothing."""
    return np.maximum(state.heard_ns, state.addressed_ns).astype(np.float64)


def _noticed_something(state: LastState, rules: FaultRules) -> Bool:
    """Members that speak after the last message of the training, and later than their own next one was ever due: who
    waits for others is silent then."""
    rule = rules.endings
    at_the_latest = state.sent_ns + rule.announced * state.longest_ns + rule.heard_ns
    return np.asarray((state.heard_ns > state.last_ns + rule.heard_ns) & (state.heard_ns > at_the_latest))


def noticed_a_death(state: LastState, culprit: int, period: float, rules: FaultRules) -> bool:
    """Over a transport that talks with every message: do the others behave as if connections had closed?

    Who waits for a rank that hangs announces its next message when that is due, and is silent from then on. Who speaks
    after that has noticed something; and so have, where anybody announces its message, those that have got all they
    need, and do not stand in the middle of a message, but announce nothing. All in the middle of a message: who hangs
    does so before it sends.
    """
    rule = rules.endings
    in_flow = state.pause_ns < rule.in_flow * period
    late = _noticed_something(state, rules) & (np.arange(state.sent_ns.size) != culprit)
    could_go_on = ~in_flow & ~is_starved(state, rules) & ~has_announced(state)
    speechless = could_go_on & (state.heard_ns <= state.sent_ns + rule.heard_ns)
    blamed = 1 if culprit < 0 else int(speechless[culprit])
    gone = bool(state.announced.any()) and int(speechless.sum()) > blamed
    return bool(in_flow.all() or late.any() or gone)


def written_to_in_vain(state: LastState, culprit: int, silence_ns: int, rules: FaultRules) -> bool:
    """Is this member (-1: nobody) still written to, long after the last message, though it says nothing? Connections to
    a process that died are closed at once. To one that cannot be reached a transport sends again, after pauses each
    twice as long as the one before, so the last time is no earlier than half of the silence, or a third of it where
    others went on for a while."""
    rule = rules.endings
    if culprit < 0 or state.heard_ns[culprit] > state.last_ns + rule.heard_ns:
        return False
    return bool(state.addressed_ns[culprit] - state.last_ns >= max(rule.sent_again * silence_ns, rule.watched_ns))


def some_are_gone(state: LastState, silence_ns: int, rules: FaultRules) -> bool:
    """Are some members neither heard nor written to any more while half of them talk until the end? Ranks that wait for
    one that hangs talk like it; who notices a death leaves."""
    rule = rules.endings
    gone = involved_ns(state) <= state.last_ns + rule.heard_ns
    talks_on = state.heard_ns >= state.last_ns + rule.to_the_end * silence_ns
    return bool(gone.any() and talks_on.mean() >= rule.heard_members)


def has_announced(state: LastState) -> Bool:
    """Members that announce their next message; nobody where that was not looked at."""
    return state.announced if state.announced.size else np.zeros(state.sent_ns.size, dtype=np.bool_)


def is_starved(state: LastState, rules: FaultRules) -> Bool:
    """Members that have not been sent what they usually have when they go on."""
    least = np.maximum(rules.endings.starved, rules.endings.sure_spreads * state.lag_spread)
    return np.asarray(state.lag < -least)


def may_be_to_blame(state: LastState, period: float, rules: FaultRules) -> Float64:
    """Due times of those that may be to blame, NaN for the others. Who lacks something waits for somebody, who was due
    before it; where nobody was, it lacks what comes later, unless it stopped in the middle of a message. Who announces
    its next message lives, whenever that was due."""
    due = state.due_ns.copy()
    announced = has_announced(state)
    starved = is_starved(state, rules) | announced  # who announces sends its next message, and nobody takes it
    if np.isfinite(due[~starved]).any():
        first = int(np.nanargmin(np.where(starved, np.nan, due)))
        rested = state.pause_ns >= rules.endings.in_flow * period
        nobody_before = rested & ~announced & (due < due[first] - _same_time_ns(state, first, period, rules))
        due[starved & ~nobody_before] = np.nan
    heard = heard_again(state, rules)
    noticed = _noticed_something(state, rules).any() and heard.mean() >= rules.endings.heard_members
    if noticed and np.isfinite(state.due_ns[~heard]).any():  # nobody supplies a dead one: it may lack something, too
        due = np.where(heard, np.nan, state.due_ns)
    elif np.isfinite(due[~heard]).any():
        due[heard] = np.nan
    return due


def silent_as_never_before(job: Job, last_ns: int, since_ns: int = 0) -> Float64:
    """By how many nanoseconds each member has been silent, when the last message of the training ended at `last_ns`,
    for longer than ever since `since_ns`, when the set-up was done; -inf for those that never sent a second one."""
    transfers = job.transfers
    seen = (transfers.start_ns <= last_ns) & (transfers.start_ns >= since_ns)
    rows = np.flatnonzero(training_messages(job) & seen)
    member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
    order = np.lexsort((transfers.start_ns[rows], member))
    member, start, end = member[order], transfers.start_ns[rows][order], transfers.end_ns[rows][order]
    longest, latest = np.zeros(len(job.members)), np.zeros(len(job.members))
    np.maximum.at(longest, member[1:], np.where(np.diff(member) == 0, start[1:] - end[:-1], 0))
    np.maximum.at(latest, member, end)
    return np.where(longest > 0.0, last_ns - latest - longest, -np.inf)


def silent_first(state: LastState, silent: Float64, period: float, rules: FaultRules) -> int:
    """Where bytes do not tell when it was due: the member that has been silent for longer than ever, and clearly more
    so than anybody else (`silent_as_never_before`), since those that wait for it fell silent after it. -1 where there
    is none, or where it is heard again and others are not."""
    rule, first = rules.endings, int(np.argmax(silent))
    heard = heard_again(state, rules)
    if (state.exact and np.isfinite(state.due_ns[first])) or (heard[first] and not heard.all()):
        return -1
    lead = silent[first] - np.delete(silent, first).max(initial=0.0)
    return first if silent[first] >= rule.in_vain * period and lead >= rule.silent_ahead * period else -1
