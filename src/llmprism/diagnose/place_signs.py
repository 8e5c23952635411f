"""How likely a suspected place is the sick one: signs that are added up.

That sick cells pass a place says little by itself: whatever waits for a slow GPU, or for another place, is slow too,
and in a job with many slow cells some of them pass any place. So the place competes with "something else" by all of
these: how clearly it leads its rival, how many of the cells that pass it are sick, how many of all sick cells of
that time pass elsewhere, how many of the job's slower steps it leaves to something else, whether anything that does
not pass it was timed at all, how sure the clock is, whether one member of a group alone is waited for, and by which
sign it was found (`CellSign`): rates are measured, the others inferred. A GPU or a stage that computes longer then
(`computing`) is one more rival: the odds of all of them add up. Weights are fitted to suspected places whose truth is
known (`rules.NamedPlaceRules`), so a confidence is a promise.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, auto
from math import exp, log

import numpy as np

from llmprism.arrays import Float64
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.trust import log_odds
from llmprism.stats.logistic import logistic

__all__ = ["CellSign", "PlaceSigns", "chance_of", "odds_against", "terms_of"]


class CellSign(Enum):
    """By what cells are sick: their rate, bytes that are sent again, pieces that are held back, rate and pieces that
    are held back together, messages that are broken up, or a lag behind."""

    SLOW = auto()
    RESENT = auto()
    QUEUED = auto()
    BOTH = auto()
    BROKEN = auto()
    LAGGING = auto()


@dataclass(frozen=True, slots=True)
class PlaceSigns:
    """`lead` is the confidence that it is this place and not its rival; `of_cells` the share of the cells through it
    that are sick; `of_sick` the share of these among all sick cells of its jobs and time that neither wait for it nor
    are explained by a likelier place; `of_slower` the share of its jobs' slower steps in which it is sick. `alone`: no
    other cells are known then. `second`: a likelier place by the same sign explains a part of the same time. `clock` is
    the confidence of the least sure clock of these jobs, `one_member` the share of the blame for slower steps that one
    member of a group has (0 for other places), `computing` how likely it is that a GPU or a stage computed longer."""

    sign: CellSign
    lead: float
    of_cells: float
    of_sick: float
    of_slower: float
    alone: bool
    clock: float
    second: bool = False
    one_member: float = 0.0
    computing: float = 0.0

    @property
    def fit(self) -> float:
        """How well the place fits the sick cells of its time: 1 where they are the cells that pass it, and no others
        are known through it."""
        return 2.0 * self.of_cells * self.of_sick / max(self.of_cells + self.of_sick, 1e-9)


def chance_of(signs: PlaceSigns, rules: FaultRules = RULES) -> float:
    """How likely the place is the sick one; no likelier than that it is this one of the two that explain most."""
    rule = rules.named_place
    weights = (
        rule.fit_constant, rule.lead, rule.of_cells, rule.of_sick, rule.of_slower, rule.clock, rule.alone,
        rule.held_back, rule.broken_up, rule.lagging, rule.second, rule.one_member,
    )  # fmt: skip
    odds = float(terms_of(signs, rules) @ np.array(weights)) - log(odds_against(signs, rules))
    return round(min(logistic(odds), signs.lead, rules.trust.most_sure), 3)


def odds_against(signs: PlaceSigns, rules: FaultRules = RULES) -> float:
    """Odds of what else may explain the sick cells, beside those of the place: something unknown (1), or a GPU or a
    stage that computes longer."""
    return 1.0 + rules.named_place.rival * exp(log_odds(signs.computing, rules))


def terms_of(signs: PlaceSigns, rules: FaultRules = RULES) -> Float64:
    """The signs as numbers, in the order of the weights of `chance_of`."""
    least = rules.named_place.least_share
    shares = (log(max(share, least)) for share in (signs.of_cells, signs.of_sick, signs.of_slower))
    of_signs = (CellSign.QUEUED, CellSign.BROKEN, CellSign.LAGGING)
    return np.array(
        [
            1.0,
            log_odds(signs.lead, rules),
            *shares,
            log_odds(signs.clock, rules),
            signs.alone,
            *(signs.sign is s for s in of_signs),
            signs.second,
            signs.one_member,
        ],
        dtype=np.float64,
    )
