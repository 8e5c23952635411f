"""How well a clock explains a job, in bits: the currency in which rival clocks are compared.

A step repeats: each pair sends the same bytes, and pauses at the same places of them for about as long. So under a
clock each pause of a pair is expected to be what it was at the same place of other steps, or what is usual anywhere,
half and half; its price is the logarithm of how far it is off. A step never predicts itself, so that few steps are not
learned by heart. Pairs that carry the same bytes share their places where that is cheaper. What lies outside all steps
costs what it costs anywhere: leaving out stretched steps gains nothing.

* A clock that ticks too often (layers, micro-batches) puts unlike places together: its pauses are predicted badly and
  the bytes between its ticks vary.
* A clock that ticks too seldom (checkpoints, several steps) predicts each place from fewer steps and has more places.
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

__all__ = ["Pauses", "pauses_of", "price_of", "sent_by_ticks", "variation_of"]


@dataclass(frozen=True, slots=True)
class Pauses:
    """The messages of some pairs, one pair after the other: `offsets` cut them. `pause` is the logarithm (base 2) of
    the pause before each message (NaN before the first), `sent` the pair's bytes before it. Pairs of one `sort` follow
    each other and carry the same bytes."""

    offsets: Int64
    sort: Int64
    start_ns: Int64
    pause: Float64
    sent: Int64
    total: Int64

    @property
    def pair(self) -> Int64:
        return np.repeat(np.arange(self.offsets.size - 1), np.diff(self.offsets))


def pauses_of(transfers: TransferTable, pairs: Int64, rules: LayoutRules = RULES, sort: Int64 | None = None) -> Pauses:
    """The pauses between the messages of these pairs; control messages break none. Without sorts each pair is one."""
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
    return Pauses(
        offsets,
        np.arange(pairs.size) if sort is None else sort,
        start,
        pause,
        sent[:-1] - first[pair],
        sent[offsets[1:]] - first,
    )


@dataclass(frozen=True, slots=True)
class _Priced:
    """Bits for the pauses, the number of steps, the root of the period, and the variation of each pair's bytes."""

    pause_bits: float
    steps: int
    root_period: float
    variation: Float64


@dataclass(frozen=True, slots=True)
class _Judged:
    """The pauses that are judged, whatever the clock: `which` of all, and whose (`pair`: a pair, or a sort of them).
    Anywhere in the step they are expected around the `middle` of their unit, within what is `usual` there."""

    which: Int64
    pause: Float64
    pair: Int64
    middle: Float64
    usual: Float64


def price_of(pauses: Pauses, clocks: list[Int64], window: tuple[int, int], rules: LayoutRules = RULES) -> Float64:
    """Bits per pause that the job costs under each clock (the times of its ticks); the cheapest explains it best.

    `window` is the time in which all of them are judged.
    """
    inside = np.isfinite(pauses.pause) & (pauses.start_ns >= window[0]) & (pauses.start_ns <= window[1])
    which = np.flatnonzero(inside)
    by_pair = _anywhere(pauses, which, pauses.pair[which], pauses.sort.size, rules)
    by_sort = None
    sorts = int(pauses.sort.max(initial=0)) + 1
    if pauses.sort.size > sorts:
        by_sort = _anywhere(pauses, which, pauses.sort[pauses.pair[which]], sorts, rules)
    priced = [_price(pauses, ticks, window, by_pair, by_sort, rules) for ticks in clocks]
    root_period = np.array([one.root_period for one in priced])[:, None]
    variation = np.array([one.variation for one in priced])
    noise = (variation * root_period).min(axis=0)
    beyond = np.log2(
        np.maximum(variation, rules.clock.exact_bytes) / np.maximum(noise / root_period, rules.clock.exact_bytes)
    )
    steps = np.array([one.steps for one in priced])
    bits = np.array([one.pause_bits for one in priced]) + steps * beyond.sum(axis=1)
    repeats = (variation < 1.0).mean(axis=1) >= rules.clock.repeating_pairs
    price = bits / max(int(np.isfinite(pauses.pause).sum()), 1)
    return np.where(repeats, price, np.inf) if repeats.any() else price


def variation_of(pauses: Pauses, ticks: Int64, window: tuple[int, int], rules: LayoutRules = RULES) -> Float64:
    """How much the bytes of each pair vary between the ticks of a clock, relative to their mean."""
    whole = (ticks[:-1] >= window[0]) & (ticks[1:] <= window[1])
    return _variation(np.diff(sent_by_ticks(pauses, ticks), axis=1).astype(np.float64)[:, whole], rules)


