"""Ticks at one phase of the clock that explains the job best.

The end of a step is looked for among silences, by a chain through those that lie a step's bytes apart. Checkpoints,
lost records and steps full of equal pauses lead such a chain astray for some steps: it jumps to another pause and back.
The clock that the chain began with was chosen by all of the job's pauses. Where the chain varies around the phase of
the clock's steps more than these steps vary in length, it says only at which phase of them the end lies, by most of its
ticks, and each step has one end, at the longest silence about that phase. A chain that is the evener one of the two did
not go astray: the clock did.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["Ticks", "in_one_phase"]


@dataclass(frozen=True, slots=True)
class Ticks:
    """Which silences end the steps, and which intervals between them are whole steps."""

    silence: Int64
    regular: Bool


def in_one_phase(ticks: Ticks, silences: Silences, clock: StepClock, rules: LayoutRules = RULES) -> Ticks | None:
    """The ticks, those that left the phase of the others put back; None where there is no phase that most have."""
    when = silences.begin_ns[ticks.silence]
    step = clock.step_at(when)
    inside = step >= 0
    if inside.sum() < rules.ends.ticks_in_phase * clock.steps:
        return ticks
    length = np.diff(clock.boundary_ns)
    phase = (when[inside] - clock.boundary_ns[step[inside]]) / np.maximum(length[step[inside]], 1)
    off = _from_most(phase, rules)
    share = float((np.abs(off) <= rules.ends.near_phase).mean())
    jitter = _jitter(clock.boundary_ns)
    if _jitter(when) < jitter or float(np.abs(off).mean()) <= max(rules.ends.negligible_jitter, jitter):
        return ticks
    if share < rules.ends.ticks_in_phase:
        return None
    nearest = int(np.argmin(np.abs(off)))
    return _at_phase(float(phase[nearest] - off[nearest]), silences, clock, rules)


def _from_most(phase: Float64, rules: LayoutRules) -> Float64:
    """Distance of each phase from the middle of those that most are near to, between -0.5 and 0.5."""
    apart = (phase[:, None] - phase[:: max(1, phase.size // rules.ends.phases_compared)][None, :] + 0.5) % 1.0 - 0.5
    near = np.abs(apart) <= rules.ends.near_phase
    best = int(np.argmax(near.sum(axis=0)))
    off: Float64 = apart[:, best] - np.median(apart[near[:, best], best])
    return (off + 0.5) % 1.0 - 0.5


def _jitter(ticks: Int64) -> float:
    """Mean deviation of the intervals from their median, as a share of it, at most one."""
    length = np.diff(ticks)
    return float(np.minimum(np.abs(length / max(float(np.median(length)), 1.0) - 1.0), 1.0).mean())


def _at_phase(phase: float, silences: Silences, clock: StepClock, rules: LayoutRules) -> Ticks:
    """In each step of the clock the longest silence about the phase, less the further it is from it: of equal pauses
    the nearest."""
    length = np.diff(clock.boundary_ns)
    centre = clock.boundary_ns[:-1] + (phase * length).astype(np.int64)
    reach = (rules.ends.near_phase * length).astype(np.int64)
    first, last = (np.searchsorted(silences.begin_ns, centre + way * reach) for way in (-1, 1))
    chosen = np.full(length.size, -1, dtype=np.int64)
    for k, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if b > a:
            far = np.abs(silences.begin_ns[a:b] - centre[k]) / max(int(reach[k]), 1)
            chosen[k] = a + int(np.argmax(silences.length_ns[a:b] * (1.0 - far)))
    kept = np.flatnonzero(chosen >= 0)
    joined = np.diff(kept) == 1
    regular = joined & (clock.regular[kept[:-1]] | clock.regular[kept[1:]])
    return Ticks(chosen[kept], regular)
