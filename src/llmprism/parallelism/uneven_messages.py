"""Are the two ways of single exchanges uneven, as routed tokens are?

Contexts, parameters and gradients of two members are the same both ways; tokens are not, another way in every exchange.
In the sum of a step that drowns: gradients on the same link are a thousand times as large, and what a collector
miscounts of them is more than the tokens differ by. So single exchanges are compared: what both directions of a link
send between two silences. A silence that is too short cuts an exchange in two (one end is late, the other has sent
into its buffers), so the shortest one is taken after which nearly all bursts have two ways. A silence that is too long
puts exchanges together, which takes little from what tokens differ by and as much from what counters do. What counts is
how far the ratio of the two ways is from the usual one of its link: a ring that also gathers has another ratio, but a
constant one.

A collector that samples miscounts every message by the root of the packets that it is made of. How far it does, the
activations of stages show: as many come back as were sent, one after the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable
from llmprism.parallelism.link_rests import bursts_of_pair, usual_rest
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["Bursts", "Unevenness", "both_ways", "bursts_of", "take_turns", "uneven_messages", "unevenness"]


@dataclass(frozen=True, slots=True)
class Unevenness:
    """By how much the logarithm of the ratio of the two ways is off in half of the exchanges, and at most in three of
    four. Where exchanges are mixed with something even, the second is far more than the first. `size` are the usual
    bytes of a way, the harmonic mean of both."""

    half: float
    most: float
    size: float = 0.0


@dataclass(frozen=True, slots=True)
class Bursts:
    """Bytes of each way in each burst of a link, and when it ends."""

    there: Float64
    back: Float64
    end_ns: Int64


def uneven_messages(
    transfers: TransferTable,
    exchanged: Bool,
    links: list[tuple[int, int]],
    others: list[tuple[int, int]],
    clock: StepClock,
    rules: LayoutRules = RULES,
) -> bool | None:
    """Are these links (two directions each) uneven in the rows marked? Not where half of their exchanges are even: what
    is off in the others was lost. None where exchanges cannot be told apart, or most are a little uneven and by more
    than what is miscounted of `others` that carry something even: samples of a collector and well-balanced experts look
    alike then."""
    rule = rules.exchanges
    own = unevenness(transfers, exchanged, links, rules)
    if own is None:
        return None
    usual = unevenness(transfers, np.ones_like(exchanged), others, rules)
    if usual is None and own.half > rule.uneven_tokens:
        usual = _of_messages_in_turn(transfers, others, own.size, clock, rules)
    even = 0.0 if usual is None else usual.half
    if own.half > max(rule.uneven_message, rule.uneven_links * even):
        return True
    miscounted = own.half <= rule.finer_counts * even and own.most <= rule.even_message
    return False if own.half <= rule.uneven_tokens or miscounted else None


def unevenness(
    transfers: TransferTable, exchanged: Bool, links: list[tuple[int, int]], rules: LayoutRules = RULES
) -> Unevenness | None:
    """Of the exchanges of these links, those left out that have rows not marked; None where there are too few, or most
    bursts have only one way."""
    rule = rules.exchanges
    seen = [_rows(transfers, one, other) for one, other in links[: rule.even_links]]
    for silence in rule.exchange_silences:
        ratios, sizes, complete, bursts = [np.zeros(0)], [np.zeros(0)], 0, 0
        for rows, way in seen:
            there, back = _bursts(transfers, rows, way, exchanged, silence)
            both = (there > 0) & (back > 0)
            complete, bursts = complete + int(both.sum()), bursts + both.size
            if both.any():
                ratio = np.log(there[both] / back[both])
                ratios.append(np.abs(ratio - median(ratio)))
                sizes.append(2.0 / (1.0 / there[both] + 1.0 / back[both]))
        if complete >= max(rule.two_way_bursts * bursts, rule.least_exchanges):
            off = np.concatenate(ratios)
            return Unevenness(float(median(off)), float(np.quantile(off, 0.75)), float(median(np.concatenate(sizes))))
    return None


def _of_messages_in_turn(
    transfers: TransferTable, links: list[tuple[int, int]], size: float, clock: StepClock, rules: LayoutRules
) -> Unevenness | None:
    """The same of activations and their gradients, which take turns and come back in the order in which they were sent,
    for exchanges of this size: what is counted packet by packet is off by the root of its bytes, and nothing is off by
    less in smaller messages. None where too few steps have as many messages both ways."""
    off = [np.zeros(0)]
    for link in links[: rules.exchanges.even_links]:
        there, back = (_messages(transfers, pair, clock, rules) for pair in link)
        same = (there.count == back.count) & (there.count > 0) & clock.regular
        one, other = (way.size[same[way.step]] for way in (there, back))
        if one.size:
            ratio = np.log(one / other)
            apart = np.abs(ratio - median(ratio))
            off.append(apart * np.sqrt(np.maximum(2.0 / (1.0 / one + 1.0 / other) / max(size, 1.0), 1.0)))
    every = np.concatenate(off)
    if every.size < rules.exchanges.least_exchanges:
        return None
    return Unevenness(float(median(every)), float(np.quantile(every, 0.75)))


@dataclass(frozen=True, slots=True)
class _InTurn:
    """The messages of a pair: bytes and step of each, and how many each step has."""

    size: Float64
    step: Int64
    count: Int64


def _messages(transfers: TransferTable, pair: int, clock: StepClock, rules: LayoutRules) -> _InTurn:
    """What a pair sends between two usual rests."""
    bursts = bursts_of_pair(transfers, pair, rules.stages.message_pause * usual_rest(transfers, pair, clock.steps))
    step = clock.step_at(bursts.begin)
    known = step >= 0
    return _InTurn(bursts.size[known], step[known], np.bincount(step[known], minlength=clock.regular.size))


def take_turns(transfers: TransferTable, pairs: Bool, rules: LayoutRules = RULES) -> bool:
    """Do the two directions of these pairs take turns, as activations and their gradients do? What two members reduce
    or gather they send each other at once, whatever its size, so that only a late end makes bursts of one way."""
    rule = rules.exchanges
    links = both_ways(transfers, pairs)[: rule.even_links]
    every = np.ones(transfers.start_ns.size, dtype=np.bool_)
    complete = bursts = 0
    for one, other in links:
        there, back = _bursts(transfers, *_rows(transfers, one, other), every, rule.exchange_silences[0])
        complete, bursts = complete + int(((there > 0) & (back > 0)).sum()), bursts + there.size
    return bursts >= rule.least_exchanges and complete < rule.taking_turns * bursts


def both_ways(transfers: TransferTable, pairs: Bool) -> list[tuple[int, int]]:
    """The two directions of each link of these pairs."""
    one = np.flatnonzero(pairs)
    back = transfers.pairs_between(transfers.pair_dst[one].astype(np.int64), transfers.pair_src[one].astype(np.int64))
    return [(a, b) for a, b in zip(one.tolist(), back.tolist(), strict=True) if 0 <= a < b]


def _rows(transfers: TransferTable, one: int, other: int) -> tuple[Int64, Bool]:
    """The messages of both directions by their start, and which go the other way."""
    offsets = transfers.pair_offsets
    rows = np.concatenate([np.arange(offsets[pair], offsets[pair + 1]) for pair in (one, other)])
    way = np.arange(rows.size) >= offsets[one + 1] - offsets[one]
    order = np.argsort(transfers.start_ns[rows], kind="stable")
    order = order[transfers.bytes[rows[order]] >= MESSAGE_FLOOR_BYTES]
    return rows[order], way[order]


def bursts_of(transfers: TransferTable, link: tuple[int, int], silence: float) -> Bursts:
    """All bursts of a link, apart by this share of the silence that half of the silent time is longer than."""
    rows, way = _rows(transfers, *link)
    first = _first_rows(transfers, rows, silence)
    if first is None:
        return Bursts(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
    size = transfers.bytes[rows].astype(np.float64)
    there, back = (np.add.reduceat(np.where(mine, size, 0.0), first) for mine in (~way, way))
    return Bursts(there, back, np.maximum.reduceat(transfers.end_ns[rows], first))


def _bursts(
    transfers: TransferTable, rows: Int64, way: Bool, exchanged: Bool, silence: float
) -> tuple[Float64, Float64]:
    """Bytes of each way in each burst all of whose rows are exchanged."""
    first = _first_rows(transfers, rows, silence)
    if first is None:
        return np.zeros(0), np.zeros(0)
    size = transfers.bytes[rows].astype(np.float64)
    whole = np.logical_and.reduceat(exchanged[rows], first)
    there, back = (np.add.reduceat(np.where(mine, size, 0.0), first)[whole] for mine in (~way, way))
    return there, back


def _first_rows(transfers: TransferTable, rows: Int64, silence: float) -> Int64 | None:
    """The place of the first row of each burst; bursts are apart by this share of the silence that half of the silent
    time is longer than. None where nothing is silent."""
    if rows.size < 2:
        return None
    gap = transfers.start_ns[rows[1:]] - np.maximum.accumulate(transfers.end_ns[rows])[:-1]
    silent = np.sort(gap[gap > 0])
    if not silent.size:
        return None
    total = np.cumsum(silent)
    usual = silent[np.searchsorted(total, total[-1] / 2)]
    return np.concatenate([[0], np.flatnonzero(gap > silence * usual) + 1])
