"""A collective on the link of two stages that is as large as an activation: the last message of both directions.

Tied embeddings are reduced on the link of the activations where there are two stages. Where they are as large as an
activation, or the bytes of a step are too ragged, sizes do not show them (`shared_links`). But the last gradient of a
step answers its last activation, a backward pass later at least, and the first activation waits for no gradient: the
two directions of a pipeline's link neither end nor begin a step with messages at one time. A collective does. Passes
that are sent in one batch with those of the next micro-batch are at one time too, if the clock ticks among them; then
the messages before them are as well, or the link has no long rest there. Before a collective are the last activation
and its gradient, and it is next to the rest between two steps.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.link_rests import common_rests, rested_clock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.parallelism.shared_links import between_two, collective_rows
from llmprism.parallelism.two_way_bursts import bursts_in_parts, large_bursts
from llmprism.stats.robust import half_of_sum

__all__ = ["shared_rows"]


def shared_rows(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool:
    """The rows of these links, given as their two pairs, that belong to a collective of every step: by one large burst
    both ways or by the time of the last messages where these tell, else by their sizes, else by the last messages
    before each link's own rest, else by one large burst in several parts."""
    between = between_two(transfers, links)
    if not between or len(between) > rules.stages.shared_links or clock.steps < rules.stages.equal_messages:
        return collective_rows(transfers, links, clock, rules)
    rows = large_bursts(transfers, between, clock, rules)
    if rows is None:
        rows = _at_either_end(transfers, between, lambda _: clock, rules)
    if rows is not None:
        return rows
    by_size = collective_rows(transfers, links, clock, rules)
    if by_size.any() and _in_one_message(transfers, between, by_size, clock, rules):
        return by_size
    rows = _at_either_end(transfers, between, cache(lambda link: rested_clock(transfers, np.array(link), clock)), rules)
    if rows is None:
        rows = bursts_in_parts(transfers, between, clock, rules)
    return np.zeros_like(by_size) if rows is None else rows


def _in_one_message(
    transfers: TransferTable, links: list[tuple[int, int]], found: Bool, clock: StepClock, rules: LayoutRules
) -> bool:
    """Are the rows found about one message of each step? Nothing is computed within a collective, while a burst of
    passes (chunks of a model that follow each other closely, both ways) has a pause after each of its messages."""
    counts = []
    for link in (links[i] for i in evenly_spread(len(links), rules.stages.shared_probes).tolist()):
        for way in _link(transfers, link, clock, rules):
            size = np.bincount(way.number, transfers.bytes[way.rows] * found[way.rows], minlength=way.size.size)
            counts.append(float((2.0 * size > way.size).sum()) / max(clock.steps, 1))
    return float(median(counts)) <= rules.stages.collective_messages


_Clocks = Callable[[tuple[int, int]], StepClock]
"""The clock of a link."""

_MessagesOf = Callable[[tuple[int, int]], "list[_Messages]"]
"""The messages of a link, of both directions."""


def _at_either_end(
    transfers: TransferTable, links: list[tuple[int, int]], clock_of: _Clocks, rules: LayoutRules
) -> Bool | None:
    """The rows of collectives that end the steps of these clocks, or begin them; None where neither do."""
    messages_of = cache(lambda link: _link(transfers, link, clock_of(link), rules))
    found = (_outermost(transfers, links, clock_of, messages_of, rules, last=last) for last in (True, False))
    return next((rows for rows in found if rows is not None), None)


@dataclass(frozen=True, slots=True)
class _Messages:
    """The messages of a pair: when each begins and ends, its bytes, and of each step the first one (`of_step`, one more
    than there are steps). `rows` of the table and the number of the message that each is a part of."""

    begin: Int64
    end: Int64
    size: Float64
    of_step: Int64
    rows: Int64
    number: Int64

    def outermost(self, place: int, *, last: bool) -> Int64:
        """Of each step the last message or the first, or the one so many places before or after it; -1: none."""
        first, after = self.of_step[:-1], self.of_step[1:]
        found = after - 1 - place if last else first + place
        return np.where((found >= first) & (found < after), found, -1)


def _outermost(
    transfers: TransferTable, links: list[tuple[int, int]], clock_of: _Clocks, messages_of: _MessagesOf,
    rules: LayoutRules, *, last: bool,
) -> Bool | None:  # fmt: skip
    """The rows of the last (or first) messages of the steps where both directions send them at one time, and not the
    ones before (after) them; None where that is not so."""
    rule = rules.stages
    probed = evenly_spread(len(links), rule.shared_probes).tolist()
    seen = [messages_of(links[i]) for i in probed]
    regular = np.concatenate([clock_of(links[i]).regular for i in probed])
    if not regular.any():
        return None
    shares = []
    for place in (0, 1):
        found = [_together(both, [way.outermost(place, last=last) for way in both], rules) for both in seen]
        shares.append(float(np.concatenate(found)[regular].mean()))
    if shares[0] < rule.burst_steps or shares[1] > rule.before_collective:
        return None
    if not _next_to_rests(transfers, [links[i] for i in probed], seen, clock_of, rules, last=last):
        return None
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    for link in links:
        both = messages_of(link)
        chosen = [way.outermost(0, last=last) for way in both]
        same_time = _together(both, chosen, rules)
        if same_time.any():
            for way, own in zip(both, chosen, strict=True):
                _mark(result, way, own, same_time, rules)
    return result


