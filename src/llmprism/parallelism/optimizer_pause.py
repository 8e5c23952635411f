"""Where in the step the optimizer runs, by the tiny messages that it exchanges.

Before parameters change, the ranks agree on the norm of all gradients and on whether any of them overflowed: crowds of
messages of a few bytes, once in every step, whatever else the step sends and however short its pauses are. They lie in
the pause of the optimizer. What that says about the end of the step depends on the pauses around it:

* It is the longest pause of the step, or what follows is not one dense burst: the step ends with it. So in replicated
  training, whose forward pass is silent too, and in fully sharded training, which gathers layer by layer again.
* One dense burst of a third to a half of the bytes follows, and then the longest pause: parameters are gathered after
  the optimizer (ZeRO 1 and 2) and the forward pass is silent. The step ends with the gathering.

Where the crowds fill the whole pause, the optimizer itself communicates, and the step ends with the last of them.
Where tiny messages come all the time (gloo announces every transfer) or never, nothing is said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.model.clock import StepClock
from llmprism.model.flows import Int64, TransferTable
from llmprism.parallelism.row_silences import control_limit
from llmprism.stats.order import stable_order
from llmprism.stats.silences import Silences, silences_of

__all__ = ["OptimizerPause", "after_control", "optimizer_pause"]

MOMENT: Final = 0.01
"""Share of a step within which the messages of one exchange end..."""

MOMENT_FLOOR_NS: Final = 2_000_000
"""...or the time by which the clocks of two switches differ."""

PLACES: Final = 50
"""Places of the step, in equal bytes, at which the tiny messages are counted."""

TAKE_PART: Final = 0.25
"""Tiny messages per step and member at the place: the exchange goes round all of them, partly within servers."""

SEEN: Final = 0.7
"""Share of the steps in which it must be seen there."""

STANDS_OUT: Final = 1.5
"""Tiny messages at the place relative to any other place of the step; of several such places the optimizer's is the
one with the longest pause."""

BEYOND_CHATTER: Final = 1.5
"""Share of the tiny messages in a pause relative to its share of the time: heartbeats come at any time."""

ALONE: Final = 0.8
"""Share of the tiny messages that are exchanged in the optimizer's pause where nothing else exchanges any."""

FILLED: Final = 0.25
"""Longest time without a tiny message, as a share of a pause, below which they fill it."""

DENSE: Final = 0.25
"""Longest pause while parameters are gathered, relative to the silent forward pass after it: nobody computes."""

LONGER: Final = 1.5
"""A pause relative to another from which it is clearly longer: that of the optimizer relative to the longest other one
where no forward pass is silent elsewhere."""

GATHERED: Final = (0.28, 0.55)
"""Share of the step's bytes that parameters are gathered in: a third after an all-reduce or a reduction in twice the
precision, half after a reduction in the same."""


@dataclass(frozen=True, slots=True)
class OptimizerPause:
    """`shift` is the share of a step's bytes from the clock's boundary to the end of the step. `gathers` where
    parameters are gathered between the optimizer and that end, `longest` where the optimizer's pause is the longest of
    the step by far; where neither holds, only a step that gathers layer by layer can end so. `alone` where tiny
    messages come nowhere else."""

    shift: float
    gathers: bool
    longest: bool
    alone: bool = False


@dataclass(frozen=True, slots=True)
class _Fold:
    """The pauses of all steps laid over each other: place in the step, length as a share of it, and which step."""

    place: Float64
    length: Float64
    step: Int64
    steps: int


