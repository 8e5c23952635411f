"""Ticks that are off the line of the others in byte-space.

Steps are exact in bytes, so the ticks of a clock lie on a line: the n-th one n steps' bytes after the first. What a
fault makes slow has other silences, and longer ones, than usual steps have; a tick that follows silences leaves its
place there, gives one step bytes and takes them from the next, and the ticks after it are back on the line. So a tick
that is off the line is put where the line says. Bytes that are sent besides (evaluations, retransmissions) move all
ticks after them: the line is that of the ticks nearby.

A step that holds the bytes of several is several: records that were lost, or a pause that was no longer than others,
hid the ticks between them. What is slow sends no more for it.

All bytes of the job count, those that other passes have explained too: what experts exchange varies from pair to pair,
and adds up to the same in every step.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median, medians
from llmprism.model.clock import StepClock
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["on_byte_line", "running_medians", "with_missing_ticks"]


def on_byte_line(silences: Silences, clock: StepClock, rules: LayoutRules = RULES) -> StepClock:
    """The clock, its ticks that are off the line of the bytes before these silences, with others before and after them
    that are not, put on it."""
    if clock.steps < rules.clock.least_steps or not silences.count:
        return clock
    ticks = clock.boundary_ns.copy()
    sent = bytes_at(silences, ticks)
    usual = float(median(np.diff(sent)))
    if usual <= 0.0:
        return clock
    steps = np.cumsum(np.maximum(np.rint(np.diff(sent, prepend=sent[0]) / usual), 1.0))
    place = sent / usual - steps
    line = running_medians(place, min(2 * rules.ends.line_ticks + 1, place.size))
    off = np.abs(place - line)
    limit = max(rules.ends.off_line, rules.ends.off_line_spreads * float(median(off)))
    moved = _between(off > limit)
    ticks[moved] = _moments(silences, (line + steps)[moved] * usual, rules.clock.exact_bytes * usual)
    return clock if (np.diff(ticks) <= 0).any() else replace(clock, boundary_ns=ticks)


def with_missing_ticks(silences: Silences, clock: StepClock, rules: LayoutRules = RULES) -> StepClock:
    """The clock, with ticks where a step, but for the first and the last one, holds the bytes of several whole ones: at
    the longest silence about each place where one of them had been sent."""
    if clock.steps < rules.clock.least_steps or not silences.count:
        return clock
    ticks, tolerance = clock.boundary_ns, rules.clock.step_tolerance
    sent = bytes_at(silences, ticks)
    usual = float(median(np.diff(sent)))
    if usual <= 0.0:
        return clock
    held = np.diff(sent) / usual
    steps = np.rint(held).astype(np.int64)
    several = clock.regular & (steps > 1) & (np.abs(held - steps) <= tolerance * steps)
    several[[0, -1]] = False
    if not several.any():
        return clock
    before = np.repeat(np.flatnonzero(several), steps[several] - 1)
    place = np.concatenate([np.arange(1, n) / n for n in steps[several].tolist()])
    wanted = sent[before] + place * (sent[before + 1] - sent[before])
    missing = _longest_about(silences, wanted, tolerance * usual)
    added = StepClock(
        np.insert(ticks, before + 1, missing),
        np.insert(clock.regular, before + 1, True),
        clock.dominance,
        clock.complete,
    )
    return clock if (np.diff(added.boundary_ns) <= 0).any() else added


def _longest_about(silences: Silences, wanted: Float64, reach: float) -> Int64:
    """Begin of the longest silence within reach, by bytes, of each place; where there is none, when so much had been
    sent."""
    position = silences.bytes_before.astype(np.float64)
    first = np.searchsorted(position, wanted - reach)
    last = np.searchsorted(position, wanted + reach, side="right")
    found = time_at(silences, wanted)
    for k, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if b > a:
            found[k] = silences.begin_ns[a + int(np.argmax(silences.length_ns[a:b]))]
    return found


def running_medians(value: Float64, width: int) -> Float64:
    """The median of so many values about each along the last axis, of the first or the last ones at the ends."""
    middle = medians(np.lib.stride_tricks.sliding_window_view(value, width, axis=-1), axis=-1)
    found: Float64 = middle[..., np.clip(np.arange(value.shape[-1]) - width // 2, 0, middle.shape[-1] - 1)]
    return found


def _between(off: Bool) -> Bool:
    """Which of those that are off have one that is not before and after them."""
    on = np.flatnonzero(~off)
    inside: Bool = off.copy()
    inside[: on[0]] = False
    inside[on[-1] :] = False
    return inside


def _moments(silences: Silences, wanted: Float64, reach: float) -> Int64:
    """When so many bytes had been sent: at the silence that is nearest by bytes, where one is within reach."""
    position = silences.bytes_before.astype(np.float64)
    after = np.searchsorted(position, wanted).clip(1, position.size - 1)
    nearest = np.where(wanted - position[after - 1] < position[after] - wanted, after - 1, after)
    close = np.abs(position[nearest] - wanted) <= reach
    found: Int64 = np.where(close, silences.begin_ns[nearest], time_at(silences, wanted))
    return found
