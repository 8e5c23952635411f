"""A clock that goes on by time where bytes do not tell.

The ticks of a clock are silences a step's bytes apart. A collector that loses one record in ten, or an exporter that is
dark for a while, leaves holes between them: of steps of six messages every second one lacks one, and no chain goes
through. But where steps are even in time, they go on in the hole, too. A hole that is a whole number of steps long, to
within what so many steps vary by, and in which most of their bytes are sent, is cut into as many, at the longest
silences next to the places; and the clock goes on before its first tick and behind its last one in the same way.

The result is a candidate like others: it stands where it explains the pauses of the job better.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["bridged_clock"]


def bridged_clock(clock: StepClock, silences: Silences, rules: LayoutRules = RULES) -> StepClock | None:
    """The clock with its holes cut into steps; None where nothing is added, or its steps are not even enough in time.
    `silences` are those of the traffic that it ticks for."""
    rule, period = rules.clock, clock.period_ns
    if clock.steps < rule.least_steps or period <= 0.0 or silences.count < 2:
        return None
    length = np.diff(clock.boundary_ns)[clock.regular]
    jitter = float(median(np.abs(length - period))) / period
    if jitter > rule.even_in_time:
        return None
    bridge = _Bridge(silences, period, jitter, _usual_bytes(clock, silences), rules)
    ticks, regular = [int(clock.boundary_ns[0])], list[bool]()
    for end, known in zip(clock.boundary_ns[1:].tolist(), clock.regular.tolist(), strict=True):
        inner = [] if known else bridge.across(ticks[-1], end)
        ticks += [*inner, end]
        regular += [True] * (len(inner) + 1) if inner else [known]
    before, after = bridge.walked(ticks[0], -1), bridge.walked(ticks[-1], 1)
    whole = np.array([*before[::-1], *ticks, *after], dtype=np.int64)
    flags = np.array([True] * len(before) + regular + [True] * len(after), dtype=np.bool_)
    added = flags.sum() > clock.steps and (np.diff(whole) > 0).all()
    return StepClock(whole, flags, clock.dominance) if added else None


def _usual_bytes(clock: StepClock, silences: Silences) -> float:
    return float(median(np.diff(_sent_by(silences, clock.boundary_ns.astype(np.float64)))[clock.regular]))


def _sent_by(silences: Silences, when: Float64) -> Int64:
    """Bytes that were sent before these times, to the next silence."""
    sent: Int64 = silences.bytes_before[np.searchsorted(silences.begin_ns, when).clip(0, silences.count - 1)]
    return sent


@dataclass(frozen=True, slots=True)
class _Bridge:
    """Finds the ticks of missing steps."""

    silences: Silences
    period: float
    jitter: float
    usual_bytes: float
    rules: LayoutRules

    def across(self, begin: int, end: int) -> list[int]:
        """The ticks within a hole, none where it is no whole number of steps."""
        rule, long = self.rules.clock, (end - begin) / self.period
        steps = round(long)
        unsure = rule.bridged_off + rule.bridged_jitters * self.jitter * np.sqrt(max(steps, 1))
        if steps < 2 or abs(long - steps) > unsure or not self._holds(begin, end, steps):
            return []
        places = (begin + k * (end - begin) / steps for k in range(1, steps))
        return [self._nearest(place) or int(place) for place in places]

    def walked(self, begin: int, way: int) -> list[int]:
        """Ticks one step after the other from here, as long as there is a silence at the place and a step's bytes."""
        ticks: list[int] = []
        at = begin
        while (found := self._nearest(at + way * self.period)) is not None:
            if not self._holds(min(at, found), max(at, found), 1):
                break
            ticks.append(found)
            at = found
        return ticks if len(ticks) >= self.rules.clock.least_walked else []

    def _holds(self, begin: int, end: int, steps: int) -> bool:
        """Are most of the bytes of so many steps sent in this time, and no more?"""
        first, last = _sent_by(self.silences, np.array([begin, end], dtype=np.float64)).tolist()
        low, high = self.rules.clock.bridged_bytes
        return bool(low <= (last - first) / max(steps * self.usual_bytes, 1.0) <= high)

    def _nearest(self, at: float) -> int | None:
        """The longest silence about this time, less the further it is from it; None where there is none."""
        begin, reach = self.silences.begin_ns, self.rules.clock.bridged_reach * self.period
        first, last = np.searchsorted(begin, [at - reach, at + reach]).tolist()
        if last <= first:
            return None
        far = np.abs(begin[first:last] - at) / reach
        return int(begin[first + int(np.argmax(self.silences.length_ns[first:last] * (1.0 - far)))])
