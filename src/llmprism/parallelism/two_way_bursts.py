"""A collective on the link of two stages that is larger than an activation: the one large burst both ways of each step.

Wherever the clock ticks, and whatever passes are sent at one time with those of the next micro-batch: tied embeddings
are a burst of both directions, of one size, that comes once in a step and is larger than any other such burst. Chunks
that follow each other at once make large bursts too, but of whole numbers of messages.

Without replicas the last stage has nothing to do between its last gradient and its part of the collective, so that it
sends as much as the first stage has buffers for (half, in a ring of two) right behind that gradient. What it sends
later, when the first stage is ready, is the rest: the ends agree about the bytes of both parts together.

```
 first stage  >                            c
 last stage   <   gradient + c / 2         c / 2
```
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, evenly_spread, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.link_rests import PairBursts, bursts_of_pair, overlaps, usual_rest
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["bursts_in_parts", "large_bursts"]


def large_bursts(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool | None:
    """The rows of such bursts of these links, given as their two pairs; None where most links do not show them."""
    return _found(transfers, links, clock, rules, rules.stages.message_pause, parts=False)


def bursts_in_parts(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules = RULES
) -> Bool | None:
    """The same where one end sends a part of its bytes before the other is ready, and with longer rests in a burst."""
    pauses = rules.stages.message_pause, rules.stages.collective_pause
    found = (_found(transfers, links, clock, rules, pause, parts=True) for pause in pauses)
    return next((rows for rows in found if rows is not None), None)


def _found(
    transfers: TransferTable, links: list[tuple[int, int]], clock: StepClock, rules: LayoutRules, pause: float, *,
    parts: bool,
) -> Bool | None:  # fmt: skip
    """The rows of such bursts, with or without `parts` that are sent before; in a burst nothing rests for longer than
    so many usual rests."""
    rule = rules.stages
    probes = [links[i] for i in evenly_spread(len(links), rule.shared_probes).tolist()]
    found = [_once_a_step(_both(transfers, link, clock, pause, rules), clock, rules, parts=parts) for link in probes]
    sizes = [size for size in found if size is not None]
    if not sizes or len(sizes) < rule.burst_links * len(probes):
        return None
    usual = float(median(sizes))
    result = np.zeros(transfers.start_ns.size, dtype=np.bool_)
    for link in links:
        _mark(result, transfers, _both(transfers, link, clock, pause, rules), usual, rules, parts=parts)
    return result


def _mark(
    result: Bool, transfers: TransferTable, both: tuple[_Way, _Way], usual: float, rules: LayoutRules, *, parts: bool
) -> None:
    """Marks the rows of the bursts of this size; with `parts` also those of the other end at that time, and of what it
    has sent before."""
    ways = both[0].bursts, both[1].bursts
    alike = [np.flatnonzero(np.abs(way.size - usual) <= rules.stages.same_message * usual) for way in ways]
    if not (parts and ways[0].size.size and ways[1].size.size):
        for way, like in zip(ways, alike, strict=True):
            result[way.rows[np.isin(way.number, like)]] = True
        return
    message = both[0].message
    for way, like, other, large in zip(ways, alike, ways[::-1], alike[::-1], strict=True):
        found = _collectives(other, way, message, rules)
        begun = large[found.together[large] & (found.before[large] > 0.0)]
        before = found.near[begun] - 1
        marked = np.zeros(way.size.size)  # bytes at the end of each burst that are the collective's
        marked[like] = way.size[like]
        marked[before] = found.before[begun]
        marked[found.near[begun]] = way.size[found.near[begun]]
        sent = transfers.bytes[way.rows].astype(np.float64)
        until_end = np.cumsum(way.size)[way.number] - np.cumsum(sent) + 0.5 * sent
        result[way.rows[until_end < marked[way.number]]] = True


@dataclass(frozen=True, slots=True)
class _Way:
    """What one direction sends between two rests: its bursts, and the bytes of those that rest for no longer than
    messages do, the `pieces`."""

    bursts: PairBursts
    pieces: Float64

    @property
    def message(self) -> float:
        return float(median(self.pieces))

    def message_without(self, collective: float, rules: LayoutRules) -> float | None:
        """The usual message, bursts of so many bytes left out; None where there are too few."""
        others = self.pieces[np.abs(self.pieces - collective) > rules.stages.same_message * collective]
        return float(median(others)) if others.size >= rules.stages.equal_messages else None


def _both(
    transfers: TransferTable, link: tuple[int, int], clock: StepClock, pause: float, rules: LayoutRules
) -> tuple[_Way, _Way]:
    usual = [usual_rest(transfers, pair, clock.steps) for pair in link]
    bursts = [bursts_of_pair(transfers, pair, pause * rest) for pair, rest in zip(link, usual, strict=True)]
    shortest = rules.stages.message_pause
    pieces = bursts if pause == shortest else [
        bursts_of_pair(transfers, pair, shortest * rest) for pair, rest in zip(link, usual, strict=True)
    ]  # fmt: skip
    one, other = (_Way(way, part.size) for way, part in zip(bursts, pieces, strict=True))
    return one, other


@dataclass(frozen=True, slots=True)
class _Collectives:
    """For each burst of a pair: the burst of the other direction that is `near`est, whether the two are `together` what
    a collective of two sends (at one time, and as many bytes), and how many of its bytes the other end has sent
    `before`."""

    near: Int64
    together: Bool
    before: Float64


def _collectives(one: PairBursts, other: PairBursts, message: float | None, rules: LayoutRules) -> _Collectives:
    """Who comes first sends its part at once, into the buffers of the other: right behind its last message, if nothing
    else is to be done in between. So what a burst has less than that of the other end is at the end of the burst before
    it, alone or behind one `message` (None: nothing was sent before)."""
    rule = rules.stages
    near, shared = overlaps(one, other, rules)
    lacking = one.size - other.size[near]
    alike = np.abs(lacking) <= rule.same_message * np.maximum(one.size, other.size[near])
    if message is None:
        return _Collectives(near, shared & alike, np.zeros(near.size))
    more = other.size[np.maximum(near - 1, 0)] - lacking
    begun = (np.abs(more) <= rule.same_message * lacking) | (np.abs(more - message) < 0.5 * message)
    begun &= ~alike & (lacking > 0.0) & (near > 0)
    return _Collectives(near, shared & (alike | begun), np.where(begun, lacking, 0.0))


def _once_a_step(
    both: tuple[_Way, _Way], clock: StepClock, rules: LayoutRules, *, parts: bool
) -> float | None:  # fmt: skip
    """The size of the bursts both ways that come once in a step and are larger than the others; None if there is no
    such size. With `parts` both ends are asked: either may have sent some before, which is no message then."""
    if min(way.bursts.size.size for way in both) < rules.stages.equal_messages:
        return None
    for one, other in (both, both[::-1]) if parts else (both,):
        found = _collectives(one.bursts, other.bursts, one.message if parts else None, rules)
        size = _large_size(one.bursts, found, clock, rules)
        if size is None:
            continue
        messages = [one.message] if parts else [way.message_without(size, rules) for way in both]
        none = all(usual is not None and _no_messages(size / usual, rules) for usual in messages)
        if none and (not parts or _steadier(one, found, size, rules)):
            return size
    return None


def _steadier(one: _Way, found: _Collectives, size: float, rules: LayoutRules) -> bool:
    """Do bursts of this size differ less from step to step than so many messages that followed each other would? Where
    messages are of many lengths, or sampled, any number is a whole one."""
    rule, messages = rules.stages, size / one.message
    single = one.pieces[np.abs(one.pieces - one.message) < 0.5 * one.message]
    several = _deviation(single) / math.sqrt(messages)
    large = one.bursts.size[found.together & (one.bursts.size >= (1.0 - 2.0 * rule.same_message) * size)]
    return several * messages <= rule.whole_messages or _deviation(large) < 0.5 * several


def _deviation(sizes: Float64) -> float:
    """How far half of these are from the usual one, as a share of it."""
    usual = float(median(sizes))
    return float(median(np.abs(sizes - usual))) / max(usual, 1.0)


def _large_size(one: PairBursts, found: _Collectives, clock: StepClock, rules: LayoutRules) -> float | None:
    """The size of such bursts of one direction, of those that a collective of two may be."""
    rule = rules.stages
    size, begin = one.size[found.together], one.begin[found.together]
    if size.size < rule.counted_share * clock.steps:
        return None
    usual = float(np.sort(size)[-max(clock.steps // 4, 1)])  # stalls cut that of some steps in two
    large = size >= (1.0 - 2.0 * rule.same_message) * usual
    if not rule.counted_share <= large.sum() / clock.steps <= 2.0 - rule.burst_steps or large.sum() < 2:
        return None
    even = (np.abs(size[large] - usual) <= rule.same_message * usual).mean() >= rule.burst_steps
    apart = float(median(np.diff(begin[large]))) / clock.period_ns
    return usual if even and apart >= 0.5 and abs(apart - round(apart)) <= rule.same_message else None


def _no_messages(messages: float, rules: LayoutRules) -> bool:
    """Is a burst of so many messages more than one, and no whole number of them?"""
    countable = messages * rules.stages.complete_step < rules.stages.whole_messages  # else any number is nearly whole
    whole = countable and abs(messages - round(messages)) <= rules.stages.whole_messages
    return messages >= 1.0 + rules.stages.shared_arc and not whole
