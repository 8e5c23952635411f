"""Where in the step the optimizer runs, by the tiny messages that it exchanges.

Before parameters change, the ranks agree on the norm of all gradients and on whether any of them overflowed: crowds of
messages of a few bytes, once in every step, whatever else the step sends and however short its pauses are. They lie in
the pause of the optimizer. What that says about the end of the step depends on the pauses around it:

* It is the longest pause of the step, or what follows is not one dense burst: the step ends with it. So in replicated
  training, whose forward pass is silent too, and in fully sharded training, which gathers layer by layer again.
* One dense burst of a third to a half of the bytes follows, and then the longest pause: parameters are gathered after
  the optimizer (ZeRO 1 and 2) and the forward pass is silent. The step ends with the gathering. Passes of accumulated
  gradients have as long a pause each; the first of them ends the gathering.
* Where the optimizer's pause is longer than the one after the burst, the forward pass is not silent: it gathers its
  layers in that burst (ZeRO 3 that keeps them), and the step ends before it.
* Where the burst takes longer per byte than the reduction before it, it waits for somebody: parameters are gathered
  bucket by bucket under the next forward pass, which has done with one before it needs the next, and the step ends
  before it. What is gathered at the end of a step waits for nothing, and goes as fast as the network.

Where the crowds fill the whole pause, the optimizer itself communicates, and the step ends with the last of them.
Where tiny messages come all the time (gloo announces every transfer), where steps do not pause, or never, nothing is
said.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.byte_time import bytes_at, time_at
from llmprism.parallelism.row_silences import control_limit
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.integer_order import stable_order
from llmprism.stats.silences import Silences, silences_of

__all__ = ["OptimizerPause", "after_control", "optimizer_pause"]


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


def optimizer_pause(
    transfers: TransferTable, pairs: Bool, clock: StepClock, rules: LayoutRules = RULES
) -> OptimizerPause | None:
    """Where the steps of these pairs end by the tiny messages of the optimizer; None where they do not tell."""
    limit = control_limit(transfers, pairs, rules)
    rows = np.flatnonzero(transfers.rows_of(pairs) & (transfers.bytes >= limit))
    tiny = _crowds(transfers, pairs, limit, clock, rules)
    if clock.steps < 3 or not rows.size or not tiny.size:
        return None
    rows = rows[stable_order(transfers.start_ns[rows])]
    silences = silences_of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows], 0)
    if not silences.count:
        return None
    members = _members(transfers, pairs)
    place, step = _place_of(silences, tiny, clock)
    fold = _fold(silences, clock)
    crowded = _crowded_places(place[step >= 0], step[step >= 0], fold.steps, members, rules)
    pauses = np.array([_usual_pause(fold, _near(fold.place, where, rules)) for where in crowded])
    order = np.argsort(pauses)[::-1]
    if not crowded or (order.size > 1 and pauses[order[0]] < rules.ends.clearly_longer * pauses[order[1]]):
        return None
    near = _near(place[step >= 0], crowded[order[0]], rules)
    if pauses[order[0]] <= 0.0 or near.mean() < rules.ends.beyond_chatter * pauses[order[0]]:
        return None
    found = _end_after(crowded[order[0]], fold, rules)
    if found.gathers and _paced_by_a_pass(silences, clock, crowded[order[0]], found.shift, rules):
        found = replace(found, shift=crowded[order[0]])
    if order.size > 1 and not found.longest:
        return None
    return replace(found, alone=_share_of_steps(near, step[step >= 0]) >= rules.ends.exchanged_alone)


def _share_of_steps(near: Bool, step: Int64) -> float:
    """Share of its tiny messages that most steps exchange near the place: while a job is set up it exchanges others."""
    each = np.bincount(step)
    return float(median((np.bincount(step, near) / np.maximum(each, 1))[each > 0]))


def _members(transfers: TransferTable, pairs: Bool) -> int:
    return int(np.union1d(transfers.pair_src[pairs], transfers.pair_dst[pairs]).size)


def _crowds(transfers: TransferTable, pairs: Bool, limit: float, clock: StepClock, rules: LayoutRules) -> Int64:
    """When tiny messages ended that came in crowds, ascending: heartbeats come one by one."""
    when = np.sort(transfers.end_ns[(transfers.bytes > 0) & (transfers.bytes < limit)])
    moment = max(rules.ends.moment_floor_ns, int(rules.ends.moment * clock.period_ns))
    least = max(2, int(rules.ends.take_part * _members(transfers, pairs)))
    index = np.arange(when.size)
    begun = index - np.searchsorted(when, when - moment, side="left")
    to_come = np.searchsorted(when, when + moment, side="right") - index - 1
    return when[begun + to_come + 1 >= least]


def _place_of(silences: Silences, when_ns: Int64, clock: StepClock) -> tuple[Float64, Int64]:
    """Share of its step's bytes sent by each time, and its step (-1 outside of all)."""
    boundary = clock.boundary_ns
    at, sent = bytes_at(silences, boundary), bytes_at(silences, when_ns)
    step = np.searchsorted(boundary, when_ns, side="right") - 1
    step = np.where(step < boundary.size - 1, step, -1)
    size = np.append(np.maximum(np.diff(at), 1.0), 1.0)
    return np.where(step >= 0, (sent - at[step]) / size[step], 0.0), step


