"""The clock of a job whose step is known from before, by the bytes that the job sends in it.

A window may show a job in an unlucky moment: a NIC made most of its steps twice as long, so that a clock which ends
where the slow steps end, or one that takes two usual steps together, explains the window with fewer bits; or the
collector's coarse time stamps make a multiple of the step look better by chance. How many bytes a step has does not
change with how long it takes. So whoever has watched the job for longer names the bytes, and of the rivals that have
them the one with the most steps is taken. Where no rival has them, the job has changed, and the window alone decides.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.clock_score import Pauses, sent_by_ticks
from llmprism.parallelism.rules import RULES, LayoutRules

__all__ = ["KnownStep", "known_clock"]


@dataclass(frozen=True, slots=True)
class KnownStep:
    """A clock, and the bytes of the whole job in one of its steps; `chosen` is the clock that has the known bytes where
    that is another one."""

    step_bytes: int
    chosen: StepClock | None = None


def known_clock(
    transfers: TransferTable,
    bulk: Bool,
    pauses: Pauses,
    own: StepClock,
    rivals: Sequence[StepClock],
    known_bytes: int = 0,
    rules: LayoutRules = RULES,
) -> KnownStep:
    """What a step of `own`, the clock that this window alone chooses, has in bytes; and of all clocks the one whose
    steps have `known_bytes` (0: not known), if that is not `own`."""
    judged, every = float(pauses.total.sum()), float(transfers.pair_bytes[bulk].sum())
    scale = every / judged if judged > 0.0 else 0.0
    mine = scale * _judged_bytes(pauses, own)
    if not known_bytes:
        return KnownStep(int(mine))
    near = rules.clock.known_bytes * known_bytes
    fitting = [clock for clock in rivals if abs(scale * _judged_bytes(pauses, clock) - known_bytes) <= near]
    longest = max(fitting, key=lambda clock: clock.steps, default=None)
    if longest is None or (abs(mine - known_bytes) <= near and own.steps >= longest.steps - 1):
        return KnownStep(int(mine))
    return KnownStep(int(mine), longest)


def _judged_bytes(pauses: Pauses, clock: StepClock) -> float:
    """The median over its steps of the bytes that the judges send in one."""
    sent = np.diff(sent_by_ticks(pauses, clock.boundary_ns), axis=1).sum(axis=0)
    return float(np.median(sent[clock.regular])) if clock.regular.any() else 0.0