def _next_to_rests(
    transfers: TransferTable, links: list[tuple[int, int]], seen: list[list[_Messages]], clock_of: _Clocks,
    rules: LayoutRules, *, last: bool,
) -> bool:  # fmt: skip
    """Are these messages next to a rest of both directions that is about as long as any in the step? A collective comes
    after the last pass and before the first one; where a clock ticks among the passes, its last messages do not."""
    shares = [np.zeros(0)]
    for link, both in zip(links, seen, strict=True):
        clock, chosen = clock_of(link), [way.outermost(0, last=last) for way in both]
        known = np.flatnonzero((chosen[0] >= 0) & (chosen[1] >= 0) & clock.regular)
        begin, rest = common_rests(transfers, np.array(link))
        step = clock.step_at(begin)
        longest = np.zeros(clock.regular.size)
        np.maximum.at(longest, step[step >= 0], rest[step >= 0])
        first = np.minimum(*(way.begin[at[known]] for way, at in zip(both, chosen, strict=True)))
        ended = np.maximum(*(way.end[at[known]] for way, at in zip(both, chosen, strict=True)))
        adjacent = np.concatenate([rest, [0.0]])
        before, after = adjacent[np.searchsorted(begin, first)], adjacent[np.searchsorted(begin, ended, "right")]
        shares.append(np.maximum(before, after) / np.maximum(longest[known], 1.0))
    every = np.concatenate(shares)
    return bool(every.size) and float(median(every)) >= rules.stages.rest_at_collective


def _link(transfers: TransferTable, link: tuple[int, int], clock: StepClock, rules: LayoutRules) -> list[_Messages]:
    return [_messages(transfers, pair, clock, rules) for pair in link]


def _messages(transfers: TransferTable, pair: int, clock: StepClock, rules: LayoutRules) -> _Messages:
    """Rows with short silences between them are one message: those between messages are passes, and the longest of each
    step lies between two steps."""
    rows = np.arange(transfers.pair_offsets[pair], transfers.pair_offsets[pair + 1])
    rows = rows[transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES]
    step = clock.step_at(transfers.start_ns[rows])
    rows, step = rows[step >= 0], step[step >= 0]
    ended = np.maximum.accumulate(transfers.end_ns[rows]) if rows.size else rows
    silence = np.maximum(transfers.start_ns[rows[1:]] - ended[:-1], 0).astype(np.float64)
    inside = np.diff(step) == 0
    usual = half_of_sum(np.sort(silence)[: max(silence.size - clock.steps, 1)]) if silence.size else 0.0
    begun = np.append(True, ~inside | (silence > rules.stages.message_pause * usual))[: rows.size]
    first = np.flatnonzero(begun)
    number = np.cumsum(begun) - 1
    size = np.bincount(number, transfers.bytes[rows]).astype(np.float64)
    last = np.append(first[1:], rows.size) - 1
    of_step = np.searchsorted(step[first], np.arange(clock.regular.size + 1))
    return _Messages(transfers.start_ns[rows[first]], ended[last], size, of_step, rows, number)


def _together(both: list[_Messages], chosen: list[Int64], rules: LayoutRules) -> Bool:
    """Of each step whether the two messages chosen are of one size and at one time."""
    (one, other), (i, j) = both, chosen
    known = (i >= 0) & (j >= 0)
    if not known.any():
        return known
    i, j = np.maximum(i, 0), np.maximum(j, 0)
    shared = np.minimum(one.end[i], other.end[j]) - np.maximum(one.begin[i], other.begin[j])
    shorter = np.minimum(one.end[i] - one.begin[i], other.end[j] - other.begin[j])  # one may begin before, into buffers
    apart = np.abs(one.end[i] - other.end[j])
    most = np.maximum(one.size[i], other.size[j])
    alike = np.abs(one.size[i] - other.size[j]) <= rules.stages.same_size * most
    found: Bool = known & alike & (np.minimum(shared, shorter - apart) >= rules.stages.at_one_time * shorter)
    return found


def _mark(result: Bool, way: _Messages, found: Int64, same_time: Bool, rules: LayoutRules) -> None:
    """The rows of the messages found, in the steps in which they are at one time or as large as in these."""
    usual = float(median(way.size[found[same_time]]))
    size = np.where(found >= 0, way.size[np.maximum(found, 0)], 0.0)
    kept = found[(found >= 0) & (same_time | (np.abs(size - usual) <= rules.stages.same_size * usual))]
    result[way.rows[np.isin(way.number, kept)]] = True
