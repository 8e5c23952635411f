"""How well a clock explains a job, in bits: the currency in which rival clocks are compared.

A step repeats: each pair sends the same bytes, and pauses at the same places of them for about as long. So under a
clock each pause of a pair is predicted by the pauses at the same place of the other steps, and the price of the pause
is the logarithm of how far it is off. Every place whose usual pause has to be known is a parameter and has its price
too. What lies outside all steps is predicted by nothing and costs what it costs without a clock.

* A clock that ticks too often (layers, micro-batches) puts unlike places together: its pauses are predicted badly and
  the bytes between its ticks vary.
* A clock that ticks too seldom (checkpoints, several steps) predicts no better and pays for more places.
* A clock that ticks within a step, where ranks are not yet together, blurs the places.

Pauses are compared by their logarithms, because they vary by factors. Bytes that are not the same in every step cost
the logarithm of how much more they vary than the losses of a collector explain, which shrink with the root of the time
between ticks. That is one number per step, and where a fault or a network cuts messages into hundreds of records, their
pauses are many: but these depend on each other, so no more than some of them count for as much as the bytes.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, TransferTable, ranges
from llmprism.parallelism.pause_code import NOT_JUDGED, OUTSIDE, around_medians, by_value, places_in_steps, sent_by
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import row_quantiles

__all__ = ["Pauses", "Priced", "bits_of", "pauses_of", "priced", "sent_by_ticks", "variation_of"]


@dataclass(frozen=True)
class Pauses:
    """The messages of some pairs, one pair after the other: `offsets` cut them. `pause` is the logarithm (base 2) of
    the pause before each message (NaN before the first), `sent` the pair's bytes before it, `size_sort` numbers its
    size; sizes of the same part of an octave are one."""

    offsets: Int64
    start_ns: Int64
    pause: Float64
    sent: Int64
    total: Int64
    size_sort: Int64

    @cached_property
    def by_pause(self) -> Int64:
        """The messages, pair by pair in ascending order of their pauses."""
        return by_value(self.offsets, self.pause)

    @cached_property
    def counted(self) -> int:
        """How many pauses there are."""
        return int(np.isfinite(self.pause).sum())


def pauses_of(transfers: TransferTable, pairs: Int64, rules: LayoutRules = RULES) -> Pauses:
    """The pauses between the messages of these pairs; control messages break none."""
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    pair = np.repeat(np.arange(pairs.size), transfers.pair_offsets[pairs + 1] - transfers.pair_offsets[pairs])
    message = transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES
    rows, pair = rows[message], pair[message]
    offsets = np.searchsorted(pair, np.arange(pairs.size + 1))
    start, end, size = transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows]
    pause = np.full(rows.size, np.nan)
    gap = np.maximum(start[1:] - end[:-1], rules.clock.least_pause_ns).astype(np.float64)
    pause[1:] = np.where(pair[1:] == pair[:-1], np.log2(gap), np.nan)
    sent = np.concatenate([[0], np.cumsum(size)])
    first = sent[offsets[:-1]]
    size_sort = np.unique(np.rint(np.log2(size) * rules.clock.sizes_per_octave), return_inverse=True)[1]
    return Pauses(offsets, start, pause, sent[:-1] - first[pair], sent[offsets[1:]] - first, size_sort)


@dataclass(frozen=True, slots=True)
class Priced:
    """Bits for the pauses, and what it saves to code those of some steps without the clock, because they are unlike the
    others; the number of steps, the root of the period, and the variation of each pair's bytes."""

    pause_bits: float
    saved_bits: float
    steps: int
    root_period: float
    variation: Float64


def priced(pauses: Pauses, clocks: list[Int64], window: tuple[int, int], rules: LayoutRules = RULES) -> list[Priced]:
    """What the price of each clock is made of."""
    judged = np.isfinite(pauses.pause) & (pauses.start_ns >= window[0]) & (pauses.start_ns <= window[1])
    alone = _without_clock(pauses, judged, rules)
    return [_price(pauses, ticks, judged, alone, window, rules) for ticks in clocks]


