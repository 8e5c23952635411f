"""Ticks at one phase of the clock that explains the job best.

The end of a step is looked for among silences, by a chain through those that lie a step's bytes apart. Checkpoints,
lost records and steps full of equal pauses lead such a chain astray for some steps: it jumps to another pause and back.
The clock that the chain began with was chosen by all of the job's pauses. Where its steps are even and those of the
chain are not, the chain says only at which phase of the clock's steps the end lies, by most of its ticks, and each step
has one end, at the longest silence about that phase.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.model.clock import StepClock
from llmprism.stats.silences import Silences

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]
Bool = NDArray[np.bool_]

__all__ = ["Ticks", "in_one_phase"]

NEAR: Final = 0.15
"""Share of a step by which ticks may vary around one phase of it: jitter, not the next pause of a sharded step."""

STEADY: Final = 0.95
"""Share of the ticks at one phase from which the chain is right as it is: the others are steps that differ..."""

MOST: Final = 0.5
"""...and below which it knows of no phase."""

MORE_UNEVEN: Final = 4.0 / 3.0
"""Uneven intervals of the chain relative to those of the clock: a chain that leaves the clock's phase as
often as the steps themselves are uneven follows them better than the clock does."""

MOST_COMPARED: Final = 100
"""Ticks whose phase is tried for that of most."""


@dataclass(frozen=True, slots=True)
class Ticks:
    """Which silences end the steps, and which intervals between them are whole steps."""

    silence: Int64
    regular: Bool


def in_one_phase(ticks: Ticks, silences: Silences, clock: StepClock) -> Ticks | None:
    """The ticks, those that left the phase of the others put back; None where there is no phase that most have."""
    when = silences.begin_ns[ticks.silence]
    step = clock.step_at(when)
    inside = step >= 0
    if inside.sum() < MOST * clock.steps:
        return ticks
    length = np.diff(clock.boundary_ns)
    phase = (when[inside] - clock.boundary_ns[step[inside]]) / np.maximum(length[step[inside]], 1)
    off = _from_most(phase)
    share = float((np.abs(off) <= NEAR).mean())
    if share >= STEADY or _uneven(when) <= MORE_UNEVEN * _uneven(clock.boundary_ns):
        return ticks
    if share < MOST:
        return None
    nearest = int(np.argmin(np.abs(off)))
    return _at_phase(float(phase[nearest] - off[nearest]), silences, clock)


def _from_most(phase: Float64) -> Float64:
    """Distance of each phase from the middle of those that most are near to, between -0.5 and 0.5."""
    apart = (phase[:, None] - phase[:: max(1, phase.size // MOST_COMPARED)][None, :] + 0.5) % 1.0 - 0.5
    near = np.abs(apart) <= NEAR
    best = int(np.argmax(near.sum(axis=0)))
    off: Float64 = apart[:, best] - np.median(apart[near[:, best], best])
    return (off + 0.5) % 1.0 - 0.5


def _uneven(ticks: Int64) -> float:
    """Share of the intervals that are off their median by more than ticks vary around one phase."""
    length = np.diff(ticks)
    usual = float(np.median(length))
    return float((np.abs(length - usual) > NEAR * usual).mean())


def _at_phase(phase: float, silences: Silences, clock: StepClock) -> Ticks:
    """In each step of the clock the longest silence about the phase."""
    length = np.diff(clock.boundary_ns)
    centre = clock.boundary_ns[:-1] + (phase * length).astype(np.int64)
    reach = (NEAR * length).astype(np.int64)
    first, last = (np.searchsorted(silences.begin_ns, centre + way * reach) for way in (-1, 1))
    chosen = [
        a + int(np.argmax(silences.length_ns[a:b])) if b > a else -1
        for a, b in zip(first.tolist(), last.tolist(), strict=True)
    ]
    silence = np.array(chosen, dtype=np.int64)
    kept = np.flatnonzero(silence >= 0)
    joined = np.diff(kept) == 1
    regular = joined & (clock.regular[kept[:-1]] | clock.regular[kept[1:]])
    return Ticks(silence[kept], regular)
