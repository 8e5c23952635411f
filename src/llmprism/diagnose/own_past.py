"""How much each cell's rate speaks for a slow place, by what its pair's rates vary by in usual steps.

A pair whose rate is the same to half a percent, step after step, says with one cell what a ring whose pieces
come anyhow does not say with a hundred. So a cell (pair x step) is weighed by two likelihoods of its change, the
logarithm of its rate over the pair's usual one. Where nothing on its way is slow it is as far off as it is in usual
steps, with heavy tails, or, rarely, anywhere. Where something is slow it may be as usual, too, since a throttle lets
pass what it saved, or it fell by some factor. Both are blurred by what the pair varies by, so a pair that varies much
says little either way.

Hops of one collective wait for the slowest of them and may slow down with it: one whose rate fell less than that of
another hop of its group in the same step cannot tell. Nor can one whose rate rose, since what a slow hop breaks up
comes in faster bursts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.rules.places import PlaceRules
from llmprism.stats.robust import MAD_TO_SIGMA, known_mad, known_median

__all__ = ["OwnPast", "against_own_past"]


@dataclass(frozen=True, slots=True)
class OwnPast:
    """Pairs x steps: the logarithm of the `odds` that something on the pair's way is slow, NaN where that is not known,
    and of the rate over the pair's usual one (`change`); per pair the logarithm of the usual rate."""

    odds: Float64
    change: Float64
    usual: Float64


def against_own_past(rate: Float64, usual: Bool, hops: Int64, rules: FaultRules = RULES) -> OwnPast:
    """Rates (pairs x steps) against those in `usual` steps; `hops` are the numbers of the groups whose collectives the
    pairs carry, -1 for other pairs."""
    rule = rules.places
    known = np.isfinite(rate) & (rate > 0.0)
    logs = np.where(known, np.log(np.where(known, rate, 1.0)), np.nan)
    before = np.where(usual, logs, np.nan)
    seen = np.isfinite(before).sum(axis=1)
    middle = known_median(before, axis=1)
    varies = MAD_TO_SIGMA * np.nan_to_num(known_mad(before)) * (1.0 + 2.0 / np.maximum(seen, 1))
    spread = np.maximum(rule.past_jitter, varies)[:, None]
    change = logs - middle[:, None]
    odds = np.log(_if_slow(change, spread, rule) / _if_not(change, spread, rule))
    waits = _may_wait(hops, change, rule)
    odds[waits] = np.minimum(odds[waits], 0.0)
    rose = change > np.maximum(rule.drop, rule.spreads * spread)
    odds[rose | ~(seen >= rules.members.late_steps)[:, None]] = np.nan
    return OwnPast(odds, change, middle)


def _may_wait(hops: Int64, change: Float64, rule: PlaceRules) -> Bool:
    """The cells that fell less than another hop of their collective did in the same step."""
    waits = np.zeros(change.shape, dtype=np.bool_)
    rows = np.flatnonzero(hops >= 0)
    if not rows.size:
        return waits
    rows = rows[np.argsort(hops[rows], kind="stable")]
    first = np.flatnonzero(np.diff(hops[rows], prepend=-1))  # of each collective
    fell = change[rows]
    worst = np.minimum.reduceat(np.where(np.isfinite(fell), fell, np.inf), first, axis=0)
    worst = np.repeat(worst, np.diff(first, append=rows.size), axis=0)
    waits[rows] = (fell > worst - np.log(rule.waits)) & (worst < -rule.drop)
    return waits


def _tail(values: Float64) -> Float64:
    """Distribution of Student's t with three degrees of freedom: how likely a value is below."""
    scaled = values / np.sqrt(3.0)
    return np.asarray(0.5 + (scaled / (1.0 + scaled**2) + np.arctan(scaled)) / np.pi)


def _density(values: Float64) -> Float64:
    """Its density."""
    return np.asarray(2.0 / (np.pi * np.sqrt(3.0) * (1.0 + values**2 / 3.0) ** 2))


def _if_not(change: Float64, spread: Float64, rule: PlaceRules) -> Float64:
    anywhere = 1.0 / (2.0 * rule.past_most)
    return (1.0 - rule.sick_by_chance) * _density(change / spread) / spread + rule.sick_by_chance * anywhere


def _if_slow(change: Float64, spread: Float64, rule: PlaceRules) -> Float64:
    low, high = -rule.past_most, -rule.past_least
    fell = (_tail((change - low) / spread) - _tail((change - high) / spread)) / (high - low)
    return (1.0 - rule.sick_while) * _if_not(change, spread, rule) + rule.sick_while * fell
