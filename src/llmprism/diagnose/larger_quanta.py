"""Rates of more bytes than one burst, for slower steps that no rate of single bursts explains.

Small quanta show how fast bursts leave, large ones hold the pauses of whoever waits for somebody. What lies between
depends on the card, the number of connections and the collector: one that closes a record when nothing came for a while
makes one record of each burst that a slow hop lets pass, each as fast as ever. So quanta of growing size are tried, as
long as a pair moves them in usual steps as evenly as half of them. The smallest at which hops fell in a step speaks for
that step: hops that wait for the slow one fall at larger ones only.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.own_past import OwnPast, against_own_past
from llmprism.diagnose.rates import rates_of_quanta
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model.layout import PairKind

__all__ = ["odds_at_larger_quanta"]


def odds_at_larger_quanta(evidence: JobEvidence, small: OwnPast, rules: FaultRules = RULES) -> OwnPast | None:
    """Odds and changes at the quantum that tells, step by step; None where it is no news that steps are slower, or no
    larger quantum tells anything. `small` are those at the smallest one."""
    rule = rules.places
    slower = evidence.counted & (evidence.duration_ns >= rules.trust.unexplained_least * evidence.normal_ns)
    news = unexplained_steps(evidence, (), {}, rules) if slower.any() else []  # which looks at messages
    if not news:
        return None
    usual, longer = usual_steps(evidence, rules), np.logical_or.reduce(news)
    odds, change, before = small.odds.copy(), small.change.copy(), small.usual
    decided, found = _decided(odds, rules) | ~longer, False
    judged = evidence.pair_kind != PairKind.UNKNOWN
    transfers = evidence.job.transfers
    most = rule.scale_share * transfers.pair_bytes / (evidence.steps + 1)
    quantum = 2.0 * rules.evidence.quantum_bytes
    while not decided.all() and (fits := judged & (most >= quantum)).any():
        rate = rates_of_quanta(transfers, evidence.timeline.steps, np.full(fits.size, quantum), fits, rules)
        larger = against_own_past(np.where(evidence.counted, rate, np.nan), usual, evidence.group_of_pair, rules)
        even = ~(larger.usual - before < np.log(rule.scale_even))
        use = even[:, None] & ~decided & np.isfinite(larger.odds) & ~(odds >= rule.past_sick)
        odds[use], change[use] = larger.odds[use], larger.change[use]
        now = _decided(odds, rules)
        found |= bool((now & ~decided).any())
        decided |= now
        before, quantum = np.where(np.isfinite(larger.usual), larger.usual, before), 2.0 * quantum
    return OwnPast(odds, change, small.usual) if found else None


def _decided(odds: Float64, rules: FaultRules) -> Bool:
    """The steps in which some cells are so slow that these speak for the whole job."""
    rule = rules.places
    decided: Bool = np.where(odds >= rule.past_sick, odds, 0.0).sum(axis=0) >= rule.scale_decides
    return decided
