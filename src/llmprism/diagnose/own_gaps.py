"""Silences that a member ends by itself: it sends nothing, and then sends without having been asked to.

A member that sends nothing for a while either waits or computes. One that waits is *answered*: it goes on as soon as it
is sent something, or, where its receiver did not take what it had to send, as soon as that receiver goes on itself. One
that computes goes on when it is ready. So of all members that stand still together in a long step, the one whose
silences nobody ended was waited for.

What a member is *sent* meanwhile does not matter, unlike for `own_pauses`: transports push a piece or two to a rank
that computes, and probe it while it does not take more. Only what comes between the stages of a pipeline is what the
next computation needs, and begins it.

*What one moment releases is stamped in any order.* When a member goes on that others waited for, the one before it in a
ring sends it the rest of the message whose head it had pushed, perhaps a little before its own message is stamped. That
is no answer: who waits gets nothing between the end of one exchange and what it waits for. Nor does the one before it
go on by itself: it is kept by a receiver that goes on a little later, unless that was sent its own message. A message
that is still on its way when its receiver goes on did not make it do so, if another one had just arrived.

A GPU that computes longer has as many silences as ever, and longer ones; a hop that lets pieces pass slowly makes many
short ones in the middle of messages (`made_up_of`).
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Final
from weakref import ref

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.layout import PairKind
from llmprism.model.timeline import Steps
from llmprism.stats.integer_order import grouped_order

__all__ = ["OwnGaps", "grown_by", "made_up_of", "own_gaps"]


@dataclass(frozen=True, slots=True)
class OwnGaps:
    """One entry per silence, by member and time: whose (row of the job's members), in which step it ends, how long it
    lasts, whether its member ended it by itself, and whether by a message to another stage of its pipeline."""

    member: Int64
    step: Int64
    length_ns: Float64
    own: Bool
    piped: Bool

    def of_members(self, members: int, steps: int, *, piped: bool | None = None) -> Float64:
        """Members x steps: the time of all own silences, or of those that a pipeline's message ends, or does not."""
        sums: Float64 = np.zeros((members, steps))
        own = self.own if piped is None else self.own & (self.piped == piped)
        np.add.at(sums, (self.member[own], self.step[own]), self.length_ns[own])
        return sums

    def of_one(self, member: int, step: int) -> tuple[Float64, Float64]:
        """Lengths of a member's silences in one step: its own ones, and all."""
        here = (self.member == member) & (self.step == step)
        return self.length_ns[here & self.own], self.length_ns[here]

    def grown(self, members: int, slower: Bool, usual: Bool) -> Float64:
        """What each member's own silences grew by, from the `usual` to the `slower` steps, for each of these."""
        return grown_by(self.of_members(members, slower.size), slower, usual)

    def times_as_many(self, member: int, slower: Bool, usual: Bool, share: float, most: int) -> float:
        """How many times as many own silences, as make up a share of their time, the member has as in usual steps (own
        or not); looked at are so many steps of either sort at most."""
        now = [made_up_of(self.of_one(member, step)[0], share) for step in np.flatnonzero(slower)[:most].tolist()]
        before = [made_up_of(self.of_one(member, step)[1], share) for step in np.flatnonzero(usual)[:most].tolist()]
        return max(float(np.median(now)), 1.0) / max(float(np.median(before)), 1.0)


def grown_by(silent: Float64, slower: Bool, usual: Bool) -> Float64:
    """What silences (members x steps) grew by, from the median of the `usual` to the mean of the `slower` steps: a
    slow GPU need not be slow in all of these."""
    return np.asarray(silent[:, slower].mean(axis=1) - np.median(silent[:, usual], axis=1))


def made_up_of(length_ns: Float64, share: float) -> int:
    """How many of these silences, the longest first, make up such a share of their time."""
    if not length_ns.size:
        return 0
    return int(np.searchsorted(np.cumsum(np.sort(length_ns)[::-1]), share * length_ns.sum())) + 1


@dataclass(frozen=True, slots=True)
class _Sends:
    """Messages before which their member (a row of the job's members) sent nothing for a while, or nothing of their
    `kind`, by member and time: when it last sent anything (`since`) or anything `alike`, -1 where it never did; when it
    sends `until` then, and to whom; when it was last sent anything (`heard`), and what it must have (`needed`). `fresh`
    is `heard` without the rests of messages whose heads came while it was silent, the first of which began at `rest`
    (-1: none), and `by` whom that was sent (of what has just arrived and what is still on its way, the former)."""

    member: Int64
    kind: Int64
    to: Int64
    since: Int64
    alike: Int64
    until: Int64
    heard: Int64
    needed: Int64
    fresh: Int64
    rest: Int64
    by: Int64


class _LastGaps(threading.local):
    """What was asked last in this thread, and the answer."""

    evidence: ref[JobEvidence] | None = None
    rules: FaultRules | None = None
    gaps: OwnGaps | None = None


_last: Final = _LastGaps()


def own_gaps(evidence: JobEvidence, rules: FaultRules = RULES) -> OwnGaps:
    """The silences of all members that end in a step. One may begin in the step before: clocks put the ends of steps
    into silences. What lies between two steps does not count. Several ask for the same, one after the other: the last
    answer is kept."""
    known = None if _last.evidence is None else _last.evidence()
    if known is not evidence or _last.rules is not rules or _last.gaps is None:
        _last.gaps = _own_gaps(evidence, rules)
        _last.evidence, _last.rules = ref(evidence), rules
    return _last.gaps


def _own_gaps(evidence: JobEvidence, rules: FaultRules) -> OwnGaps:
    rule, steps = rules.members, evidence.timeline.steps
    sends = _silences(evidence, rules)
    step = steps.at(sends.until).astype(np.int64)
    since = np.maximum(sends.since, 0)
    waited = np.maximum(sends.until - since, 1)
    reach = np.minimum(np.maximum(rule.answered_ns, rule.answered_share * waited), 0.5 * waited)
    earliest = steps.start_ns[np.maximum(step - 1, 0)]
    begin = np.maximum(np.maximum(since, sends.needed), earliest)
    silent = (sends.since >= 0) & (step >= 0) & (begin < sends.until)
    heard = np.where(sends.rest >= sends.until - reach, sends.fresh, sends.heard)
    own = silent & (heard <= sends.until - reach)
    reach = np.maximum(rule.answered_ns, rule.answered_share * (sends.until - begin))
    piped = sends.kind == PairKind.PP
    alike = np.where(piped, begin, np.maximum(sends.alike, earliest))
    own &= ~(
        _kept(sends, alike, own, reach)
        | _not_awaited(sends.member, sends.kind, sends.to, alike, sends.until, own & ~piped)
    )
    length = sends.until - begin - _between_steps(steps, step, begin)
    return OwnGaps(sends.member[silent], step[silent], length[silent].astype(np.float64), own[silent], piped[silent])


def _between_steps(steps: Steps, step: Int64, begin: Int64) -> Int64:
    """How much of the time from `begin` on lies between the step and the one before."""
    before = np.maximum(step - 1, 0)
    rest = steps.start_ns[step] - np.maximum(steps.end_ns[before], begin)
    return np.where(step > 0, np.maximum(rest, 0), np.maximum(steps.start_ns[step] - begin, 0))


def _silences(evidence: JobEvidence, rules: FaultRules) -> _Sends:
    transfers, members = evidence.job.transfers, np.array(evidence.job.members)
    rows = np.flatnonzero(training_messages(evidence.job))
    pair = transfers.pair_of_row[rows].astype(np.int64)
    source, target = (
        np.searchsorted(members, ends[pair]).astype(np.int64) for ends in (transfers.pair_src, transfers.pair_dst)
    )
    start, end = (np.tile(values[rows], 2) for values in (transfers.start_ns, transfers.end_ns))
    whose, other = np.concatenate([source, target]), np.concatenate([target, source])
    kind = np.tile(evidence.layout.transfer_kind[rows].astype(np.int64), 2)
    sends = np.repeat(np.array([True, False]), rows.size)
    order = grouped_order(whose, start)  # of the same moment what is sent comes first: nobody answers in no time
    whose, other, kind, start = whose[order], other[order], kind[order], start[order]
    ends = end[order], sends[order], kind, np.tile(pair, 2)[order], other
    reach = float(rules.members.answered_ns), rules.members.answered_share
    row, since, alike, got = _between_sends(whose, start, *ends, int(PairKind.PP), reach)
    heard, needed, fresh, rest, by = got
    return _Sends(whose[row], kind[row], other[row], since, alike, start[row], heard, needed, fresh, rest, by)


@kernel
def _between_sends(
    member: Int64, start: Int64, end: Int64, sends: Bool, kind: Int64, pair: Int64, other: Int64, piped: int,
    reach: tuple[float, float],
) -> tuple[Int64, Int64, Int64, Int64]:  # fmt: skip
    """Of rows sorted by member and start, those before which nothing was sent, or nothing of their kind: see `_Sends`.
    What is `piped` needs all that its member was sent before, anything else what was piped. A rest is what a pair
    brings after it brought a head in the silence, not right at its begin (`reach`: ns, share), and then nothing for
    most of it."""
    found, since = np.empty(member.size, dtype=np.int64), np.empty(member.size, dtype=np.int64)
    alike, got = np.empty(member.size, dtype=np.int64), np.empty((5, member.size), dtype=np.int64)
    of_kind = np.full(kind.max() + 1 if kind.size else 1, -1, dtype=np.int64)
    brought = np.full((3, pair.max() + 1 if pair.size else 1), -1, dtype=np.int64)
    head, done, resting = brought[0], brought[1], brought[2]
    count, sent, heard, handed, fresh, rest, by, before, before_by = 0, -1, 0, 0, 0, -1, -1, 0, -1
    for row in range(member.size):
        if row == 0 or member[row] != member[row - 1]:
            sent, heard, handed, fresh, rest, by, before, before_by = -1, 0, 0, 0, -1, -1, 0, -1
            of_kind[:] = -1
        if not sends[row]:
            one, silent = pair[row], start[row] - sent
            pushed = head[one] - sent > max(reach[0], reach[1] * silent) and 2 * (done[one] - sent) < silent
            if sent >= 0 and (resting[one] == sent or pushed):
                resting[one], rest = sent, start[row] if rest < 0 else rest
            elif end[row] >= fresh:
                if other[row] != by:
                    before, before_by = fresh, by
                fresh, by = end[row], other[row]
            head[one], done[one] = start[row], max(done[one], end[row])
            heard = max(heard, end[row])
            if kind[row] == piped:
                handed = max(handed, end[row])
            continue
        last = of_kind[kind[row]]
        if sent < start[row] or last < start[row]:
            found[count], since[count], alike[count] = row, min(sent, start[row]), last
            got[0, count], got[1, count] = heard, heard if kind[row] == piped else handed
            arrived = fresh > start[row] >= before and start[row] - before <= reach[0]
            got[2, count], got[3, count], got[4, count] = fresh, rest, before_by if arrived else by
            count += 1
        if end[row] > sent:
            sent, fresh, rest = end[row], heard, -1
        of_kind[kind[row]] = max(last, end[row])
    return found[:count], since[:count], alike[:count], got[:, :count]


def _kept(sends: _Sends, begin: Int64, own: Bool, reach: Float64) -> Bool:
    """Which own silences a receiver kept: what was to be sent was not taken until it went on, that is until it sent
    something of this kind itself, or, in a collective, was sent it by another."""
    columns = (sends.member, sends.kind, sends.to, begin, sends.until)
    by, received = np.where(own, -1, sends.by), grouped_order(sends.to, sends.until)
    by_sending = _went_on(*columns, own, by, reach, reach, sends.member, np.arange(sends.member.size))
    collective = own & (sends.kind != PairKind.PP) & (by_sending < 0)
    at_once = np.zeros_like(reach)
    by_receiving = _went_on(*columns, collective, by, reach, at_once, sends.to[received], received)
    return _leads_to_one(np.maximum(by_sending, by_receiving))


def _leads_to_one(keeper: Int64) -> Bool:
    """Which silences were ended by one that nobody ended, directly or through others; where all of a ring go on in the
    same moment, each one's receiver does, and nobody was kept."""
    last = np.where(keeper >= 0, keeper, np.arange(keeper.size))
    for _ in range(int(keeper.size).bit_length()):
        last = last[last]
    return (keeper >= 0) & (keeper[last] < 0)


@kernel
def _went_on(
    member: Int64, kind: Int64, to: Int64, begin: Int64, until: Int64, own: Bool, by: Int64, reach: Float64,
    ahead: Float64, whose: Int64, rows: Int64,
) -> Int64:  # fmt: skip
    """For each own silence the one, of the receiver, that ended shortly before it and lasted for most of it; -1 where
    there is none. `rows` are silences by the member (`whose`, ascending) that goes on when they end, and by time. One
    that was not ended `by` this member's message may end up to `ahead` later, too."""
    keeper, ends = np.full(member.size, -1, dtype=np.int64), until[rows]
    for gap in range(member.size):
        if not own[gap]:
            continue
        low, high = np.searchsorted(whose, to[gap]), np.searchsorted(whose, to[gap], side="right")
        place = low + np.searchsorted(ends[low:high], until[gap] + ahead[gap], side="right") - 1
        while place >= low and ends[place] >= until[gap] - reach[gap]:
            row = rows[place]
            both = min(until[row], until[gap]) - max(begin[gap], begin[row])
            other = kind[row] == kind[gap] and member[row] != member[gap]
            other &= until[row] <= until[gap] or by[row] != member[gap]
            if other and 2 * both >= until[gap] - begin[gap]:
                keeper[gap] = row
                break
            place -= 1
    return keeper


@kernel
def _not_awaited(member: Int64, kind: Int64, to: Int64, begin: Int64, until: Int64, own: Bool) -> Bool:
    """Which own silences nobody waited for: the receiver has sent nothing of this kind since before they began, and
    does not for as long again. It has yet to come, and the sender only pushes and probes until it does."""
    early = np.zeros(member.size, dtype=np.bool_)
    for gap in range(member.size):
        if not own[gap]:
            continue
        low, high = np.searchsorted(member, to[gap]), np.searchsorted(member, to[gap], side="right")
        place = low + np.searchsorted(until[low:high], until[gap], side="right")
        while place < high and kind[place] != kind[gap]:
            place += 1
        later = place < high and until[place] - until[gap] >= until[gap] - begin[gap]
        early[gap] = later and begin[place] <= begin[gap]
    return early
