"""How the members of a job stand when its traffic stops, against the same point of the steps before.

Per member: how long it usually pauses where it now stands, so when its next message was *due*; and whether it had been
sent what it usually has when it goes on (`lag`, in steps: negative where something is missing, so it waits for
somebody). Whoever is waited for was due before those that wait, because they cannot be due earlier than what they wait
for. Of the whole job: how long it usually rests at this point. None of this depends on where the clock of the job cuts
its steps, only on the bytes of a step.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from llmprism.arrays import Bool, Float64, Int32, Int64, evenly_spread, median
from llmprism.diagnose.byte_curves import ByteCurve, curves_of, training_messages
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.stand_together import Standing, how_far_apart, position, stand_together
from llmprism.diagnose.usual_rest import WholeJob, bytes_per_step, same_point
from llmprism.diagnose.words import come_with_messages
from llmprism.model.flows import TransferTable
from llmprism.model.job import Job
from llmprism.stats.integer_order import stable_order
from llmprism.stats.robust import known_mad, known_max, known_median

__all__ = ["LastState", "last_state"]


@dataclass(frozen=True, slots=True)
class LastState:
    """Arrays follow the job's members; NaN where nothing is known.

    Where bytes per step vary the pause of every member is the longest of each of its steps: later than the true one,
    but by as much for those that do the same. Members are compared by one clock, so this holds for all or for none.

    `sent_ns` is the end of a member's last message, `pause_ns` how long it usually pauses there, `spread_ns` how much
    that varies, `longest_ns` the longest that it paused there. `heard_ns` and `addressed_ns` are the last times that
    anything, be it a control message, was sent by it and to it (0: never). `rest_ns` is the usual silence of the whole
    job at this point, `most_rest_ns` the longest that it ever was (checkpoints come every few steps),
    `longest_rest_ns` the longest that a step usually has. `took_ns` is how long ago, at the last message, the whole job
    was at the same point of the step before: a job at its usual pace needs one step for that. `as_usual` marks members
    that say no more after their last message than at this point of other steps, so that they have not noticed anything;
    `announced` those that say one thing more when their next message is due: over gloo a rank announces its message,
    and if nobody takes it the announcement is all that is seen of it. `supplier` is the row of the member that sent
    each one the last message of the training that it got (-1: none). `by_chance` is the share of the members that are
    heard by small messages in any time as long as that from the last message to the last word of anybody (NaN: there
    was no such time before); `talks`: the transport talks with every message, so that what each one says tells;
    `words`: members say something besides the messages of the training at all. `supplied_ns` is the last time that each
    member was sent a message of the training. `rests` is how many silences of the whole job a step has that are half as
    long as the one here, or longer, `alike` how many up to twice as long.
    `rested_ns` is how long the whole job has rested at this point before its last message, which then was too
    small for bytes to tell. `lossy`: the collector loses records, since some steps of members have too few bytes.
    `after_whole_steps`: by bytes the clock saw a step end just before; `begun_anew`: it saw one end long before, and
    little was sent since. `together`: all members that send as much in
    a step stand at the same point of it (`stand_together`), `apart` by how many messages they are not, `usually_apart`
    by how many while messages flow.
    """

    last_ns: int
    sent_ns: Float64
    pause_ns: Float64
    spread_ns: Float64
    longest_ns: Float64
    lag: Float64
    lag_spread: Float64
    heard_ns: Int64
    addressed_ns: Int64
    rest_ns: float
    most_rest_ns: float
    longest_rest_ns: float
    exact: bool
    took_ns: float = float("nan")
    as_usual: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    announced: Bool = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    supplier: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    by_chance: float = float("nan")
    talks: bool = False
    words: bool = True
    supplied_ns: Int64 = field(default_factory=lambda: np.zeros(0, dtype=np.int64))
    rested_ns: float = 0.0
    lossy: bool = False
    after_whole_steps: bool = False
    begun_anew: bool = False
    together: bool = False
    rests: float = 0.0
    alike: float = 0.0
    apart: float = float("nan")
    usually_apart: float = float("nan")

    @property
    def due_ns(self) -> Float64:
        """When each member's next message was due."""
        return self.sent_ns + self.pause_ns

    def silent_at_once(self, rules: FaultRules = RULES) -> bool:
        """Is nobody heard any more, by any message, after the last one of the training?"""
        return not bool((self.heard_ns > self.last_ns + rules.endings.heard_ns).any())


