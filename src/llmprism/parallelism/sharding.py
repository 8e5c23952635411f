"""Are the parameters sharded, and where does a sharded step begin?

Fully sharded training gathers every layer in the forward pass, gathers it again and reduces its gradients in the
backward pass (the last layer may stay gathered). So its collectives are equal, their number per step is a multiple of
three or one less, and the links are never silent for long. Replicated training is silent through the forward pass.
Anything between is `unknown`.

Where only the optimizer is sharded (ZeRO 1 and 2) gradients are scattered bucket by bucket, the optimizer runs, and the
parameters are gathered at once: a pause at exactly half of the bytes in every step, pauses before it and none after.

The longest silence of a sharded step may be its turning point, where the last layer is computed forward and backward,
instead of its end. But the forward third of the bytes pauses after every collective, the backward part only after every
second one, because gather and reduction go together. So a step is a pattern of three pauses: one that all places of the
forward arc share, and two that take turns in the backward arc. The step begins where that pattern fits best.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Float64, Int64
from llmprism.model.clock import StepClock
from llmprism.model.flows import TransferTable
from llmprism.model.layout import Sharding
from llmprism.parallelism.accumulation import longest_share
from llmprism.parallelism.features import PairFeatures
from llmprism.parallelism.micro_batches import interior_silences
from llmprism.parallelism.phase import message_silences
from llmprism.parallelism.rules import RULES, LayoutRules
from llmprism.stats.quantum import equal_parts

__all__ = ["Sharded", "sharding_of"]


@dataclass(frozen=True, slots=True)
class Sharded:
    """`shift` is the share of a step's bytes by which the step begins after the clock's boundary."""

    sharding: Sharding
    shift: float = 0.0
    collectives: int = 0


def sharding_of(transfers: TransferTable, gradient: Int64, features: PairFeatures, clock: StepClock,
                rules: LayoutRules = RULES, *, has_pipelines: bool) -> Sharded:  # fmt: skip
    """Sharding of the data-parallel pairs; `unknown` without any, or when their place in the step does not tell."""
    profile = features.profile[gradient].sum(axis=0)
    if profile.sum() <= 0:
        return Sharded(Sharding.UNKNOWN)
    sampled = gradient[: rules.stages.links_sampled]
    silences = interior_silences(transfers, sampled, clock, rules)
    position, weight = silences.place, silences.length
    if has_pipelines or _computes_in_silence(transfers, gradient, profile / profile.sum(), clock, rules):
        return Sharded(_optimizer_sharding(position, weight, sampled.size * clock.steps, rules))
    collectives = _collectives(position, weight, rules)
    if collectives is None or collectives % 3 == 1 or collectives < 5:
        return Sharded(Sharding.UNKNOWN)
    shift = _beginning(position, weight, collectives, rules)
    return Sharded(Sharding.UNKNOWN) if shift is None else Sharded(Sharding.FSDP, shift, collectives)


def _optimizer_sharding(position: Float64, weight: Float64, steps: int, rules: LayoutRules) -> Sharding:
    """Are gradients scattered, and the parameters gathered after the optimizer? `steps` counts those of all pairs."""
    rule = rules.sharding
    half = np.abs(position - 0.5) <= rule.at_half
    pause = float(weight[half].sum())
    if (
        half.sum() < rule.halved_steps * steps
        or float(weight[position > 0.5 + rule.at_half].sum()) > rule.few_pauses * pause
    ):
        return Sharding.NONE
    buckets = float(weight[position < 0.5 - rule.at_half].sum()) >= rule.few_pauses * pause
    return Sharding.ZERO if buckets else Sharding.UNKNOWN  # two equal buckets pause at half as well


def _computes_in_silence(
    transfers: TransferTable, gradient: Int64, profile: Float64, clock: StepClock, rules: LayoutRules
) -> bool:
    """Is the forward pass silent: in the mean profile of the step, or, where steps of a fault or a checkpoint blur
    that, in most steps for longer than any layer takes?"""
    if _longest_silence(profile, rules) >= rules.sharding.silent_forward:
        return True
    pairs = np.zeros(transfers.pair_count, dtype=np.bool_)
    pairs[gradient] = True
    return longest_share(message_silences(transfers, pairs), clock) > rules.sharding.longest_layer


def _longest_silence(profile: Float64, rules: LayoutRules) -> float:
    """Longest stretch of the (cyclic) profile that carries next to nothing."""
    busy = np.flatnonzero(profile > rules.sharding.next_to_nothing / rules.kinds.profile_slots)
    gaps = np.diff(np.append(busy, busy[0] + rules.kinds.profile_slots)) - 1
    return float(gaps.max()) / rules.kinds.profile_slots


def _collectives(position: Float64, weight: Float64, rules: LayoutRules) -> int | None:
    rule = rules.sharding
    parts = equal_parts(position, weight, rule.most_collectives, rule.gathers_explain, rule.visited)
    while parts is not None and 2 * parts <= rule.most_collectives:
        if _by_place(position, weight, 2 * parts, rules)[1::2].sum() < rule.halves_explain * weight.sum():
            break
        parts *= 2
    return parts


def _by_place(position: Float64, weight: Float64, parts: int, rules: LayoutRules) -> Float64:
    """Silence at each multiple of 1 / parts, from 0 on."""
    nearest = np.rint(position * parts)
    hit = np.abs(position * parts - nearest) <= rules.sharding.at_place
    return np.bincount(nearest[hit].astype(np.int64) % parts, weight[hit], minlength=parts).astype(np.float64)


def _beginning(position: Float64, weight: Float64, collectives: int, rules: LayoutRules) -> float | None:
    """Where the step begins, as a share of the clock's step; 0 where no place fits clearly better than the clock's.

    None where none fits: two of three numbers may be those of the collectives of sharded training, few patterns are.
    """
    places = _by_place(position, weight, collectives, rules)
    places[0] = np.nan  # the clock's own boundary is not among the silences inside steps
    spread = np.nansum((places - np.nanmean(places)) ** 2)
    if not spread > 0:
        return 0.0
    fit = np.array([1.0 - _misfit(np.roll(places, -begin), rules) / spread for begin in range(collectives)])
    best = int(np.argmax(fit))
    if fit[best] < rules.sharding.good_fit:
        return None
    return best / collectives if fit[best] - fit[0] >= rules.sharding.better_fit else 0.0


def _misfit(pauses: Float64, rules: LayoutRules) -> float:
    """Squared deviation from the pattern of a step that begins at the first place.

    The turning point fits anything, and so does the first pause: the second layer is often gathered with the first.
    """
    turn = (pauses.size + 1) // 3
    long, short = pauses[turn + 1 :][::-1][::2], pauses[turn + 1 :][::-1][1::2]
    if _mean(short) > rules.sharding.last_is_long * _mean(long):
        return np.inf
    return float(sum(np.nansum((arc - _mean(arc)) ** 2) for arc in (pauses[2:turn], long, short)))


def _mean(pauses: Float64) -> float:
    known = pauses[np.isfinite(pauses)]
    return float(known.mean()) if known.size else 0.0
