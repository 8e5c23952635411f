"""Ticks that are off the line of the others in byte-space.

Steps are exact in bytes, so the ticks of a clock lie on a line: the n-th one n steps' bytes after the first. What a
fault makes slow has other silences, and longer ones, than usual steps have; a tick that follows silences leaves its
place there, gives one step bytes and takes them from the next, and the ticks after it are back on the line. So a tick
that is off the line is put where the line says. Bytes that are sent besides (evaluations, retransmissions) move all
ticks after them: the line is that of the ticks nearby.

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

__all__ = ["on_byte_line", "running_medians"]


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