def last_state(
    job: Job, whole: WholeJob, heard_until_ns: int, period_ns: float, rules: FaultRules = RULES
) -> LastState:
    """How things stand after the messages of `whole`; later ones are not looked at, but control messages up to
    `heard_until_ns`."""
    transfers, rows, ends = job.transfers, whole.rows, whole.ends
    small = _Announced(job, whole.since_ns, heard_until_ns, rules.endings.control_per_step * rules.endings.steps_back)
    back = np.arange(1, rules.endings.steps_back + 1, dtype=np.float64)
    at = _members_at_the_point(job, rows, ends, back, small, rules)
    usual, last = known_median(at.pause, axis=1), at.last
    lossy = bool(np.nanmax(at.short, initial=0.0) > 0.0)
    if lossy:  # maybe one of the last step: not to tell
        last = np.where(usual < rules.endings.in_flow * period_ns, np.nan, last)
    talk = np.flatnonzero(rows | (~training_messages(job) & (transfers.end_ns <= heard_until_ns)))
    heard, last_ns = _last_of(job, talk, transfers.pair_src), int(transfers.end_ns[rows].max())
    apart, usually_apart = how_far_apart(at.standing, rules, lossy=lossy)
    longest_rest, rests, longer = _rests(transfers, rows, ends, (0.5 * whole.rest_ns, 2.0 * whole.rest_ns))
    return LastState(
        last_ns=last_ns,
        sent_ns=last,
        pause_ns=usual,
        spread_ns=known_mad(at.pause),
        longest_ns=known_max(at.pause, axis=1),
        lag=known_median(at.lag, axis=1),
        lag_spread=known_mad(at.lag),
        heard_ns=heard,
        addressed_ns=_last_of(job, talk, transfers.pair_dst),
        rest_ns=whole.rest_ns,
        most_rest_ns=whole.most_rest_ns,
        longest_rest_ns=longest_rest,
        rests=rests,
        alike=rests - longer,
        took_ns=float(last_ns - whole.begin_ns[0]),
        exact=bool(np.nanmedian(at.spread) <= rules.endings.exact) if np.isfinite(at.spread).any() else False,
        as_usual=at.as_usual,
        announced=at.announced,
        supplier=_last_supplier(job, np.flatnonzero(rows)),
        by_chance=_usually_heard(job, last_ns, int(heard.max()) - last_ns, rules),
        talks=small.talks and come_with_messages(job, whole.since_ns, last_ns, rules),
        words=small.any,
        lossy=lossy,
        supplied_ns=_last_of(job, np.flatnonzero(rows), transfers.pair_dst),
        rested_ns=whole.rested_ns,
        after_whole_steps=whole.after_whole_steps(rules),
        begun_anew=whole.begun_anew(rules),
        together=stand_together(apart, usually_apart, rules),
        apart=apart,
        usually_apart=usually_apart,
    )


@dataclass(frozen=True, slots=True)
class _AtThePoint:
    """Members (x steps back): the last message of each, how long it paused and what it had received where it stands
    now, in earlier steps; how exactly that point is known, and the share of steps with too few bytes. `standing`: where
    they stand in their step."""

    last: Float64
    pause: Float64
    lag: Float64
    spread: Float64
    short: Float64
    as_usual: Bool
    announced: Bool
    standing: Standing