def optimizer_pause(transfers: TransferTable, pairs: Bool, clock: StepClock) -> OptimizerPause | None:
    """Where the steps of these pairs end by the tiny messages of the optimizer; None where they do not tell."""
    limit = control_limit(transfers, pairs)
    rows = np.flatnonzero(transfers.rows_of(pairs) & (transfers.bytes >= limit))
    tiny = _crowds(transfers, pairs, limit, clock)
    if clock.steps < 3 or not rows.size or not tiny.size:
        return None
    rows = rows[stable_order(transfers.start_ns[rows])]
    silences = silences_of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows], 0)
    if not silences.count:
        return None
    members = _members(transfers, pairs)
    place, step = _place_of(silences, tiny, clock)
    fold = _fold(silences, clock)
    crowded = _crowded_places(place[step >= 0], step[step >= 0], fold.steps, members)
    pauses = np.array([_usual_pause(fold, _near(fold.place, where)) for where in crowded])
    order = np.argsort(pauses)[::-1]
    if not crowded or (order.size > 1 and pauses[order[0]] < LONGER * pauses[order[1]]):
        return None
    near = _near(place[step >= 0], crowded[order[0]])
    if near.mean() < BEYOND_CHATTER * pauses[order[0]]:
        return None
    found = _end_after(crowded[order[0]], fold)
    if order.size > 1 and not found.longest:
        return None
    return replace(found, alone=bool(near.mean() >= ALONE))


def _members(transfers: TransferTable, pairs: Bool) -> int:
    return int(np.union1d(transfers.pair_src[pairs], transfers.pair_dst[pairs]).size)


def _crowds(transfers: TransferTable, pairs: Bool, limit: float, clock: StepClock) -> Int64:
    """When tiny messages ended that came in crowds, ascending: heartbeats come one by one."""
    when = np.sort(transfers.end_ns[(transfers.bytes > 0) & (transfers.bytes < limit)])
    moment = max(MOMENT_FLOOR_NS, int(MOMENT * clock.period_ns))
    least = max(2, int(TAKE_PART * _members(transfers, pairs)))
    index = np.arange(when.size)
    begun = index - np.searchsorted(when, when - moment, side="left")
    to_come = np.searchsorted(when, when + moment, side="right") - index - 1
    return when[begun + to_come + 1 >= least]


def _place_of(silences: Silences, when_ns: Int64, clock: StepClock) -> tuple[Float64, Int64]:
    """Share of its step's bytes sent by each time, and its step (-1 outside of all)."""
    boundary = clock.boundary_ns
    at, sent = _sent_by(silences, boundary), _sent_by(silences, when_ns)
    step = np.searchsorted(boundary, when_ns, side="right") - 1
    step = np.where(step < boundary.size - 1, step, -1)
    size = np.append(np.maximum(np.diff(at), 1.0), 1.0)
    return np.where(step >= 0, (sent - at[step]) / size[step], 0.0), step


def _sent_by(silences: Silences, when_ns: Int64) -> Float64:
    """Bytes sent by each time: none in the silences, evenly between them."""
    ends = np.stack([silences.begin_ns, silences.begin_ns + silences.length_ns], axis=1).ravel()
    first = int(ends[0])
    sent: Float64 = np.interp(when_ns - first, ends - first, np.repeat(silences.bytes_before, 2).astype(np.float64))
    return sent


def _crowded_places(place: Float64, step: Int64, steps: int, members: int) -> list[float]:
    """The places of the step at which tiny messages crowd in most steps."""
    slot = np.clip((place * PLACES).astype(np.int64), 0, PLACES - 1)
    count = np.bincount(slot, minlength=PLACES).astype(np.float64)
    crowd = count + np.roll(count, 1) + np.roll(count, -1)
    least = max(TAKE_PART * members * steps, crowd.max() / STANDS_OUT)
    found: list[float] = []
    while crowd.max() >= least:
        best = int(np.argmax(crowd))
        offset = (place - (best + 0.5) / PLACES + 0.5) % 1.0 - 0.5
        inside = np.abs(offset) <= 1.5 / PLACES
        crowd[np.arange(best - 3, best + 4) % PLACES] = 0.0
        if np.unique(step[inside]).size >= SEEN * steps:
            found.append(float(((best + 0.5) / PLACES + np.median(offset[inside])) % 1.0))
    return found


