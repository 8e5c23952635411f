"""Is a clock too fast: do its ticks differ from each other in the rhythm of a slower one?

Passes of accumulated gradients, buckets, layers and micro-batches repeat inside a step, and a clock of them predicts
most pauses as well as the clock of the steps does, with fewer places to know. What it does not predict is what comes
once in a step: the forward pass before the first bucket, the optimizer after the last pass, the turn from forward to
backward. So the time that each part of a tick takes (parts of equal bytes, and the whole tick) is laid out as a series,
and each entry is predicted twice: by all other ticks, and by the ticks at the same place of the slower clock. What the
second saves, in bits, less the price of saying at which places it is used, is what the faster clock leaves unexplained.

Pairs of one job wait for each other, so their deviations are one observation: the median over the pairs is taken first.
Each entry is predicted by others only; a slower clock gains nothing by having fewer of them at each place.

Steps with a checkpoint or an evaluation after every few of them look the same, with one tick in k longer than the
others. But a step has a pause of its own that stands out from all others within it, and parts of a step mostly do not.
So where a single tick of the slower step differs (and the one after it), the ticks are steps if a pause of theirs
stands out (the more of them there are in the slower step, the less it has to), or if that was seen a few times only;
unless the inside of the tick differs too. Nobody evaluates after every second step, for half of the time, or again and
again after every few steps. And where some pairs send in one tick of the slower step only (gradients, beside what every
micro-batch sends), it is a step.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from llmprism.arrays import Bool, Float64, Int64, median, medians
from llmprism.model.clock import StepClock
from llmprism.parallelism.clock_score import Pauses, sent_by_ticks
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.robust import known_median

__all__ = ["Compound", "are_alike", "are_steps", "slower_clock", "ticks_in_steps"]


@dataclass(frozen=True, slots=True)
class Compound:
    """`ticks` of the faster clock make one step of the slower one, which saves `bits` on the lengths of the ticks and
    their parts, `tick_bits` of them on the ticks. `once`: a single tick of the step differs from the others, or it and
    the next; by `extra` ticks in total they are longer. Steps were seen `steps` times; `whole`: some pairs send once in
    each."""

    ticks: int
    bits: float
    tick_bits: float
    once: bool
    extra: float
    steps: int
    whole: bool = False


def slower_clock(
    pauses: Pauses, clock: StepClock, rivals: list[StepClock], rules: LayoutRules = RULES
) -> tuple[StepClock, Compound] | None:
    """The slower clock that explains what the clock leaves unexplained, of several that do about as well the fastest;
    None where none does."""
    rule = rules.clock
    lengths: Float64 | None = None
    found: list[tuple[StepClock, Compound]] = []
    for rival in rivals:
        place = ticks_in_steps(clock.boundary_ns, rival.boundary_ns, rules) if rival.steps < clock.steps else None
        if place is None:
            continue
        lengths = _part_lengths(pauses, clock.boundary_ns, rules) if lengths is None else lengths
        compound = _saved(lengths, place, rules)
        if compound is not None and _worth(compound, rules):
            found.append((rival, replace(compound, whole=_some_send_once(pauses, clock.boundary_ns, place, rules))))
    if not found:
        return None
    contrast = _contrast(pauses, clock.boundary_ns)
    found = [one for one in found if _are_parts(one[1], contrast, rules)]
    most = max((one.bits for _, one in found), default=0.0)
    worth = [one for one in found if one[1].bits >= rule.compound_share * most]
    return min(worth, key=lambda one: (one[1].ticks, -one[1].bits), default=None)


def are_steps(pauses: Pauses, fast: Int64, slow: Int64, behind: float, rules: LayoutRules = RULES) -> bool:
    """Is the faster clock that of the steps, and the slower one that of checkpoints or evaluations between them?

    `behind`: bits per pause by which the faster one explains less. A single tick of many cannot cost more than all that
    may be said about its own pauses.
    """
    most = rules.clock.other_tick_bits / (rules.clock.few_parts + 1)
    place = ticks_in_steps(fast, slow, rules) if behind <= most else None
    if place is None or place.max() < rules.clock.few_parts:
        return False
    compound = _saved(_part_lengths(pauses, fast, rules), place, rules)
    if compound is None or not compound.once or compound.ticks <= rules.clock.few_parts or not _worth(compound, rules):
        return False
    if behind > rules.clock.other_tick_bits / compound.ticks:
        return False
    compound = replace(compound, whole=_some_send_once(pauses, fast, place, rules))
    return not _are_parts(compound, _contrast(pauses, fast), rules)


def are_alike(pauses: Pauses, fast: Int64, slow: Int64, rules: LayoutRules = RULES) -> bool:
    """Does the place in the slower step tell nothing at all about how long the ticks of the faster one and their parts
    take? Not known, and so False, where they are no part of it."""
    place = ticks_in_steps(fast, slow, rules)
    if place is None:
        return False
    lengths = _part_lengths(pauses, fast, rules)
    if not np.isfinite(lengths[:, 0]).any():  # a message in each: they have no parts, and must be even themselves
        lengths = np.log2(np.diff(fast))[:, None]
        if float(median(np.abs(lengths - median(lengths)))) > rules.clock.pause_resolution_bits:
            return False
    compound = _saved(lengths, place, rules)
    return compound is not None and compound.bits <= 0.0


def _worth(compound: Compound, rules: LayoutRules) -> bool:
    rule = rules.clock
    few = compound.tick_bits < rule.compound_bits or compound.bits < 2.0 * rule.compound_bits
    longer = compound.extra >= rule.least_extra or compound.bits >= rule.certain_bits
    return not few and longer and compound.steps >= rule.least_steps


def _are_parts(compound: Compound, contrast: float, rules: LayoutRules) -> bool:
    """Are the ticks parts of a step, rather than steps with a checkpoint or an evaluation after every few of them?"""
    rule = rules.clock
    if compound.whole or not compound.once or compound.ticks < rule.rare_ticks:
        return True
    if compound.extra >= rule.overhead * (compound.ticks + compound.extra):
        return True
    if compound.ticks <= rule.few_parts and compound.steps >= rule.too_often:
        return True
    if compound.bits >= rule.inside_bits * compound.tick_bits:
        return contrast < rule.step_contrast or compound.bits >= rule.certain_bits
    limit = rule.few_parts_contrast if compound.ticks <= rule.few_parts else rule.many_parts_contrast
    return compound.steps >= rule.often and contrast < limit


def _some_send_once(pauses: Pauses, ticks: Int64, place: Int64, rules: LayoutRules) -> bool:
    """Do some pairs send in one tick of nearly every slower step, or it and the next, and hardly ever in others?"""
    rule, parts = rules.clock, int(place.max()) + 1
    if parts <= rule.few_parts:
        return False  # what is sent over two ticks of a few is no longer rare
    sends = np.diff(sent_by_ticks(pauses, ticks), axis=1) > 0
    at = np.column_stack([sends[:, place == part].sum(axis=1) for part in range(parts)])
    together = at + np.roll(at, -1, axis=1)
    steps = int((place == 0).sum())
    regular = at.max(axis=1) >= rule.whole_share * steps
    return bool((regular & (together.max(axis=1) >= rule.only_there * at.sum(axis=1))).any())


def _contrast(pauses: Pauses, ticks: Int64) -> float:
    """How many times as long as its second longest pause a pair's longest one is, in most ticks."""
    step = np.searchsorted(ticks, pauses.start_ns, side="right") - 1
    used = np.isfinite(pauses.pause) & (step >= 0) & (step < ticks.size - 1)
    pair = np.repeat(np.arange(pauses.offsets.size - 1), np.diff(pauses.offsets))
    cell, pause = (pair * ticks.size + step)[used], pauses.pause[used]
    order = np.lexsort((-pause, cell))
    first = np.flatnonzero(np.diff(cell[order], prepend=-1))
    first = first[np.diff(np.append(first, order.size)) > 1]
    if not first.size:
        return 1.0
    return float(2.0 ** median(pause[order[first]] - pause[order[first + 1]]))


