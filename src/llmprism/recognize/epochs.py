"""Pairs that serve two jobs one after the other are cut in two.

A scheduler may give the servers of a finished job to the next one, and some pairs of NICs then talk in both. Such a
pair is cut at a silence of both of its ends if the peers of either end are not the same just before and just after it:
a job hands out its parameters over links that it never uses again, and those were not its peers any more. Servers of
files are nobody's peers: checkpoints come at any time. A job that
only pauses, or comes back after a crash, has the same peers and is not cut. A peer is new, or gone, only if it was
silent from the first record on, or up to the last one, for longer than ever in between: in the first and the last
seconds of a window not everybody has sent yet, or again.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int32, Int64
from llmprism.recognize.rules import RULES, RecognitionRules
from llmprism.recognize.segments import PairSegments

__all__ = ["reused_segments"]


def reused_segments(
    pair_src: Int32, pair_dst: Int32, segments: PairSegments, bulk: Bool, partners: Bool,
    rules: RecognitionRules = RULES,
) -> Bool:  # fmt: skip
    """For every segment whether its pair passes to another job with it; `bulk` says which pairs may, `partners` which
    of them join members of jobs."""
    cut = np.zeros(segments.row.size, dtype=np.bool_)
    pair = segments.pair_of_segment
    candidates = np.flatnonzero((segments.row > 0) & bulk[pair])
    if not candidates.size:
        return cut
    begin_ns, end_ns = _presence(segments, rules)
    candidates = candidates[_peers_may_change(pair_src, pair_dst, segments, partners, (begin_ns, end_ns), candidates)]
    if not candidates.size:
        return cut
    activity = _Activity(pair_src, pair_dst, segments, partners, (begin_ns, end_ns), rules)
    for segment in candidates:
        before, after = int(segments.message_last_ns[segment - 1]), int(segments.message_first_ns[segment])
        cut[segment] = activity.changes(int(pair[segment]), before, after)
    return cut


def _presence(segments: PairSegments, rules: RecognitionRules) -> tuple[Int64, Int64]:
    """From when to when each pair is there: for ever, where its silence at that end of the window says nothing."""
    starts, lasts = segments.offsets[:-1], segments.offsets[1:] - 1
    begin_ns, end_ns = segments.message_first_ns[starts], segments.message_last_ns[lasts]
    silence = np.full(segments.row.size, rules.job_gap_ns)
    silence[1:] = np.maximum(segments.message_first_ns[1:] - segments.message_last_ns[:-1], rules.job_gap_ns)
    silence[starts] = rules.job_gap_ns
    longest = np.maximum.reduceat(silence, starts)
    always = begin_ns - segments.first_ns.min() <= longest
    to_the_end = segments.last_ns.max() - end_ns <= longest
    never = np.iinfo(np.int64)
    return np.where(always, never.min, begin_ns), np.where(to_the_end, never.max, end_ns)


def _peers_may_change(
    pair_src: Int32, pair_dst: Int32, segments: PairSegments, partners: Bool, presence: tuple[Int64, Int64],
    chosen: Int64,
) -> Bool:  # fmt: skip
    """Has either end of the pair of each `chosen` segment some pair that ends before the segment, or begins with or
    after it?

    Where all pairs of both ends were there before and go on afterwards, which is nearly everywhere, nothing changes.
    """
    pairs = np.flatnonzero(partners)
    first, last = presence[0][pairs], presence[1][pairs]
    nodes = int(max(pair_src.max(initial=0), pair_dst.max(initial=0))) + 1
    earliest_end = np.full(nodes, np.iinfo(np.int64).max)
    latest_begin = np.full(nodes, np.iinfo(np.int64).min)
    for ends in (pair_src[pairs], pair_dst[pairs]):
        np.minimum.at(earliest_end, ends, last)
        np.maximum.at(latest_begin, ends, first)
    middle = (segments.message_last_ns[chosen - 1] + segments.message_first_ns[chosen]) // 2
    pair = segments.pair_of_segment[chosen]
    change = np.zeros(chosen.size, dtype=np.bool_)
    for ends in (pair_src[pair], pair_dst[pair]):
        change |= (earliest_end[ends] <= middle) | (latest_begin[ends] >= middle)
    return change


class _Activity:
    """When and with whom each address trains."""

    def __init__(
        self, pair_src: Int32, pair_dst: Int32, segments: PairSegments, partners: Bool, presence: tuple[Int64, Int64],
        rules: RecognitionRules,
    ) -> None:  # fmt: skip
        self.rules = rules
        self.begin_ns, self.end_ns = presence
        self.pair_src, self.pair_dst = pair_src, pair_dst
        self.segments = segments
        pairs = np.flatnonzero(partners)
        ends = np.concatenate([pair_src[pairs], pair_dst[pairs]])
        order = np.argsort(ends, kind="stable")
        self._pairs = np.tile(pairs, 2)[order]
        nodes = int(max(pair_src.max(initial=-1), pair_dst.max(initial=-1))) + 1
        self._offsets = np.searchsorted(ends[order], np.arange(nodes + 1))

    def pairs_of(self, end: int) -> list[int]:
        """The pairs that an address trains with."""
        pairs: list[int] = self._pairs[self._offsets[end] : self._offsets[end + 1]].tolist()
        return pairs

    def changes(self, pair: int, before_ns: int, after_ns: int) -> bool:
        """Are both ends of the pair silent between the two times, and does either have other peers afterwards?"""
        ends = int(self.pair_src[pair]), int(self.pair_dst[pair])
        if not all(self._silent(end, before_ns, after_ns) for end in ends):
            return False
        return any(self._other_peers(end, before_ns, after_ns) for end in ends)

    def _of(self, pair: int) -> slice:
        return slice(int(self.segments.offsets[pair]), int(self.segments.offsets[pair + 1]))

    def _silent(self, end: int, first: int, last: int) -> bool:
        """No pair of this address sends during the inner part of the time (the rest lasts at least `job_gap_ns`).

        Silences inside a segment are shorter than that, so the segments' bounds decide.
        """
        spare = max(last - first - self.rules.job_gap_ns, 0) // 2
        for pair in self.pairs_of(end):
            own = self._of(pair)
            ends = self.segments.message_last_ns[own]
            begin = int(np.searchsorted(ends, first + spare))
            if begin < ends.size and self.segments.message_first_ns[own][begin] < last - spare:
                return False
        return True

    def _other_peers(self, end: int, before_ns: int, after_ns: int) -> bool:
        """Does the address give up pairs with this silence, or take up new ones?"""
        pairs = np.array(self.pairs_of(end), dtype=np.int64)
        if not pairs.size:
            return False
        first, last = self.segments.offsets[pairs], self.segments.offsets[pairs + 1] - 1
        began, ended = self.segments.message_first_ns[first], self.segments.message_last_ns[last]
        middle, recent = (before_ns + after_ns) // 2, self.rules.recent_share
        gone = (self.end_ns[pairs] <= middle) & (ended >= before_ns - recent * (before_ns - began.min()))
        new = (self.begin_ns[pairs] >= middle) & (began <= after_ns + recent * (ended.max() - after_ns))
        return bool(gone.any() or new.any())
