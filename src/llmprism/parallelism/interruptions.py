"""Steps end where something interrupts the job: a checkpoint, an evaluation, a late batch of data.

Between two steps, and nowhere else, a healthy job may rest for any length of time. So a silence of everybody that is
far longer than those that every step has tells where a step ended, whatever else the step shows: it begins where the
last message of the step ended.

Such silences must agree about the place of the step's bytes: faults interrupt a job too, at any place, mostly in
several steps in a row (only silences in steps whose neighbours have none count).

* Where they agree about a place next to the ticks, the tick at each is moved to its beginning. What the ticks were
  taken for (the last collective before the pipelines wake, a place in byte-space) may just as well be the first message
  of the next step; with the usual short rest that makes no difference, after a checkpoint it does.
* Where they agree about another place, all ticks are moved to that place.

The begin of a job interrupts it as well, once, at a place that bytes tell (`job_begin`). Pipelines exchange other bytes
while they are set up, and do not need it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.job_begin import place_by_begin
from llmprism.parallelism.phase import message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["after_interruptions", "interruption_ns"]


@dataclass(frozen=True, slots=True)
class _Interruptions:
    """Silences that interrupt the job, the tick before each, and the share of the bytes from that tick to the next that
    is sent before it."""

    begin_ns: Int64
    tick: Int64
    before: Float64


def after_interruptions(
    transfers: TransferTable, clock: StepClock, rules: LayoutRules = RULES, *, has_pipelines: bool = False
) -> StepClock:
    """The clock, its ticks moved to where interruptions begin."""
    if clock.steps < rules.clock.least_steps:
        return clock
    silences = message_silences(transfers, transfers.pair_bytes > 0)
    if silences.count < clock.steps:
        return clock
    begun = None if has_pipelines else place_by_begin(silences, clock, interruption_ns(silences, clock, rules), rules)
    if begun is not None:
        clock = _at_place(silences, clock, begun, rules)
    found = _interruptions(silences, clock, rules)
    if not found.begin_ns.size:
        return clock
    common = _common_place(found, rules)
    if common is None:
        return clock
    place, agreeing = common
    if min(place, 1.0 - place) > rules.ends.interruption_near:
        if agreeing < rules.ends.interruptions_elsewhere:
            return clock
        clock = _at_place(silences, clock, place, rules)
        found, place = _interruptions(silences, clock, rules), 0.0
    return _snapped(found, clock, place, rules)


def _interruptions(silences: Silences, clock: StepClock, rules: LayoutRules) -> _Interruptions:
    """The silences of single steps that are far longer than the longest of the usual steps. In its first step a job is
    set up, which takes long and interrupts nothing."""
    ticks, step = clock.boundary_ns, _steps_of(silences, clock)
    chosen = np.flatnonzero((step > 0) & (_lengths(silences) > interruption_ns(silences, clock, rules)))
    chosen = chosen[_isolated(step[chosen])]
    sent, at = bytes_at(silences, ticks), silences.bytes_before[chosen].astype(np.float64)
    size = np.maximum(np.diff(sent), 1.0)[step[chosen]]
    return _Interruptions(silences.begin_ns[chosen], step[chosen], (at - sent[step[chosen]]) / size)


def interruption_ns(silences: Silences, clock: StepClock, rules: LayoutRules) -> float:
    """The length from which a silence is far longer than the longest of the usual steps."""
    rule, step = rules.ends, _steps_of(silences, clock)
    longest = np.zeros(clock.boundary_ns.size - 1)
    np.maximum.at(longest, step[step >= 0], _lengths(silences)[step >= 0])
    usual = float(median(longest))
    spread = float(median(np.abs(longest - usual)))
    limit = max(usual + rule.interruption_spreads * spread, rule.interruption * usual)
    return max(limit, usual + rule.interruption_share * clock.period_ns)


def _steps_of(silences: Silences, clock: StepClock) -> Int64:
    """The step in which each silence begins, -1 outside of all."""
    step = np.searchsorted(clock.boundary_ns, silences.begin_ns, side="right") - 1
    return np.where(step < clock.boundary_ns.size - 1, step, -1)


def _lengths(silences: Silences) -> Float64:
    """How long each silence is; of the last one nobody saw the end."""
    length: Float64 = silences.length_ns.astype(np.float64)
    length[-1] = 0.0
    return length


def _isolated(step: Int64) -> Bool:
    """Which of these (ascending) steps have no neighbour among them, and occur once."""
    alone: Bool = (np.diff(step, prepend=-2) > 1) & (np.diff(step, append=np.iinfo(np.int64).max) > 1)
    return alone


def _common_place(found: _Interruptions, rules: LayoutRules) -> tuple[float, int] | None:
    """The place of the step's bytes at which most interruptions begin, and by how many more these are than the others;
    None where too few agree."""
    rule = rules.ends
    apart = np.abs((found.before[:, None] - found.before[None, :] + 0.5) % 1.0 - 0.5)
    near = apart <= rule.interruption_place
    best = int(np.argmax(near.sum(axis=1)))
    agreeing = 2 * int(near[best].sum()) - found.before.size
    place = float(found.before[best])
    if agreeing < rule.interruptions:
        return None
    off = (found.before[near[best]] - place + 0.5) % 1.0 - 0.5
    return (place + float(median(off))) % 1.0, agreeing


def _at_place(silences: Silences, clock: StepClock, place: float, rules: LayoutRules) -> StepClock:
    """The clock at another place of its steps' bytes: in each step at the nearest silence, if one is near."""
    sent = bytes_at(silences, clock.boundary_ns)
    size = np.diff(sent, append=sent[-1] + float(median(np.diff(sent))))
    wanted = sent + place * size
    position = silences.bytes_before.astype(np.float64)
    seen = wanted <= position[-1]
    ticks = time_at(silences, wanted)
    reach = rules.ends.interruption_place * size
    first, last = (np.searchsorted(position, wanted + way * reach) for way in (-1, 1))
    for k in np.flatnonzero(last > first).tolist():
        ticks[k] = silences.begin_ns[first[k] + int(np.argmin(np.abs(position[first[k] : last[k]] - wanted[k])))]
    ticks = ticks[seen]
    if (np.diff(ticks) <= 0).any():
        return clock
    return StepClock(ticks, clock.regular[: max(ticks.size - 1, 0)], clock.dominance)


def _snapped(found: _Interruptions, clock: StepClock, place: float, rules: LayoutRules) -> StepClock:
    """The clock, each tick next to an interruption at the common place moved to its beginning."""
    ticks = clock.boundary_ns.copy()
    for begin, tick, before in zip(found.begin_ns, found.tick, found.before, strict=True):
        if abs((before - place + 0.5) % 1.0 - 0.5) <= rules.ends.interruption_place:
            ticks[tick + round(before)] = begin
    return clock if (np.diff(ticks) <= 0).any() else replace(clock, boundary_ns=ticks)
