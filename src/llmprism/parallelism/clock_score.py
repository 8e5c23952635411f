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
between ticks.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64
from llmprism.model.flows import MESSAGE_FLOOR_BYTES, Int64, TransferTable, ranges
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["Pauses", "pauses_of", "price_of", "sent_by_ticks"]


@dataclass(frozen=True, slots=True)
class Pauses:
    """The messages of some pairs, one pair after the other: `offsets` cut them. `pause` is the logarithm (base 2) of
    the pause before each message (NaN before the first), `sent` the pair's bytes before it."""

    offsets: Int64
    start_ns: Int64
    pause: Float64
    sent: Int64
    total: Int64

    @property
    def pair(self) -> Int64:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


def pauses_of(transfers: TransferTable, pairs: Int64, rules: LayoutRules = RULES) -> Pauses:
    """The pauses between the messages of these pairs; control messages break none."""
    rows = ranges(transfers.pair_offsets[pairs], transfers.pair_offsets[pairs + 1])
    pair = np.repeat(np.arange(pairs.size), transfers.pair_offsets[pairs + 1] - transfers.pair_offsets[pairs])
    message = transfers.bytes[rows] >= MESSAGE_FLOOR_BYTES
    rows, pair = rows[message], pair[message]
    offsets = np.searchsorted(pair, np.arange(pairs.size + 1))
    start, end = transfers.start_ns[rows], transfers.end_ns[rows]
    pause = np.full(rows.size, np.nan)
    gap = np.maximum(start[1:] - end[:-1], rules.clock.least_pause_ns).astype(np.float64)
    pause[1:] = np.where(pair[1:] == pair[:-1], np.log2(gap), np.nan)
    sent = np.concatenate([[0], np.cumsum(transfers.bytes[rows])])
    first = sent[offsets[:-1]]
    return Pauses(offsets, start, pause, sent[:-1] - first[pair], sent[offsets[1:]] - first)


@dataclass(frozen=True, slots=True)
class _Priced:
    """Bits for the pauses, the number of steps, the root of the period, and the variation of each pair's bytes."""

    pause_bits: float
    steps: int
    root_period: float
    variation: Float64


def price_of(pauses: Pauses, clocks: list[Int64], window: tuple[int, int], rules: LayoutRules = RULES) -> Float64:
    """Bits per pause that the job costs under each clock (the times of its ticks); the cheapest explains it best.

    `window` is the time in which all of them are judged.
    """
    priced = [_price(pauses, ticks, window, rules) for ticks in clocks]
    root_period = np.array([one.root_period for one in priced])[:, None]
    variation = np.array([one.variation for one in priced])
    noise = (variation * root_period).min(axis=0)
    beyond = np.log2(
        np.maximum(variation, rules.clock.exact_bytes) / np.maximum(noise / root_period, rules.clock.exact_bytes)
    )
    steps = np.array([one.steps for one in priced])
    bits = np.array([one.pause_bits for one in priced]) + steps * beyond.sum(axis=1)
    result: Float64 = bits / max(int(np.isfinite(pauses.pause).sum()), 1)
    return result


def _price(pauses: Pauses, ticks: Int64, window: tuple[int, int], rules: LayoutRules) -> _Priced:
    rule = rules.clock
    pairs, steps = pauses.offsets.size - 1, ticks.size - 1
    pair = pauses.pair
    sent = sent_by_ticks(pauses, ticks)
    step_bytes = np.diff(sent, axis=1).astype(np.float64)
    step = np.searchsorted(ticks, pauses.start_ns, side="right") - 1
    judged = np.isfinite(pauses.pause) & (pauses.start_ns >= window[0]) & (pauses.start_ns <= window[1])
    inside = judged & (step >= 0) & (step < steps)
    own, at, pause = pair[inside], step[inside], pauses.pause[inside]
    place = (pauses.sent[inside] - sent[own, at]) / np.maximum(step_bytes[own, at], 1.0)
    count = np.bincount(own, minlength=pairs)
    places = np.clip(rule.places_per_pause * count / max(steps, 1), 1.0, rule.most_places).astype(np.int64)
    cell = own * rule.most_places + np.floor(place * places[own] + 0.5).astype(np.int64) % places[own]
    bits = _code_length(pause, cell, own, count, rules)
    outside = judged & ~inside
    bits += _code_length(
        pauses.pause[outside], pair[outside], pair[outside], np.bincount(pair[outside], minlength=pairs), rules
    )
    whole = (ticks[:-1] >= window[0]) & (ticks[1:] <= window[1])
    amount = step_bytes[:, whole]
    period = float(np.median(np.diff(ticks)[whole])) if whole.any() else 1.0
    return _Priced(bits, int(whole.sum()), float(np.sqrt(max(period, 1.0))), _variation(amount, rules))