def _anywhere(pauses: Pauses, which: Int64, unit: Int64, units: int, rules: LayoutRules) -> _Judged:
    pause = pauses.pause[which]
    bounds = np.searchsorted(unit, np.arange(units + 1))
    middle = 0.5 * (_middle(pause, bounds, upper=False) + _middle(pause, bounds, upper=True))
    usual = _middle(np.abs(pause - middle[unit]), bounds, upper=True) + rules.clock.pause_resolution_bits
    return _Judged(which, pause, unit, middle, usual)


def _price(pauses: Pauses, ticks: Int64, window: tuple[int, int], by_pair: _Judged, by_sort: _Judged | None,
           rules: LayoutRules) -> _Priced:  # fmt: skip
    steps = ticks.size - 1
    sent = sent_by_ticks(pauses, ticks)
    step_bytes = np.diff(sent, axis=1).astype(np.float64)
    step = np.searchsorted(ticks, pauses.start_ns[by_pair.which], side="right") - 1
    step = np.where(step < steps, step, -1)
    pair = by_pair.pair
    place = (pauses.sent[by_pair.which] - sent[pair, step]) / np.maximum(step_bytes[pair, step], 1.0)
    bits = np.bincount(
        pauses.sort[pair],
        _code_length(by_pair, place, step, steps, np.ones(sent.shape[0]), rules),
        minlength=int(pauses.sort.max(initial=0)) + 1,
    )
    if by_sort is not None:
        alike = _code_length(by_sort, place, step, steps, np.bincount(pauses.sort), rules)
        bits = np.minimum(bits, np.bincount(by_sort.pair, alike, minlength=bits.size))
    whole = (ticks[:-1] >= window[0]) & (ticks[1:] <= window[1])
    amount = step_bytes[:, whole]
    period = float(np.median(np.diff(ticks)[whole])) if whole.any() else 1.0
    return _Priced(float(bits.sum()), int(whole.sum()), float(np.sqrt(max(period, 1.0))), _variation(amount, rules))


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


def _code_length(judged: _Judged, place: Float64, step: Int64, steps: int, members: Float64 | Int64,
                 rules: LayoutRules) -> Float64:  # fmt: skip
    """Bits of each pause: half of the expectation is for the same place of other steps, half for anywhere.

    Deviations have heavy tails (a Cauchy distribution): one stall must not outweigh a hundred steps. Pauses outside of
    all steps are expected anywhere only.
    """
    rule, unit = rules.clock, judged.pair
    inside = np.flatnonzero(step >= 0)
    off, wide = judged.pause - judged.middle[unit], judged.usual[unit]
    density = wide / (wide**2 + off**2)
    if inside.size:
        own = unit[inside]
        count = np.bincount(own, minlength=judged.usual.size)
        each = rule.places_per_pause * count / np.maximum(members, 1) / max(steps, 1)
        places = np.clip(each, 1.0, rule.most_places).astype(np.int64)
        cell = np.floor(place[inside] * places[own] + 0.5).astype(np.int64) % places[own]
        cell += (np.cumsum(places) - places)[own]
        there = _in_other_steps(judged.pause[inside], cell, step[inside], steps)
        off[inside] -= np.where(np.isnan(there), 0.0, there - judged.middle[own])
        bounds = np.concatenate([[0], np.cumsum(count)])
        scale = np.minimum(_middle(np.abs(off[inside]), bounds, upper=True) + rule.pause_resolution_bits, judged.usual)
        density[inside] += scale[own] / (scale[own] ** 2 + off[inside] ** 2)
    bits: Float64 = 1.0 - np.log2(density)
    if inside.size:
        bits[inside] += rule.place_bits / np.bincount(cell)[cell]
    return bits


def _in_other_steps(value: Float64, cell: Int64, step: Int64, steps: int) -> Float64:
    """The median of the values in the same cell of the other steps, each step with its mean; NaN where none."""
    held = np.bincount(cell * steps + step)
    some = held > 0
    group = (np.cumsum(some) - 1)[cell * steps + step]
    mean = np.bincount(group, value) / held[some]
    cell_of = np.flatnonzero(some) // steps
    by_value = np.argsort(mean)
    rank = np.empty(mean.size, dtype=np.int64)
    rank[by_value] = np.arange(mean.size)
    order = by_value[np.sort(cell_of * mean.size + rank) % mean.size]
    ordered, of = mean[order], cell_of[order]
    begin = np.flatnonzero(np.diff(of, prepend=-1))
    count = np.diff(np.append(begin, of.size))
    begin, count = np.repeat(begin, count), np.repeat(count, count)
    place = np.arange(of.size) - begin
    low, high = np.maximum((count - 2) // 2, 0), (count - 1) // 2
    pick = [np.minimum(begin + at + (place <= at), of.size - 1) for at in (low, high)]
    others = np.empty(of.size)
    others[order] = np.where(count > 1, 0.5 * (ordered[pick[0]] + ordered[pick[1]]), np.nan)
    result: Float64 = others[group]
    return result


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