def _near(place: Float64, where: float) -> Bool:
    """Which places are the same as this one?"""
    near: Bool = np.abs((place - where + 0.5) % 1.0 - 0.5) <= 1.0 / PLACES
    return near


def _fold(silences: Silences, clock: StepClock) -> _Fold:
    place, step = _place_of(silences, silences.begin_ns, clock)
    known = step >= 0
    length = silences.length_ns[known] / np.maximum(np.diff(clock.boundary_ns)[step[known]], 1)
    return _Fold(place[known], length.astype(np.float64), step[known], clock.boundary_ns.size - 1)


def _usual_pause(fold: _Fold, near: Bool) -> float:
    """The longest pause of a step among these, in most steps; 0 where most steps have none."""
    longest = np.zeros(fold.steps)
    np.maximum.at(longest, fold.step[near], fold.length[near])
    return float(np.median(longest))


def _end_after(optimizer: float, fold: _Fold) -> OptimizerPause:
    """The end of the step, by the pauses that follow the optimizer's."""
    after = (fold.place - optimizer) % 1.0
    width = 1.0 / PLACES
    own = _usual_pause(fold, _near(after, 0.0))
    slots = np.array([_usual_pause(fold, np.abs(after - (slot + 0.5) * width) <= width) for slot in range(PLACES)])
    slots[[0, PLACES - 1]] = 0.0
    longest = int(np.argmax(slots))
    share = (longest + 0.5) * width
    between = slots[1 : max(longest - 1, 1)]
    dense = not between.size or float(between.max()) < DENSE * slots[longest]
    stands_out = own >= LONGER * slots[longest]
    if stands_out or not dense or not GATHERED[0] <= share <= GATHERED[1]:
        return OptimizerPause(optimizer, gathers=False, longest=bool(stands_out))
    at = (np.abs(after - share) <= width) & (fold.length >= 0.5 * slots[longest])
    return OptimizerPause((optimizer + float(np.median(after[at]))) % 1.0, gathers=True, longest=False)


def after_control(transfers: TransferTable, pairs: Bool, clock: StepClock) -> StepClock:
    """The clock, moved over the pauses that tiny messages fill from end to end in most steps."""
    limit = control_limit(transfers, pairs)
    tensors = transfers.bytes >= limit
    start = np.sort(transfers.start_ns[transfers.rows_of(pairs) & tensors])
    tiny = _crowds(transfers, pairs, limit, clock)
    following = np.searchsorted(start, clock.boundary_ns, side="right")
    awake = np.append(start, clock.boundary_ns[-1])[np.minimum(following, start.size)]
    first, last = (np.searchsorted(tiny, when) for when in (clock.boundary_ns, awake))
    free = np.ones(clock.boundary_ns.size)
    moved = clock.boundary_ns.copy()
    for k, (a, b) in enumerate(zip(first.tolist(), last.tolist(), strict=True)):
        if b > a:
            stretches = np.diff(np.concatenate([[clock.boundary_ns[k]], tiny[a:b], [awake[k]]]))
            free[k] = float(stretches.max()) / max(int(awake[k] - clock.boundary_ns[k]), 1)
            moved[k] = tiny[b - 1]
    paused = np.maximum(awake - clock.boundary_ns, 0)[:-1].sum() / max(int(np.diff(clock.boundary_ns).sum()), 1)
    share = (last - first)[:-1].sum() / max(int(first[-1] - first[0]), 1)
    if float(np.median(free)) >= FILLED or share < BEYOND_CHATTER * paused:
        return clock
    usual = int(np.median((moved - clock.boundary_ns)[free < FILLED]))
    boundary = np.where(
        free < FILLED, moved, clock.boundary_ns + np.minimum(usual, np.maximum(awake - clock.boundary_ns, 0))
    )
    return StepClock(boundary.astype(np.int64), clock.regular, clock.dominance)
