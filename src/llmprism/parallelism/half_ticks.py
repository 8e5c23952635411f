"""Steps of whole ticks and half a one: passes that reduce, and one gathering.

Where gradients are accumulated and the optimizer is sharded (ZeRO-2), each of m passes reduces all gradients, which
sends them twice, and the step ends with a gathering of the parameters, which sends as much once:

    places, half a tick apart    0   1   2   3   4   5   6   7   8   9  10  11  12  13
    silent, m = 3                x       x       x       x   x       x       x       x
                                 | reduce| reduce| reduce| g |

Passes are alike, so they pass for steps; but a step is no whole number of them, and every step the silences change
between the ticks and the places half-way. So the silences at all of these places are coded with one median for the
silent ones and one for the others, under the ticks of the clock and under all such patterns. A pattern that is the
cheaper code by a margin stands (1.6 and 2 bits for each place in captures of ZeRO-2, 0.3 at most in all others). It
also tells where a step ends: after the half tick.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["PassesAndGathering", "half_tick_clock"]


@dataclass(frozen=True, slots=True)
class _HalfTickPlaces:
    """The longest silence at each place, half a tick apart: the logarithm (base 2) of its length in ticks, and when it
    begins. Where there is none, when the bytes before it were sent."""

    length: Float64
    begin_ns: Int64


@dataclass(frozen=True, slots=True)
class PassesAndGathering:
    """A clock whose steps are so many passes and a gathering, and the bits that it saves."""

    clock: StepClock
    passes: int
    bits: float


def half_tick_clock(silences: Silences, clock: StepClock, rules: LayoutRules = RULES) -> PassesAndGathering | None:
    """The clock whose steps are several ticks of this one and half a tick; None where its own ticks explain the
    silences as well."""
    places = _places(silences, clock, rules)
    if places is None:
        return None
    place = np.arange(places.length.size)
    by_ticks = _bits_of_ticks(places.length, place.size, rules)
    best = (float("inf"), 1, 0)
    for passes in range(2, rules.sharding.most_passes + 1):
        half_ticks = 2 * passes + 1
        if place.size < rules.clock.compound_steps * half_ticks:
            break
        first = _likeliest(places.length, half_ticks)
        silent = (place - first) % half_ticks % 2 == 0
        bits = _bits(places.length, silent, rules) + float(np.log2(half_ticks * rules.sharding.most_passes))
        best = min(best, (bits, half_ticks, first))
    bits, half_ticks, first = best
    margin = rules.clock.uneven_margin_bits * place.size
    if bits < by_ticks - margin:
        by_ticks = min(
            by_ticks, *(_bits_of_ticks(places.length, at, rules) for at in range(half_ticks, place.size, half_ticks))
        )
    ticks = places.begin_ns[first::half_ticks]
    if bits >= by_ticks - margin or (np.diff(ticks) <= 0).any():
        return None
    whole = StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), clock.dominance)
    return PassesAndGathering(whole, half_ticks // 2, by_ticks - bits)


def _bits_of_ticks(length: Float64, changed: int, rules: LayoutRules) -> float:
    """Bits of the lengths where every second place is silent, or none is; from the place `changed` on the others. So
    it is after what is sent once: a restart, a checkpoint that is gathered."""
    odd = (np.arange(length.size) + (np.arange(length.size) >= changed)) % 2 == 1
    price = float(np.log2(length.size)) if changed < length.size else 0.0
    none = np.zeros(length.size, dtype=np.bool_)
    return min(_bits(length, silent, rules) for silent in (none, odd, ~odd)) + price


def _places(silences: Silences, clock: StepClock, rules: LayoutRules) -> _HalfTickPlaces | None:
    """The places from the first tick to the last; None where there are too few."""
    sent = bytes_at(silences, clock.boundary_ns)
    half = 0.5 * float(median(np.diff(sent)))
    if half <= 0.0:
        return None
    phase = float(np.angle(np.exp(2j * np.pi * sent / half).sum()) / (2.0 * np.pi))
    at = silences.bytes_before / half - phase
    place = np.rint(at).astype(np.int64)
    first, last = np.rint(sent[[0, -1]] / half - phase).astype(np.int64).tolist()
    count = last - first + 1
    if not 5 * rules.clock.compound_steps <= count <= 4 * clock.boundary_ns.size:
        return None
    near = np.flatnonzero((np.abs(at - place) <= 2.0 * rules.clock.step_tolerance) & (place >= first) & (place <= last))
    near = near[
        np.argsort(silences.length_ns[near], kind="stable")
    ]  # of those at one place the longest is written last
    begin, length = time_at(silences, (np.arange(first, last + 1) + phase) * half), np.zeros(count)
    begin[place[near] - first] = silences.begin_ns[near]
    length[place[near] - first] = silences.length_ns[near]
    return _HalfTickPlaces(np.log2(length / clock.period_ns + rules.clock.no_silence), begin)


def _likeliest(length: Float64, half_ticks: int) -> int:
    """The first place, of a step of so many, under which the places of the pattern are silent the longest."""
    place = np.arange(length.size) % half_ticks
    by_place = np.bincount(place, length) / np.bincount(place)
    twice = np.concatenate([by_place, by_place])
    shown = [float(np.add.reduce(twice[first : first + half_ticks : 2])) for first in range(half_ticks)]
    return int(np.argmax(shown))


def _bits(length: Float64, silent: Bool, rules: LayoutRules) -> float:
    """Bits of the lengths with a median for the silent places and one for the others, and heavy tails about it."""
    off, price = np.empty_like(length), 0.0
    for part in (silent, ~silent):
        if part.any():
            off[part] = length[part] - median(length[part])
            price += 0.5 * float(np.log2(part.sum()))
    if silent.any() and median(length[silent]) < median(length[~silent]):
        return float("inf")
    scale = float(median(np.abs(off))) + rules.ends.turn_resolution_bits
    return float(length.size * np.log2(scale) + np.log2(1.0 + (off / scale) ** 2).sum() + price)
