"""Is the place that passes for the end of a sharded step its turn from the forward to the backward pass?

Fully sharded training gathers every layer forward, and gathers it again and reduces its gradients backward. Where the
optimizer is quick and the first layers are gathered at once, the longest pause of the step is not its end but its
turn, where the last layer is computed forward and backward. Both explanations of a place compete. Under either the
forward pass has about a third of the bytes, from the end to the turn, and its pauses are shorter than those of the
backward pass, because a layer takes half as long; its bursts have another size, because the backward pass reduces too
(or because nothing pauses between the gathers of a quick forward pass). So pauses and bursts are coded with one median
for each of the two passes, once with the place as the end of the step and once with the place as its turn; the code
with fewer bits per pause wins.

Where the place is the turn, the step ends after the last pause of the backward pass, with one more reduction: half of
what the backward pass sends between two pauses. Nothing need be silent there, so the end is found in byte-space. Where
that pause is clearly longer than those of the backward pass, it is the optimizer's, and the step ends in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.parallelism.byte_time import time_at
from llmprism.parallelism.heavy_end import long_pauses, pause_series
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.silences import Silences

__all__ = ["clock_before_turn"]


@dataclass(frozen=True, slots=True)
class _PausesAndBursts:
    """The pauses and the bursts of all steps laid over each other: their places as shares of a step's bytes, and the
    logarithms (base 2) of their lengths and of their bytes relative to those of a step. `number` counts the bytes in
    steps: the pause lies in the step of that number."""

    number: Int64
    pause_place: Float64
    pause: Float64
    burst_place: Float64
    burst: Float64


@dataclass(frozen=True, slots=True)
class _TwoPasses:
    """A step that ends at `end`, of whose bytes the forward pass has `share`; `bits` that this saves."""

    end: float
    share: float
    bits: float


def clock_before_turn(
    transfers: TransferTable, pairs: Bool, clock: StepClock, place: float, rules: LayoutRules = RULES
) -> StepClock | None:
    """The clock that ends the steps before their forward pass, where `place` (a share of a step's bytes after the
    clock's boundary) is their turn rather than their end; None where it is not."""
    silences = pause_series(transfers, pairs, clock, rules) if clock.steps >= rules.clock.least_steps else None
    if silences is None:
        return None
    begins = _bytes_at(silences, clock)
    fold = _folded(silences, begins, clock, rules)
    if fold is None or not _turns_in_a_layer(fold, place, rules):
        return None
    reach = rules.ends.turn_reach
    near = np.arange(-reach, reach + 1e-9, rules.ends.turn_grid)
    as_end = _best(fold, [(place + off, share) for off in near for share in rules.ends.forward_shares], rules)
    as_turn = _best(fold, [(place + off - share, share) for off in near for share in rules.ends.forward_shares], rules)
    observations = fold.pause.size + fold.burst.size
    if as_turn.bits <= max(as_end.bits, 0.0) + rules.ends.turn_margin_bits * observations:
        return None
    return _shifted(silences, begins, clock, _end_of(fold, as_turn, rules))


def _bytes_at(silences: Silences, clock: StepClock) -> Float64:
    """Bytes sent by each boundary."""
    at = np.searchsorted(silences.begin_ns, clock.boundary_ns, side="right") - 1
    begins: Float64 = silences.bytes_before[np.maximum(at, 0)].astype(np.float64)
    return begins


def _folded(silences: Silences, begins: Float64, clock: StepClock, rules: LayoutRules) -> _PausesAndBursts | None:
    """None where the steps have too few pauses to show their passes, or no bytes."""
    chosen = long_pauses(silences, clock, rules)
    if chosen.size < rules.ends.turn_pauses * clock.steps or not (np.diff(begins) > 0).any():
        return None
    where, weight = silences.bytes_before[chosen].astype(np.float64), np.diff(silences.bytes_before[chosen])
    place, step, known = _place_in(where, begins)
    middle, _, inside = _place_in(where[:-1] + 0.5 * weight, begins)
    inside &= weight > 0
    usual = max(float(median(np.diff(begins))), 1.0)
    fold = _PausesAndBursts(
        step[known], place[known], np.log2(np.maximum(silences.length_ns[chosen][known], 1)), middle[inside],
        np.log2(weight[inside] / usual),
    )  # fmt: skip
    return fold if min(fold.pause.size, fold.burst.size) > 0 else None


def _place_in(where: Float64, begins: Float64) -> tuple[Float64, Int64, Bool]:
    """The place of each byte in its step, which step that is, and whether it lies in one at all."""
    step = np.searchsorted(begins, where, side="right") - 1
    known = (step >= 0) & (step < begins.size - 1)
    step = np.clip(step, 0, begins.size - 2)
    return (where - begins[step]) / np.maximum(begins[step + 1] - begins[step], 1.0), step, known


def _turns_in_a_layer(fold: _PausesAndBursts, place: float, rules: LayoutRules) -> bool:
    """Is the pause at the place no longer than a layer takes forward and backward? The silence of a whole forward pass
    is."""
    near = np.abs((fold.pause_place - place + 0.5) % 1.0 - 0.5) <= rules.ends.turn_grid
    if not near.any() or near.all():
        return False
    usual = float(median(fold.pause[~near]))
    return float(median(fold.pause[near])) - usual <= float(np.log2(rules.ends.turn_pause))


def _best(fold: _PausesAndBursts, candidates: list[tuple[float, float]], rules: LayoutRules) -> _TwoPasses:
    """The end of the step and the share of the forward pass that save most bits."""
    alone = _bits(fold.pause, np.zeros(fold.pause.size, dtype=np.bool_), rules)
    alone_burst = _bits(fold.burst, np.zeros(fold.burst.size, dtype=np.bool_), rules)
    best = _TwoPasses(0.0, 0.0, -np.inf)
    for end, share in candidates:
        forward = (fold.pause_place - end) % 1.0 < share
        saved = alone - _bits(fold.pause, forward, rules)
        if forward.any() and not forward.all() and median(fold.pause[forward]) > median(fold.pause[~forward]):
            saved = -abs(saved)  # forward pauses are the shorter ones
        saved += alone_burst - _bits(fold.burst, (fold.burst_place - end) % 1.0 < share, rules)
        if saved > best.bits:
            best = _TwoPasses(end % 1.0, share, float(saved))
    return best


def _bits(value: Float64, forward: Bool, rules: LayoutRules) -> float:
    """Bits of the values where both passes have a median of their own (one for all where there is one pass only), and
    heavy tails around it, as in `clock_score`; a median costs half of the logarithm of how often it is used."""
    off, price = np.empty_like(value), 0.0
    for part in (forward, ~forward):
        if part.any():
            off[part] = value[part] - median(value[part])
            price += 0.5 * np.log2(part.sum())
    scale = float(median(np.abs(off))) + rules.ends.turn_resolution_bits
    return float(value.size * np.log2(scale) + np.log2(1.0 + (off / scale) ** 2).sum() + price)


def _end_of(fold: _PausesAndBursts, found: _TwoPasses, rules: LayoutRules) -> float:
    """The end: one reduction after the last of the backward pass's pauses, or the first of those that are clearly
    longer: the optimizer's, which ranks end one after the other."""
    forward = (fold.pause_place - found.end) % 1.0 < found.share
    backward = float(median(fold.pause[~forward]))
    level = 0.5 * (backward + float(median(fold.pause[forward]))) if forward.any() else backward - 1.0
    sends = (fold.burst_place - found.end) % 1.0 >= found.share
    reduction = 0.5 * float(2.0 ** median(fold.burst[sends])) if sends.any() else 0.0
    since = fold.number + fold.pause_place - (found.end + rules.ends.turn_reach)  # in steps, the last before 0 counts
    before = (fold.pause >= level) & (-since % 1.0 <= 2.0 * rules.ends.turn_reach + reduction)
    if not before.any():
        return found.end
    own = before & (fold.pause - backward >= float(np.log2(rules.ends.clearly_longer)))
    nearest, _, steps = _outer_of_steps(since[before])
    if own.any():
        _, first, seen = _outer_of_steps(since[own])
        if seen >= rules.ends.heavy_seen * steps:
            return (found.end + rules.ends.turn_reach - first) % 1.0
    return (found.end + rules.ends.turn_reach - nearest + reduction) % 1.0


def _outer_of_steps(since: Float64) -> tuple[float, float, int]:
    """How far the last and the first of the pauses of most steps lie before a place, which lie so many steps after it;
    and how many steps have any."""
    step = np.floor(since).astype(np.int64)
    order = np.lexsort((-since % 1.0, step))
    _, first, count = np.unique(step[order], return_index=True, return_counts=True)
    off = -since[order] % 1.0
    return float(median(off[first])), float(median(off[first + count - 1])), int(first.size)


def _shifted(silences: Silences, begins: Float64, clock: StepClock, end: float) -> StepClock:
    """The clock, moved on by a share of the bytes of each step; bytes flow evenly between the silences."""
    step = np.diff(begins, append=begins[-1] + float(median(np.diff(begins))))
    wanted = begins + end * step
    when = time_at(silences, wanted[wanted <= silences.bytes_before[-1]])
    return StepClock(when, clock.regular[: max(when.size - 1, 0)], clock.dominance)
