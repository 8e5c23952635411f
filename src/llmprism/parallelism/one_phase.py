"""Ticks at one phase of the clock that explains the job best.

The end of a step is looked for among silences, by a chain through those that lie a step's bytes apart. Checkpoints,
lost records and steps full of equal pauses lead such a chain astray for some steps: it jumps to another pause and back.
The clock that the chain began with was chosen by all of the job's pauses. Where the chain varies around the phase of
the clock's steps more than these steps vary in length, it says only at which phase of them the end lies, by most of its
ticks, and each step has one end, at the longest silence about that phase.
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

MOST: Final = 0.5
"""Share of the ticks at one phase below which the chain knows of no phase."""

NEGLIGIBLE: Final = 0.01
"""Share of a step by which ticks vary around their phase in any case. Beyond that they may vary by as much as the steps
of the clock do: real chains vary by 0.1 to 0.8 of it, chains that jump by twice and more."""

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
    if float(np.abs(off).mean()) <= max(NEGLIGIBLE, _jitter(clock.boundary_ns)):
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


def _jitter(ticks: Int64) -> float:
    """Mean deviation of the intervals from their median, as a share of it, at most one."""
    length = np.diff(ticks)
    return float(np.minimum(np.abs(length / max(float(np.median(length)), 1.0) - 1.0), 1.0).mean())


def _at_phase(phase: float, silences: Silences, clock: StepClock) -> Ticks:
    """In each step of the clock the longest silence about the phase, less the further it is from it: of equal pauses
    the nearest."""
    length = np.diff(clock.boundary_ns)
    centre = clock.boundary_ns[:-1] + (phase * length).astype(np.int64)
    reach = (NEAR * length).astype(np.int64)
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
