"""How sure a finding can be, given how sure the layout is that it rests on.

Whoever is compared with its own past needs no layout: only who was late is read from it, and who holds the others up
(`holding`) not even that. Whoever is compared with its
peers from the first record on is as doubtful as the statement that they are its peers: two ranks of different roles
differ all the time, and neither is ill. Such a finding is no surer than the layout; so is one on who stood still in a
step, which needs to know what a step is. One that is less likely than not is no finding. Nor is a GPU slow that costs
nothing when the steps are played again without it: the others did not wait for it.

How often findings on members and stages are right depends on what their detector says and on the layout, and both are
fitted to findings whose truth is known (`calibrated`, `benchmarks/finding_fit.py`): the log odds are a weighted sum of
both log odds. What is then right less often than one time in three is not reported, nor are places (`place_signs`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import log
from typing import Final

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Finding, FindingKind, WhereType
from llmprism.stats.logistic import logistic

__all__ = ["HELD", "WEIGHED", "calibrated", "is_permanent", "log_odds", "trusted", "waited_for"]

HELD: Final = "median time that it holds the others up beyond its own usual, ms"
"""Evidence of findings that compare a member with its own past: they need no layout."""

WEIGHED: Final = "share of the blame for the slower steps, by all signs together"
"""Evidence of findings whose confidence is fitted already (`blame`)."""

_BY_PEERS: Final = (FindingKind.SLOW_GPU, FindingKind.IMBALANCE, FindingKind.SLOW_GROUP)
"""Kinds that compare members with those that do the same."""

_STOPS: Final = (FindingKind.CRASH, FindingKind.HANG)
"""Kinds of which it is decided already that there is one: their confidence is that of the kind and the place."""


def trusted(evidence: JobEvidence, findings: Sequence[Finding], rules: FaultRules = RULES) -> list[Finding]:
    """The findings of one job that its layout bears, with the confidence that it leaves them."""
    kept = []
    for finding in findings:
        if finding.kind in _STOPS:
            kept.append(finding)
            continue
        confidence, trust = finding.confidence, evidence.layout.peers_confidence
        if any(item.what == WEIGHED for item in finding.evidence):
            if confidence >= rules.trust.worth_a_look:
                kept.append(replace(finding, confidence=round(min(confidence, rules.trust.most_sure), 3)))
            continue
        if any(item.what == HELD for item in finding.evidence):
            trust = rules.trust.most_sure
        if finding.kind in _BY_PEERS:
            confidence = min(
                confidence, trust if is_permanent(evidence, finding, rules) else max(trust, rules.trust.likely)
            )
        elif finding.kind is FindingKind.STALL and finding.where.type is not WhereType.JOB:
            confidence = min(confidence, trust)
        if confidence < rules.trust.likely:
            continue
        sure = calibrated(confidence, trust, rules) if finding.kind in _BY_PEERS else confidence
        if finding.kind not in _BY_PEERS or sure >= rules.trust.worth_a_look:
            kept.append(replace(finding, confidence=round(min(sure, rules.trust.most_sure), 3)))
    return kept


def calibrated(own: float, peers: float, rules: FaultRules = RULES) -> float:
    """How often a finding on a slow member is right of which its detector is so sure, in a job whose layout is
    so sure who does the same as whom."""
    rule = rules.trust
    odds = rule.fit_constant + rule.fit_own * log_odds(own, rules) + rule.fit_peers * log_odds(peers, rules)
    return round(min(logistic(odds), rule.most_sure), 3)


def log_odds(confidence: float, rules: FaultRules = RULES) -> float:
    """The log odds of a confidence, which is never surer than a finding may be, either way."""
    inside = min(max(confidence, 1.0 - rules.trust.most_sure), rules.trust.most_sure)
    return log(inside / (1.0 - inside))


def waited_for(evidence: JobEvidence, finding: Finding, lost_gpu_seconds: float, rules: FaultRules = RULES) -> bool:
    """Does a fault cost what a slow GPU must? Others are left out, and so are those that leave nothing to
    compare with."""
    if finding.kind is not FindingKind.SLOW_GPU or is_permanent(evidence, finding, rules):
        return True
    touched = evidence.counted & ~_healthy(evidence, finding)
    return lost_gpu_seconds >= rules.trust.hidden * float(evidence.duration_ns[touched].sum()) / 1e9 * evidence.gpus


def is_permanent(evidence: JobEvidence, finding: Finding, rules: FaultRules = RULES) -> bool:
    """Are there hardly any steps without it?"""
    healthy, counted = int(_healthy(evidence, finding).sum()), int(evidence.counted.sum())
    return healthy < max(rules.trust.healthy_steps, rules.trust.few_healthy * counted)


def _healthy(evidence: JobEvidence, finding: Finding) -> Bool:
    """The steps that count before and after a fault."""
    steps = evidence.timeline.steps
    after = steps.start_ns >= (finding.end_ns if finding.end_ns is not None else np.iinfo(np.int64).max)
    return evidence.counted & ((steps.end_ns <= finding.start_ns) | after)