def _crowded_places(place: Float64, step: Int64, steps: int, members: int, rules: LayoutRules) -> list[float]:
    """The places of the step at which tiny messages crowd in most steps."""
    rule = rules.ends
    slot = np.clip((place * rule.tiny_places).astype(np.int64), 0, rule.tiny_places - 1)
    count = np.bincount(slot, minlength=rule.tiny_places).astype(np.float64)
    crowd = count + np.roll(count, 1) + np.roll(count, -1)
    least = max(rule.take_part * members * steps, crowd.max() / rule.tiny_stands_out)
    found: list[float] = []
    while crowd.max() >= least:
        best = int(np.argmax(crowd))
        offset = (place - (best + 0.5) / rule.tiny_places + 0.5) % 1.0 - 0.5
        inside = np.abs(offset) <= 1.5 / rule.tiny_places
        crowd[np.arange(best - 3, best + 4) % rule.tiny_places] = 0.0
        if np.unique(step[inside]).size >= rule.norm_seen * steps:
            found.append(float(((best + 0.5) / rule.tiny_places + np.median(offset[inside])) % 1.0))
    return found


def _near(place: Float64, where: float, rules: LayoutRules) -> Bool:
    """Which places are the same as this one?"""
    near: Bool = np.abs((place - where + 0.5) % 1.0 - 0.5) <= 1.0 / rules.ends.tiny_places
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


def _end_after(optimizer: float, fold: _Fold, rules: LayoutRules) -> OptimizerPause:
    """The end of the step, by the pauses that follow the optimizer's."""
    after = (fold.place - optimizer) % 1.0
    width = 1.0 / rules.ends.tiny_places
    own = _usual_pause(fold, _near(after, 0.0, rules))
    slots = np.array(
        [_usual_pause(fold, np.abs(after - (slot + 0.5) * width) <= width) for slot in range(rules.ends.tiny_places)]
    )
    slots[[0, rules.ends.tiny_places - 1]] = 0.0
    longest = float(slots.max())
    long = slots >= longest / rules.ends.clearly_longer
    first = int(np.argmax(long))
    first += int(np.argmax(slots[first : first + 2]))  # a pause between two places is seen at both
    share = (first + 0.5) * width
    between = slots[1 : max(first - 1, 1)]
    dense = not between.size or float(between.max()) < rules.ends.gather_pause * slots[first]
    gathered = dense and rules.ends.gathered_share[0] <= share <= rules.ends.gathered_share[1]
    if not gathered or own > slots[first]:
        stands_out = own > longest if gathered else own >= rules.ends.clearly_longer * longest
        return OptimizerPause(optimizer, gathers=False, longest=bool(stands_out))
    at = (np.abs(after - share) <= width) & (fold.length >= 0.5 * slots[first])
    return OptimizerPause((optimizer + float(np.median(after[at]))) % 1.0, gathers=True, longest=False)


def _paced_by_a_pass(silences: Silences, clock: StepClock, optimizer: float, end: float, rules: LayoutRules) -> bool:
    """Does what is gathered between these two places of the step take clearly longer per byte than what is reduced
    before it? Passes that accumulate gradients only make the reduction the slower one."""
    sent = bytes_at(silences, clock.boundary_ns)
    begin, size = sent[1:-1], np.diff(sent)[1:]
    gathered, margin = (end - optimizer) % 1.0, 1.0 / rules.ends.tiny_places

    def each_byte(since: float, share: float) -> Float64:
        """Time for each share of the bytes from that place on, without its edges, which lie in pauses."""
        first, last = (time_at(silences, begin + (since + off) * size) for off in (margin, share - margin))
        taken: Float64 = (last - first) / (share - 2.0 * margin)
        return taken

    slower = each_byte(optimizer, gathered) / np.maximum(each_byte(optimizer + gathered - 1.0, 1.0 - gathered), 1.0)
    return float(median(slower)) >= rules.ends.clearly_longer


def after_control(transfers: TransferTable, pairs: Bool, clock: StepClock, rules: LayoutRules = RULES) -> StepClock:
    """The clock, moved over the pauses that tiny messages fill from end to end in most steps."""
    limit = control_limit(transfers, pairs, rules)
    tensors = transfers.bytes >= limit
    start = np.sort(transfers.start_ns[transfers.rows_of(pairs) & tensors])
    tiny = _crowds(transfers, pairs, limit, clock, rules)
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
    if float(np.median(free)) >= rules.ends.pause_filled or share < rules.ends.beyond_chatter * paused:
        return clock
    usual = int(np.median((moved - clock.boundary_ns)[free < rules.ends.pause_filled]))
    boundary = np.where(
        free < rules.ends.pause_filled,
        moved,
        clock.boundary_ns + np.minimum(usual, np.maximum(awake - clock.boundary_ns, 0)),
    )
    return StepClock(boundary.astype(np.int64), clock.regular, clock.dominance)