def _members_at_the_point(
    job: Job, rows: Bool, ends: Float64, back: Float64, small: _Announced, rules: FaultRules
) -> _AtThePoint:
    transfers, count = job.transfers, len(job.members)
    sent, got = (curves_of(job, rows, end, rules) for end in (transfers.pair_src, transfers.pair_dst))
    pause, lag, longest = (np.full((count, back.size), np.nan) for _ in range(3))
    last, spread, short, stands, each = (np.full(count, np.nan) for _ in range(5))
    flowing = _while_messages_flow(transfers, rows, rules.endings.moments)
    before = np.full((count, flowing.size), np.nan)
    half_message = _half_messages(job, rows)
    as_usual, announced = (np.zeros(count, dtype=np.bool_) for _ in range(2))
    for member, (out, into) in enumerate(zip(sent, got, strict=True)):
        if out is None:
            continue
        last[member] = out.when_ns[-1]
        each[member], spread[member] = per_step = bytes_per_step(out, ends)
        stands[member] = position(out, ends, each[member])
        before[member] = stands[member] - (out.total - out.at(flowing)) / max(each[member], 1.0)
        begin, went_on = same_point(out, per_step, back, rules, half_message[member])
        pause[member] = went_on - begin
        if spread[member] <= rules.endings.exact:
            got_ns = int(into.when_ns[-1]) if into is not None else 0
            said = small.after(member, int(last[member]), got_ns, begin, went_on, rules)
            as_usual[member], announced[member] = said <= 0, said == 0
        short[member] = _short_steps(out, ends, rules)
        longest[member, : ends.size - 1] = out.longest_pauses(ends)
        if into is not None:
            received, _ = bytes_per_step(into, ends)
            lag[member] = (into.total - back * received - into.at(went_on)) / max(received, 1.0)
    if not np.nanmedian(spread) <= rules.endings.exact:
        pause = longest
    standing = Standing(stands, each, half_message / np.maximum(each, 1.0), before)
    return _AtThePoint(last, pause, lag, spread, short, as_usual, announced, standing)