def ticks_in_steps(fast: Int64, slow: Int64, rules: LayoutRules) -> Int64 | None:
    """The place of each faster tick in its slower step, -1 where that has another number of them than most; None where
    the slower clock is no multiple of the faster one."""
    after = np.searchsorted(fast, slow).clip(1, fast.size - 1)
    nearest = np.unique(np.where(np.abs(fast[after] - slow) < np.abs(fast[after - 1] - slow), after, after - 1))
    if nearest.size < 3:
        return None
    ticks = np.diff(nearest)
    usual = int(median(ticks))
    whole = ticks == usual
    if usual < 2 or whole.mean() < rules.clock.compound_whole:
        return None
    place = np.full(fast.size - 1, -1, dtype=np.int64)
    begin = nearest[:-1][whole]
    place[(begin[:, None] + np.arange(usual)).ravel()] = np.tile(np.arange(usual), begin.size)
    return place


def _part_lengths(pauses: Pauses, ticks: Int64, rules: LayoutRules) -> Float64:
    """Logarithms (base 2) of how long each tick takes (first column) and each of its parts of equal bytes, relative to
    what the pair usually takes; the median over the pairs. NaN where too few pairs send."""
    parts, steps = rules.clock.step_parts, ticks.size - 1
    floor = float(median(np.diff(ticks))) / (parts * rules.clock.step_parts)
    sent = sent_by_ticks(pauses, ticks)
    seen = np.diff(pauses.offsets) >= 2 * steps
    if not seen.any():
        return np.full((steps, parts + 1), np.nan)
    result = np.full((int(seen.sum()), steps, parts + 1), np.nan)
    for index, pair in enumerate(np.flatnonzero(seen).tolist()):
        rows = slice(int(pauses.offsets[pair]), int(pauses.offsets[pair + 1]))
        amount = np.diff(sent[pair]).astype(np.float64)
        edge = sent[pair, :-1, None] + np.arange(parts + 1) / parts * amount[:, None]
        message = np.searchsorted(pauses.sent[rows], edge - 1.0)
        known = (message[:, -1] < rows.stop - rows.start) & (amount > 0)
        when = pauses.start_ns[rows][np.minimum(message, rows.stop - rows.start - 1)].astype(np.float64)
        length = np.column_stack([when[:, -1] - when[:, 0], np.diff(when, axis=1)])
        result[index, known] = np.log2(length[known] + floor)
        if known.any():
            result[index] -= medians(result[index, known], axis=0)
    few = np.isfinite(result[:, :, 0]).sum(axis=0) * 2 < result.shape[0]
    level = np.zeros((steps, parts + 1))
    known = ~few
    if known.any():
        level[known] = known_median(result[:, known], axis=0)
    level[few] = np.nan
    return level


