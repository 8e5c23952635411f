"""How sure a finding can be, given how sure the layout is that it rests on.

Whoever is compared with its own past needs no layout: only who was late is read from it. Whoever is compared with its
peers from the first record on is as doubtful as the statement that they are its peers: two ranks of different roles
differ all the time, and neither is ill. Such a finding is no surer than the layout, and one that is less likely than
not is no finding.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from llmprism.diagnose.evidence import JobEvidence
from llmprism.model.finding import Finding, FindingKind

__all__ = ["LIKELY", "trusted"]

LIKELY: Final = 0.5
"""Confidence below which a finding is less likely than not."""

_BY_PEERS: Final = (FindingKind.SLOW_GPU, FindingKind.IMBALANCE, FindingKind.SLOW_GROUP)
"""Kinds that compare members with those that do the same."""


def trusted(evidence: JobEvidence, findings: Sequence[Finding]) -> list[Finding]:
    """The findings of one job that its layout bears, with the confidence that it leaves them."""
    kept = []
    for finding in findings:
        confidence = finding.confidence
        if finding.kind in _BY_PEERS:
            trust = evidence.layout.confidence
            confidence = min(confidence, trust if _from_the_first(evidence, finding) else max(trust, LIKELY))
        if confidence >= LIKELY:
            kept.append(replace(finding, confidence=round(confidence, 3)))
    return kept


def _from_the_first(evidence: JobEvidence, finding: Finding) -> bool:
    """Was it there in the first step that counts?"""
    starts = evidence.timeline.steps.start_ns[evidence.counted]
    return bool(starts.size and finding.start_ns <= starts[0])