def _variation(amount: Float64, rules: LayoutRules) -> Float64:
    """Half the distance between the outer parts of each pair's bytes in the steps, relative to their mean.

    Not the median deviation: of two kinds of steps in turn the more frequent one would have none.
    """
    if not amount.shape[1]:
        return np.ones(amount.shape[0])
    mean = np.maximum(amount.mean(axis=1), 1.0)
    low, high = np.quantile(amount, [rules.clock.outer_steps, 1.0 - rules.clock.outer_steps], axis=1)
    absent = (amount < rules.clock.absent_share * mean[:, None]).mean(axis=1)
    return np.where(absent >= rules.clock.often_absent, 1.0, (high - low) / 2.0 / mean)


def _code_length(pause: Float64, cell: Int64, pair: Int64, count: Int64, rules: LayoutRules) -> float:
    """Bits of the pauses, each pair with its own spread around the medians of its cells, and of these medians.

    Deviations have heavy tails (a Cauchy distribution): one stall must not outweigh a hundred steps. A median costs
    what it takes to say where among all pauses of the pair it lies. The pauses of a pair follow each other.
    """
    rule = rules.clock
    if not pause.size:
        return 0.0
    pairs, bounds = count.size, np.concatenate([[0], np.cumsum(count)])
    deviation, cells, size = _around_medians(pause, cell)
    pair_of_cell = np.zeros(size.size, dtype=np.int64)
    pair_of_cell[cells] = pair
    middle = 0.5 * (_middle(pause, bounds, upper=False) + _middle(pause, bounds, upper=True))
    usual = _middle(np.abs(pause - middle[pair]), bounds, upper=True)
    used = np.bincount(pair_of_cell, minlength=pairs)
    free = np.maximum(count - used, 1)
    spread = _middle(np.abs(deviation), bounds, upper=True) * count / free + rule.pause_resolution_bits
    scale = np.minimum(spread, usual + rule.pause_resolution_bits)
    bits = np.log2(scale)[pair] + np.log2(1.0 + (deviation / scale[pair]) ** 2)
    price = np.log2(2.0 + rule.pause_range * (usual + rule.pause_resolution_bits) / scale)[
        pair_of_cell
    ] + 0.5 * np.log2(size)
    return float(bits.sum() + price.sum())


def _around_medians(value: Float64, cell: Int64) -> tuple[Float64, Int64, Int64]:
    """Deviation of each value from the median of its cell, the cells numbered from 0 on, and their sizes.

    One sort of whole numbers, the cell before the rank of the value, is faster than a sort by two keys.
    """
    held = np.bincount(cell)
    some = held > 0
    cells, size = (np.cumsum(some) - 1)[cell], held[some]
    first = np.cumsum(size) - size
    by_value = np.argsort(value)
    key = np.empty(value.size, dtype=np.int64)
    key[by_value] = np.arange(value.size)
    key += cells * value.size
    ordered = value[by_value[np.sort(key) % value.size]]
    median = 0.5 * (ordered[first + (size - 1) // 2] + ordered[first + size // 2])
    return value - median[cells], cells, size


def _middle(value: Float64, bounds: Int64, *, upper: bool) -> Float64:
    """The upper or the lower median of the values between each two bounds; 0 where there are none."""
    result = np.zeros(bounds.size - 1)
    for index, (begin, end) in enumerate(zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)):
        if end > begin:
            place = (end - begin) // 2 if upper else (end - begin - 1) // 2
            result[index] = np.partition(value[begin:end], place)[place]
    return result


def sent_by_ticks(pauses: Pauses, ticks: Int64) -> Int64:
    """Bytes that each pair had sent by each tick."""
    sent = np.empty((pauses.offsets.size - 1, ticks.size), dtype=np.int64)
    for index in range(sent.shape[0]):
        rows = slice(int(pauses.offsets[index]), int(pauses.offsets[index + 1]))
        before = np.append(pauses.sent[rows], pauses.total[index])
        sent[index] = before[np.searchsorted(pauses.start_ns[rows], ticks)]
    return sent
