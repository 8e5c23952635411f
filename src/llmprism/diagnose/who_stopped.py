"""Who stopped first, of the members of a job that broke off, by all signs together.

Nobody shows it by one sign alone. Who was *due* first has stopped, unless it is *starved* of what it needs, or stands
*in flow*, in the middle of a message that another one holds up. Who lacks the message that came *first* in the steps
before has (`missing_order`). Who is *heard* again lives, and so does who *announces* its next message. Who has been
*silent* for longer than ever, while others went on, is missed. A process that stops is no longer *involved*, neither
heard nor written to, which tells less where nobody says a word; and where the transport talks with every message (gloo)
peers go on writing to one that hangs, so that its own last *word* and the last one *to it* tell apart. Each sign is
wrong now and then: all that enter a collective are due in the same moment, a stage waits for the first batch as long as
for the last one.

So they are added up, as those of a slow GPU are (`blame`). The log odds of a member are a weighted sum of its signs,
and the chances of all members add up to one: one of them stopped. Weights are fitted to stopped jobs whose culprit is
known (`rules.WhoStoppedRules`), so a chance is a promise. The members of one place, a tensor-parallel group, stop
together inside their server, where no record is made: they count as one. Where the likeliest was not due when the
others stopped, and nobody noticed anything, all of them were stopped, and nobody is to blame.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.diagnose.first_to_stop import has_announced, heard_again, involved_ns, is_starved
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.missing_order import MissingOrder, missing_order
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.usual_rest import WholeJob
from llmprism.model.job import Job

__all__ = ["Suspects", "chances_of", "signs_of_stop", "who_stopped"]


@dataclass(frozen=True, slots=True)
class Suspects:
    """`row` is the member that most likely stopped first, `sure` the chance of all that move as one with it, and
    `likeliest` are one member of each place with the place's chance, in order. `missed`: it was due when the others
    stopped, or they noticed that somebody was gone."""

    row: int
    sure: float
    likeliest: tuple[tuple[int, float], ...]
    missed: bool
    dated: bool = True

    def culprit(self, rules: FaultRules = RULES) -> int:
        """The member to blame; -1 where it is as likely somebody else, or nobody."""
        missed = self.missed or not self.dated
        return self.row if missed and self.sure >= rules.who_stopped.named else -1


def who_stopped(
    job: Job, whole: WholeJob, state: LastState, silent_ns: Float64, period_ns: float, rules: FaultRules = RULES
) -> Suspects:
    """`silent_ns` is for how much longer than ever each member has been silent (`silent_as_never_before`)."""
    rule = rules.who_stopped
    order = missing_order(job, whole, rules)
    chance = chances_of(signs_of_stop(state, order, silent_ns, period_ns, rules), rules)
    place = _numbered(job.places, chance.size)
    together = np.bincount(place, chance)[place]
    rows = np.lexsort((-chance, -together))
    rows = rows[np.sort(np.unique(place[rows], return_index=True)[1])]
    likeliest = tuple((row, float(together[row])) for row in rows.tolist() if together[row] >= rule.least_listed)
    first = int(rows[0])
    sure, missed = min(float(together[first]), rule.never_surer), _was_missed(state, first, rules)
    return Suspects(first, sure, likeliest[: rules.endings.most_suspects], missed, state.exact)


def chances_of(signs: Float64, rules: FaultRules = RULES) -> Float64:
    """The chance of each member, whose signs are a row each (`signs_of_stop`)."""
    rule = rules.who_stopped
    weights = (
        rule.due, rule.starved, rule.in_flow, rule.first, rule.after, rule.heard, rule.announced, rule.silent,
        rule.involved, rule.wordless, rule.own_word, rule.word_to_it,
    )  # fmt: skip
    odds = signs @ np.array(weights)
    share = np.exp(odds - odds.max())
    return np.asarray(share / share.sum())


def signs_of_stop(
    state: LastState, order: MissingOrder, silent_ns: Float64, period_ns: float, rules: FaultRules = RULES
) -> Float64:
    """Members x signs, in the order of the weights of `chances_of`."""
    rule, involved = rules.who_stopped, _apart(involved_ns(state), state, period_ns, rules) * (not state.talks)
    columns = (
        _due_later(state, period_ns, rules),
        is_starved(state, rules),
        state.pause_ns < rules.endings.in_flow * period_ns,
        *_in_order(order, period_ns, rules),
        heard_again(state, rules),
        has_announced(state),
        np.clip(silent_ns / period_ns, rule.least_silent, rule.most_silent),
        involved * state.words,
        involved * (not state.words),
        _apart(state.heard_ns, state, period_ns, rules) * state.talks,
        _apart(state.addressed_ns, state, period_ns, rules) * state.talks,
    )
    return np.stack([np.asarray(column, dtype=np.float64) for column in columns], axis=1)


def _due_later(state: LastState, period_ns: float, rules: FaultRules) -> Float64:
    """By how many jitters each member was due later than the first."""
    rule, due = rules.who_stopped, state.due_ns
    first = np.nanmin(due) if np.isfinite(due).any() else np.nan
    later = np.nan_to_num((due - first) / period_ns, nan=np.inf)
    jitter = np.maximum(np.nan_to_num(state.spread_ns) / period_ns, rule.rounded)
    return np.clip(later / jitter, 0.0, rule.most_due)


def _in_order(order: MissingOrder, period_ns: float, rules: FaultRules) -> tuple[Float64, Float64]:
    """The share of the steps before in which each member's missing message was the first of all; and by how much, a
    logarithm, both what it lacks to send and what it was to be sent came after those of the first."""
    rule, (count, steps) = rules.who_stopped, order.to_send.shape
    if not steps:
        return np.zeros(count), np.zeros(count)
    first = (order.to_send <= rule.at_once * period_ns).mean(axis=1)
    both = order.to_send + order.to_get
    least = both.min(axis=0)
    after = np.median(both - np.where(np.isfinite(least), least, 0.0), axis=1) / period_ns
    return first, np.log1p(np.minimum(after, rule.most_apart) / rule.rounded)


def _apart(moment_ns: Int64 | Float64, state: LastState, period_ns: float, rules: FaultRules) -> Float64:
    """By how much later, a logarithm, each member's moment is than the first. After the last message of the job all
    clocks stop: whoever is heard then lives, and when it happens to be heard is chance."""
    rule, moment = rules.who_stopped, np.minimum(moment_ns, state.last_ns)
    later = np.clip((moment - moment.min()) / period_ns, 0.0, rule.most_apart)
    return np.asarray(np.log1p(later / rule.apart))


def _was_missed(state: LastState, row: int, rules: FaultRules) -> bool:
    """Was this member due, within its jitter, when the others stopped, or did others notice that it was gone? Else all
    stopped for a reason of their own: somebody ended the job."""
    jitter = rules.endings.sure_spreads * float(state.spread_ns[row])
    return float(state.due_ns[row]) <= state.last_ns + jitter or bool(heard_again(state, rules).any())


def _numbered(places: Sequence[str], count: int) -> Int64:
    """The number of each member's place; those of which no place is known have one of their own."""
    if not places:
        return np.arange(count)
    names, place = np.unique(np.array(places), return_inverse=True)
    unknown = np.array(places) == ""
    place[unknown] = names.size + np.arange(unknown.sum())
    return np.asarray(np.unique(place, return_inverse=True)[1].astype(np.int64))
