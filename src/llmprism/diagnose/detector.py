"""What a detector of faults is: a name, the kinds that it may report, and a function from what is known of a job.

Each detector is a file that makes one `Detector`; `detectors.JOB_DETECTORS` lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.finding import Finding, FindingKind
from llmprism.model.flows import Window

__all__ = ["Detector", "DetectorInput"]


@dataclass(frozen=True, slots=True)
class DetectorInput:
    """What a detector may look at: the job's evidence, the time watched, when which addresses were found guilty of slow
    transfers (`accused`), and the findings so far (`known`)."""

    evidence: JobEvidence
    window: Window
    accused: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    known: tuple[Finding, ...] = ()
    rules: FaultRules = RULES


@dataclass(frozen=True, slots=True)
class Detector:
    """`kinds` are those that it may report. `needs_steps`: it is not run on a job that has hardly begun, since what is
    usual for such a job is not known."""

    name: str
    kinds: tuple[FindingKind, ...]
    look: Callable[[DetectorInput], list[Finding]]
    needs_steps: bool = True

    def find(self, given: DetectorInput) -> list[Finding]:
        if self.needs_steps and given.evidence.steps < given.rules.endings.settled_steps:
            return []
        return self.look(given)