def bits_of(pauses: Pauses, clocks: list[Priced], rules: LayoutRules = RULES, *, every_step: bool = False) -> Float64:
    """Bits per pause under each of these clocks, which are compared with each other. With `every_step` no step may be
    coded without its clock: of clocks of one period the one whose ticks are all in place is the better one."""
    steps = np.array([one.steps for one in clocks])
    bits = np.array([one.pause_bits - (0.0 if every_step else one.saved_bits) for one in clocks])
    bits += steps * _beyond_noise(clocks, np.full((steps.size, 1), rules.clock.exact_bytes), rules).sum(axis=1)
    counted = max(pauses.counted, 1)
    more = np.maximum(1.0 / rules.clock.pauses_together - steps * (pauses.offsets.size - 1) / counted, 0.0)
    message = np.maximum(steps[:, None] / np.maximum(np.diff(pauses.offsets), 1), rules.clock.exact_bytes)
    result: Float64 = bits / counted + more * _beyond_noise(clocks, message, rules).mean(axis=1)
    return result


def _beyond_noise(clocks: list[Priced], least: Float64, rules: LayoutRules) -> Float64:
    """The logarithm of how much more each pair's bytes vary under each clock than noise explains, the least of all
    clocks with some steps; where less than `least`, they are the same."""
    root_period = np.array([one.root_period for one in clocks])[:, None]
    variation = np.array([one.variation for one in clocks])
    steps = np.array([one.steps for one in clocks])
    unsure = 1.0 + 1.0 / np.sqrt(np.maximum(steps, 1))[:, None]  # a few steps may be alike by chance
    telling = steps >= min(rules.clock.telling_steps, int(steps.max(initial=0)))
    noise = (variation * root_period * unsure)[telling].min(axis=0) / root_period
    beyond: Float64 = np.log2(np.maximum(variation, least) / np.maximum(noise, least))
    return beyond


def _price(
    pauses: Pauses, ticks: Int64, judged: Bool, alone: Float64, window: tuple[int, int], rules: LayoutRules
) -> Priced:
    rule = rules.clock
    sent = sent_by_ticks(pauses, ticks)
    place, places, before = places_in_steps(
        pauses.offsets, pauses.start_ns, pauses.sent, sent, ticks, judged, rule.places_per_pause, rule.most_places
    )
    by_pause, by_place = _code_lengths(pauses, place, places, rules)
    inside = place >= 0
    saved = _saved_by_a_stretch(np.bincount(before[inside], by_pause - alone[inside]).astype(np.float64))
    bits = float(by_pause.sum() + by_place.sum() + alone[place == OUTSIDE].sum())
    whole = (ticks[:-1] >= window[0]) & (ticks[1:] <= window[1])
    period = float(median(np.diff(ticks)[whole])) if whole.any() else 1.0
    variation = _variation(np.diff(sent, axis=1)[:, whole].astype(np.float64), rules)
    return Priced(bits, saved, int(whole.sum()), float(np.sqrt(max(period, 1.0))), variation)


def variation_of(pauses: Pauses, ticks: Int64, rules: LayoutRules = RULES) -> Float64:
    """How much each pair's bytes vary from step to step, relative to their mean."""
    return _variation(np.diff(sent_by_ticks(pauses, ticks), axis=1).astype(np.float64), rules)


def _saved_by_a_stretch(saved: Float64) -> float:
    """Bits that it saves at most to code the pauses of some steps in a row without the clock, `saved` in each: a fault
    makes them unlike the others. To say which steps costs the logarithm of their number twice."""
    total = np.concatenate([[0.0], np.cumsum(saved)])
    most = float((total - np.minimum.accumulate(total)).max())
    return max(0.0, most - 2.0 * float(np.log2(total.size)))


