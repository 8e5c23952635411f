"""Silences that a member ends by itself: it sends nothing, and then sends without having been asked to.

A member that sends nothing for a while either waits or computes. One that waits is *answered*: it goes on as soon as it
is sent something, or, where its receiver did not take what it had to send, as soon as that receiver goes on itself. One
that computes goes on when it is ready. So of all members that stand still together in a long step, the one whose
silences nobody ended was waited for.

What a member is *sent* meanwhile does not matter, unlike for `own_pauses`: transports push a piece or two to a rank
that computes, and probe it while it does not take more. Only what comes between the stages of a pipeline is what the
next computation needs, and begins it.

A GPU that computes longer has as many silences as ever, and longer ones; a hop that lets pieces pass slowly makes many
short ones in the middle of messages (`made_up_of`).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.kernel import kernel
from llmprism.model.layout import PairKind
from llmprism.stats.integer_order import grouped_order

__all__ = ["OwnGaps", "made_up_of", "own_gaps"]


@dataclass(frozen=True, slots=True)
class OwnGaps:
    """One entry per silence, by member and time: whose (row of the job's members), in which step it ends, how long it
    lasts within that step, and whether its member ended it by itself."""

    member: Int64
    step: Int64
    length_ns: Float64
    own: Bool

    def of_members(self, members: int, steps: int) -> Float64:
        """Members x steps: the time of all own silences."""
        sums: Float64 = np.zeros((members, steps))
        np.add.at(sums, (self.member[self.own], self.step[self.own]), self.length_ns[self.own])
        return sums

    def of_one(self, member: int, step: int) -> tuple[Float64, Float64]:
        """Lengths of a member's silences in one step: its own ones, and all."""
        here = (self.member == member) & (self.step == step)
        return self.length_ns[here & self.own], self.length_ns[here]

    def grown(self, members: int, slower: Bool, usual: Bool) -> Float64:
        """What each member's own silences grew by, from the `usual` to the `slower` steps, for each of these."""
        silent = self.of_members(members, slower.size)
        return np.asarray(silent[:, slower].mean(axis=1) - np.median(silent[:, usual], axis=1))

    def times_as_many(self, member: int, slower: Bool, usual: Bool, share: float, most: int) -> float:
        """How many times as many own silences, as make up a share of their time, the member has as in usual steps (own
        or not); looked at are so many steps of either sort at most."""
        now = [made_up_of(self.of_one(member, step)[0], share) for step in np.flatnonzero(slower)[:most].tolist()]
        before = [made_up_of(self.of_one(member, step)[1], share) for step in np.flatnonzero(usual)[:most].tolist()]
        return max(float(np.median(now)), 1.0) / max(float(np.median(before)), 1.0)


def made_up_of(length_ns: Float64, share: float) -> int:
    """How many of these silences, the longest first, make up such a share of their time."""
    if not length_ns.size:
        return 0
    return int(np.searchsorted(np.cumsum(np.sort(length_ns)[::-1]), share * length_ns.sum())) + 1


def own_gaps(evidence: JobEvidence, rules: FaultRules = RULES) -> OwnGaps:
    """The silences of all members that end in a step."""
    rule, steps = rules.members, evidence.timeline.steps
    member, since, until, got, to = _silences(evidence)
    waited = np.maximum(until - since, 1)
    reach = np.minimum(np.maximum(rule.answered_ns, rule.answered_share * waited), 0.5 * waited)
    own = got[0] <= until - reach
    begin = np.maximum(since, got[1])
    step = steps.at(until).astype(np.int64)
    inside = (step >= 0) & (begin < until)
    member, begin, until, to, own, step = (values[inside] for values in (member, begin, until, to, own, step))
    begin = np.maximum(begin, steps.start_ns[step])
    reach = np.maximum(rule.answered_ns, rule.answered_share * (until - begin))
    first = np.searchsorted(member, np.arange(len(evidence.job.members) + 1))
    keeper = _kept_by_receiver(member, begin, until, to, own, reach, first)
    return OwnGaps(member, step, (until - begin).astype(np.float64), own & ~_leads_to_one(keeper))


def _silences(evidence: JobEvidence) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Of each silence, by member and time: whose, from when, until when, up to when its member was sent (anything, and
    what it must have before it goes on), and to whom it sends then."""
    transfers, members = evidence.job.transfers, np.array(evidence.job.members)
    rows = np.flatnonzero(training_messages(evidence.job))
    pair = transfers.pair_of_row[rows].astype(np.int64)
    source, target = (
        np.searchsorted(members, ends[pair]).astype(np.int64) for ends in (transfers.pair_src, transfers.pair_dst)
    )
    start, end = (np.tile(values[rows], 2) for values in (transfers.start_ns, transfers.end_ns))
    whose, other = np.concatenate([source, target]), np.concatenate([target, source])
    piped = np.tile(evidence.pair_kind[pair] == PairKind.PP, 2)
    sends = np.repeat(np.array([True, False]), rows.size)
    order = grouped_order(whose, start)  # of the same moment what is sent comes first: nobody answers in no time
    return _between_sends(whose[order], start[order], end[order], sends[order], piped[order], other[order])


@kernel
def _between_sends(
    member: Int64, start: Int64, end: Int64, sends: Bool, piped: Bool, other: Int64
) -> tuple[Int64, Int64, Int64, Int64, Int64]:
    """Of rows sorted by member and start: see `_silences`."""
    whose, to = np.empty(member.size, dtype=np.int64), np.empty(member.size, dtype=np.int64)
    since, until = np.empty(member.size, dtype=np.int64), np.empty(member.size, dtype=np.int64)
    got = np.empty((2, member.size), dtype=np.int64)
    count, sent, heard, handed = 0, -1, 0, 0
    for row in range(member.size):
        if row == 0 or member[row] != member[row - 1]:
            sent, heard, handed = -1, 0, 0
        if not sends[row]:
            heard = max(heard, end[row])
            if piped[row]:
                handed = max(handed, end[row])
            continue
        if 0 <= sent < start[row]:
            whose[count], since[count], until[count], to[count] = member[row], sent, start[row], other[row]
            got[0, count], got[1, count] = heard, heard if piped[row] else handed
            count += 1
        sent = max(sent, end[row])
    return whose[:count], since[:count], until[:count], got[:, :count], to[:count]


def _leads_to_one(keeper: Int64) -> Bool:
    """Which silences were ended by one that nobody ended, directly or through others; where all of a ring go on in the
    same moment, each one's receiver does, and nobody was kept."""
    last = np.where(keeper >= 0, keeper, np.arange(keeper.size))
    for _ in range(int(keeper.size).bit_length()):
        last = last[last]
    return (keeper >= 0) & (keeper[last] < 0)


@kernel
def _kept_by_receiver(
    member: Int64, begin: Int64, until: Int64, to: Int64, own: Bool, reach: Float64, first: Int64
) -> Int64:
    """For each own silence that of the receiver which ended shortly before it, and lasted for most of it: what was to
    be sent was not taken until then; -1 where there is none. The silences of member `i` are those from `first[i]` to
    before `first[i + 1]`."""
    keeper = np.full(member.size, -1, dtype=np.int64)
    for gap in range(member.size):
        if not own[gap]:
            continue
        low, high = first[to[gap]], first[to[gap] + 1]
        place = low + np.searchsorted(until[low:high], until[gap], side="right") - 1
        while place >= low and until[place] >= until[gap] - reach[gap]:
            both = until[place] - max(begin[gap], begin[place])
            if own[place] and 2 * both >= until[gap] - begin[gap]:
                keeper[gap] = place
                break
            place -= 1
    return keeper