def _saved(lengths: Float64, place: Int64, rules: LayoutRules) -> Compound | None:
    """Bits that the places of the slower clock save."""
    used = (place >= 0) & np.isfinite(lengths[:, 0])
    if not used.any():
        return None
    place, length = place[used], lengths[used]
    ticks = int(place.max()) + 1
    length = length - medians(length, axis=0)
    scale = medians(np.abs(length), axis=0) + rules.clock.length_resolution_bits
    value = length / scale
    held, gain = _gains(value, place, ticks)
    gain *= _beyond_chance(gain.sum(axis=0), value, place, ticks, rules)
    differs = np.flatnonzero(gain.sum(axis=1) > 0)
    extra = sum(max(0.0, float(2.0 ** median(length[place == tick, 0])) - 1.0) for tick in differs.tolist())
    once = _at_one_place(gain.sum(axis=1), rules)
    return Compound(ticks, float(gain.sum()), float(gain[:, 0].sum()), once, extra, int(held[:, 0].max(initial=0)))


def _gains(value: Float64, place: Int64, ticks: int) -> tuple[Int64, Float64]:
    """How many entries there are at each place in each column, and the bits that it saves to predict them by their
    place, less the price of saying so."""
    columns = value.shape[1]
    group = (place[:, None] * columns + np.arange(columns)).ravel()
    held, saved = _predicted_by_others(value.ravel(), group, ticks * columns)
    price = np.log2(np.where(np.arange(columns) > 0, ticks * (columns - 1), ticks)) + 1.0
    gain = np.where(held >= 2, np.maximum(saved - np.tile(price, ticks), 0.0), 0.0)
    return held.reshape(ticks, columns), gain.reshape(ticks, columns)


def _beyond_chance(gain: Float64, value: Float64, place: Int64, ticks: int, rules: LayoutRules) -> Float64:
    """The share of each column's bits that places dealt out by chance do not save as well. Where records end now before
    and now after a pause, a part has two lengths, and some place has more of one kind in any case."""
    if gain.sum() < 2.0 * rules.clock.compound_bits:
        return np.ones_like(gain)  # too few to be worth anything
    deal = np.random.default_rng(0)
    dealt = [_gains(value, deal.permutation(place), ticks)[1].sum(axis=0) for _ in range(rules.clock.dealt_places)]
    beyond: Float64 = np.maximum(0.0, 1.0 - np.max(dealt, axis=0) / np.maximum(gain, 1e-9))
    return beyond


def _at_one_place(gain: Float64, rules: LayoutRules) -> bool:
    """Do most of the bits, by place, come from one place and the next, or so in each of several parts of the step?"""
    rule, ticks = rules.clock, gain.size
    for parts in range(1, ticks // rule.rare_ticks + 1):
        if ticks % parts == 0:
            folded = gain.reshape(parts, -1).sum(axis=0)
            if (folded + np.roll(folded, -1)).max() >= rule.once_share * gain.sum():
                return True
    return False


def _predicted_by_others(value: Float64, group: Int64, groups: int) -> tuple[Int64, Float64]:
    """Entries of each group, and the bits that it saves to predict each entry by the median of its group's others."""
    order = np.lexsort((value, group))
    held = np.bincount(group, minlength=groups)
    first = np.repeat((np.cumsum(held) - held), held)
    others = np.repeat(held, held) - 1
    rank = np.arange(order.size) - first
    ordered = value[order]

    def other(at: Int64) -> Float64:
        """The entry at this rank among the others of the group."""
        index = first + np.clip(np.where(at < rank, at, at + 1), 0, others)
        result: Float64 = ordered[index]
        return result

    middle = np.where(others > 0, 0.5 * (other((others - 1) // 2) + other(others // 2)), 0.0)
    saved = np.log2(1.0 + ordered**2) - np.log2(1.0 + (ordered - middle) ** 2)
    alone: Bool = others == 0
    total = np.bincount(group[order], np.where(alone, 0.0, saved), minlength=groups).astype(np.float64)
    return held, total