def _variation(amount: Float64, rules: LayoutRules) -> Float64:
    """Half the distance between the outer parts of each pair's bytes in the steps, relative to their mean.

    Not the median deviation: of two kinds of steps in turn the more frequent one would have none.
    """
    if not amount.shape[1]:
        return np.ones(amount.shape[0])
    mean = np.maximum(amount.mean(axis=1), 1.0)
    low, high = row_quantiles(amount, rules.clock.outer_steps, 1.0 - rules.clock.outer_steps)
    absent = (amount < rules.clock.absent_share * mean[:, None]).mean(axis=1)
    return np.where(absent >= rules.clock.often_absent, 1.0, (high - low) / 2.0 / mean)


def _without_clock(pauses: Pauses, judged: Bool, rules: LayoutRules) -> Float64:
    """Bits of each judged pause where its place is not known: all pauses of its pair are at one place.

    Those that a clock leaves outside its steps are coded so, not by a code of their own: that would reward a clock
    that covers one part of the time only, where another rules the rest, such as a fault.
    """
    bits = np.zeros(judged.size)
    by_pause, _ = _code_lengths(pauses, np.where(judged, 0, NOT_JUDGED), np.ones_like(pauses.offsets[1:]), rules)
    bits[judged] = by_pause
    return bits


def _code_lengths(pauses: Pauses, place: Int64, places: Int64, rules: LayoutRules) -> tuple[Float64, Float64]:
    """Bits of each pause that has a place, and of each of the places. Each pair has its own spread around the medians
    of its places.

    Deviations have heavy tails (a Cauchy distribution): one stall must not outweigh a hundred steps. It is told
    whether a place has a median of its own, which costs what it takes to say where among all pauses of the pair it
    lies; or that of the pair, where this is cheaper: most pauses of a step are like all others.
    """
    rule = rules.clock
    deviation, from_usual, cell, count, size, usual, middle, pair_of_place = around_medians(
        pauses.offsets, pauses.pause, pauses.by_pause, place, places
    )
    free = np.maximum(count - np.bincount(pair_of_place, minlength=count.size), 1)
    spread = middle * count / free + rule.pause_resolution_bits
    scale = np.minimum(spread, usual + rule.pause_resolution_bits)
    each = np.repeat(scale, count)
    by_place, by_pair = (np.log2(1.0 + (off / each) ** 2) for off in (deviation, from_usual))
    median = np.log2(2.0 + rule.pause_range * (usual + rule.pause_resolution_bits) / scale)[
        pair_of_place
    ] + 0.5 * np.log2(size)
    alike = np.bincount(cell, by_pair) <= np.bincount(cell, by_place) + median
    bits = np.repeat(np.log2(scale), count) + np.where(alike[cell], by_pair, by_place)
    return bits, np.where(alike, 0.0, median) + _which_are_alike(alike, pair_of_place, count.size)


def _which_are_alike(alike: Bool, pair_of_place: Int64, pairs: int) -> Float64:
    """Bits, for each place, that tell whether its median is that of its pair: fewer where nearly all or hardly any are,
    and half the logarithm of their number for their share. A bit for each would make steps of a thousand pieces, which
    pause alike but for the step's end, dearer than ticks inside them."""
    held = np.maximum(np.bincount(pair_of_place, minlength=pairs), 1)
    share = (np.bincount(pair_of_place, alike, minlength=pairs) + 0.5) / (held + 1.0)
    which = np.where(alike, -np.log2(share)[pair_of_place], -np.log2(1.0 - share)[pair_of_place])
    result: Float64 = which + (0.5 * np.log2(held + 1.0) / held)[pair_of_place]
    return result


def sent_by_ticks(pauses: Pauses, ticks: Int64) -> Int64:
    """Bytes that each pair had sent by each tick."""
    sent: Int64 = sent_by(pauses.offsets, pauses.start_ns, pauses.sent, pauses.total, ticks)
    return sent