def _while_messages_flow(transfers: TransferTable, rows: Bool, most: int) -> Float64:
    """The middle of some messages, spread over all."""
    index = np.flatnonzero(rows)
    index = index[stable_order(transfers.start_ns[index])][evenly_spread(index.size, most + 2)[1:-1]]
    return np.asarray((transfers.start_ns[index] + (transfers.end_ns[index] - transfers.start_ns[index]) // 2) * 1.0)


def _usually_heard(job: Job, last_ns: int, length_ns: int, rules: FaultRules = RULES) -> float:
    """Share of the members that are heard by small messages in times of this length before `last_ns`; NaN where half of
    the wanted ones lie before the first message."""
    transfers, length = job.transfers, max(length_ns, 1)
    since = last_ns - rules.endings.stretches * length
    if transfers.start_ns.min() > last_ns - rules.endings.stretches * length // 2:
        return float("nan")
    rows = np.flatnonzero(~training_messages(job) & (transfers.start_ns > since) & (transfers.start_ns <= last_ns))
    member = transfers.pair_src[transfers.pair_of_row[rows]].astype(np.int64)
    stretch = (transfers.start_ns[rows] - since) // length
    seen = min(rules.endings.stretches, (last_ns - int(transfers.start_ns.min())) // length)
    heard = np.unique(member * (rules.endings.stretches + 1) + stretch).size
    return min(float(heard / (seen * len(job.members))), 1.0)


def _half_messages(job: Job, rows: Bool) -> Float64:
    """Half of the median message that each member sends, in bytes; infinite for those that send none."""
    index = np.flatnonzero(rows)
    member = np.searchsorted(np.array(job.members), job.transfers.pair_src[job.transfers.pair_of_row[index]])
    size = job.transfers.bytes[index]
    order = np.lexsort((size, member))
    bounds = np.searchsorted(member[order], np.arange(len(job.members) + 1))
    middle = np.minimum((bounds[:-1] + bounds[1:]) // 2, max(order.size - 1, 0))
    return np.where(np.diff(bounds) > 0, 0.5 * size[order][middle], np.inf)


def _last_supplier(job: Job, rows: Int64) -> Int64:
    """See `LastState`; of messages that end at the same time any."""
    transfers, members = job.transfers, np.array(job.members)
    order = rows[stable_order(transfers.end_ns[rows])]
    sender, receiver = (
        np.searchsorted(members, ends[transfers.pair_of_row[order]])
        for ends in (transfers.pair_src, transfers.pair_dst)
    )
    last = np.full(members.size, -1, dtype=np.int64)
    last[receiver] = sender  # the latest is written last
    return last


class _Announced:
    """Small messages of the members of a job, by sender. `least` are those of a member from which its transport talks
    with every message, so that a single one may be an announcement."""

    def __init__(self, job: Job, since_ns: float, until_ns: int, least: float) -> None:
        transfers, self._least = job.transfers, least
        rows = np.flatnonzero(
            ~training_messages(job) & (transfers.start_ns >= since_ns) & (transfers.end_ns <= until_ns)
        )
        member = np.searchsorted(np.array(job.members), transfers.pair_src[transfers.pair_of_row[rows]])
        order = np.lexsort((transfers.start_ns[rows], member))
        self._when = transfers.start_ns[rows][order]
        self._offsets = np.searchsorted(member[order], np.arange(len(job.members) + 1))
        self.talks, self.any = bool(rows.size >= least * len(job.members)), bool(rows.size)

    def after(self, member: int, last_ns: int, got_ns: int, begin: Float64, went_on: Float64, rules: FaultRules) -> int:
        """What it says after its last message of the training, at `last_ns`, against its pauses (from `begin` until it
        `went_on`) at the same point of other steps: -1 no more than there, 0 its next message and no more, 1 more; 1
        where it says nothing. Its next message is due when it usually is, or, if that is later, when it has got what it
        passes on, at `got_ns`."""
        rule = rules.endings
        when = self._when[self._offsets[member] : self._offsets[member + 1]]
        now = when[when > last_ns]
        known = np.isfinite(begin) & np.isfinite(went_on)
        if not now.size or not known.any():
            return 1
        if last_ns < got_ns <= now[-1] <= got_ns + rule.heard_ns and when.size >= self._least:
            return 0
        begin, went_on, heard = begin[known], went_on[known], float(now[-1] - last_ns)
        until = np.minimum(begin + rule.as_early * heard + rule.heard_ns, went_on + rule.heard_ns)
        usual = np.median(np.searchsorted(when, until, side="right") - np.searchsorted(when, begin, side="right"))
        shortest, longest = (went_on - begin).min(), (went_on - begin).max()
        if heard > rule.as_early * longest + rule.heard_ns:
            return 1
        due = shortest / rule.announced - rule.heard_ns <= heard <= rule.announced * longest + rule.heard_ns
        if due and usual <= now.size <= usual + 1 and when.size >= self._least:
            return 0
        return -1 if now.size <= usual else 1


def _short_steps(curve: ByteCurve, ends: Float64, rules: FaultRules) -> float:
    """Share of the steps in which bytes are missing. Not of the last one: who stops, or waits for one that has, lacks
    them, and no record was lost. Nor where the step before or after has them: the clock cut the two elsewhere."""
    each = np.diff(curve.at(ends))[:-1]
    if not each.size:
        return 0.0
    share = each / max(float(median(each)), 1.0)
    missing = rules.endings.missing
    padded = np.concatenate([[1.0], share, [1.0]])
    with_another = np.maximum(padded[:-2], padded[2:]) + share
    return float(((share < 1.0 - missing) & (with_another < 2.0 - missing)).mean())


def _rests(
    transfers: TransferTable, rows: Bool, ends: Float64, least_ns: tuple[float, float]
) -> tuple[float, float, float]:
    """The longest silence of the whole job that a step usually has, and how many of each of `least_ns` and more it has;
    steps may begin anywhere."""
    start, end = transfers.start_ns[rows], transfers.end_ns[rows]
    order = stable_order(start)
    begin, horizon = start[order], np.maximum.accumulate(end[order])
    silence, where = np.maximum(begin[1:] - horizon[:-1], 0), horizon[:-1]
    step = np.searchsorted(ends, where, side="left")
    longest = np.zeros(ends.size + 1)
    np.maximum.at(longest, step, silence)
    inner = slice(1, -1) if ends.size > 2 else slice(None)
    some, more = (
        float(median(np.bincount(step[(silence > 0) & (silence >= least)], minlength=ends.size + 1)[inner] * 1.0))
        for least in least_ns
    )
    return float(median(longest[1:-1])) if ends.size > 2 else float(longest.max()), some, more


def _last_of(job: Job, rows: Int64, end_of_pair: Int32) -> Int64:
    """When each member last sent (or was sent) one of these messages."""
    transfers = job.transfers
    last = np.zeros(len(transfers.addresses), dtype=np.int64)
    np.maximum.at(last, end_of_pair[transfers.pair_of_row[rows]], transfers.end_ns[rows])
    return np.asarray(last[np.array(job.members)])
