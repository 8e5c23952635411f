"""The detectors that look at one job, in the order in which one's answer excuses the next one's suspects.

To add one: a file that makes a `Detector` (see `detector`), and a line here. A new kind of finding is described in
`model.kind_facts`. Places that several jobs share (`slow_transfer`) and storage (`slow_storage`) are looked at over all
jobs before.
"""

from __future__ import annotations

from typing import Final

from llmprism.diagnose import blamed_member, imbalance, late_member, slow_stage, standstill, stopped, unexplained
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.trust import trusted
from llmprism.model.finding import Finding
from llmprism.model.flows import Window

__all__ = ["JOB_DETECTORS", "detect"]

JOB_DETECTORS: Final[tuple[Detector, ...]] = (
    slow_stage.DETECTOR,
    late_member.DETECTOR,
    stopped.DETECTOR,
    standstill.DETECTOR,
    imbalance.DETECTOR,
    blamed_member.DETECTOR,
    unexplained.DETECTOR,
)


def detect(
    evidence: JobEvidence,
    window: Window,
    accused: dict[str, list[tuple[int, int]]],
    shared: tuple[Finding, ...],
    rules: FaultRules = RULES,
) -> list[Finding]:
    """What all detectors find in one job, given the findings `shared` with other jobs. What is not reported, as the
    layout does not bear it, explains nothing to the detectors that follow."""
    findings: list[Finding] = []
    for detector in JOB_DETECTORS:
        known = (*shared, *trusted(evidence, findings, rules))
        findings += detector.find(DetectorInput(evidence, window, accused, known, rules))
    return findings
