"""The detectors that look at one job, in the order in which one's answer excuses the next one's suspects.

To add one: a file with a function that takes what is known of a job, a line here, and its kind in `model.kind_facts`.
Places that several jobs share (`slow_transfer`) and storage (`slow_storage`) are looked at over all jobs before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.imbalance import find_imbalance
from llmprism.diagnose.late_member import excused_steps, find_late_members
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.slow_stage import find_slow_stages
from llmprism.diagnose.standstill import find_standstills
from llmprism.diagnose.stopped import find_stopped, is_settled
from llmprism.diagnose.trust import trusted
from llmprism.diagnose.unexplained import find_unexplained
from llmprism.model.finding import Finding, FindingKind
from llmprism.model.flows import Window

__all__ = ["JOB_DETECTORS", "Detector", "JobView", "detect"]


@dataclass(frozen=True, slots=True)
class JobView:
    """What a detector may look at: the job's evidence, the time watched, when which addresses were found guilty of slow
    transfers (`accused`), and the findings so far."""

    evidence: JobEvidence
    window: Window
    accused: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    known: tuple[Finding, ...] = ()
    rules: FaultRules = RULES

    @property
    def has_steps(self) -> bool:
        """Nothing is said of the steps of a job that has hardly begun: what is usual for it is not known."""
        return self.evidence.steps >= self.rules.endings.settled_steps


@dataclass(frozen=True, slots=True)
class Detector:
    """`kinds` are those that it may report."""

    name: str
    kinds: tuple[FindingKind, ...]
    find: Callable[[JobView], list[Finding]]


def _late(view: JobView) -> list[Finding]:
    return find_late_members(view.evidence, view.accused, view.rules) if view.has_steps else []


def _stopped(view: JobView) -> list[Finding]:
    job, timeline = view.evidence.job, view.evidence.timeline
    if not is_settled(job, timeline, view.window, view.rules):
        return []
    return find_stopped(job, timeline, view.window, view.evidence.state, view.rules)


def _standing_still(view: JobView) -> list[Finding]:
    return find_standstills(view.evidence, view.known, view.rules) if view.has_steps else []


def _imbalanced(view: JobView) -> list[Finding]:
    return find_imbalance(view.evidence, view.rules) if view.has_steps else []


def _slow_stages(view: JobView) -> list[Finding]:
    return (
        find_slow_stages(view.evidence, excused_steps(view.evidence, view.accused), view.rules)
        if view.has_steps
        else []
    )


def _unexplained(view: JobView) -> list[Finding]:
    return find_unexplained(view.evidence, view.known, view.accused, view.rules) if view.has_steps else []


JOB_DETECTORS: Final = (
    Detector("slow_stage", (FindingKind.IMBALANCE,), _slow_stages),
    Detector("late_member", (FindingKind.SLOW_GPU, FindingKind.STALL), _late),
    Detector("stopped", (FindingKind.HANG, FindingKind.CRASH), _stopped),
    Detector("standstill", (FindingKind.STALL,), _standing_still),
    Detector("imbalance", (FindingKind.IMBALANCE,), _imbalanced),
    Detector("unexplained", (FindingKind.SLOW_STEP,), _unexplained),
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
        findings += detector.find(JobView(evidence, window, accused, known, rules))
    return findings
