"""Stall of a whole job: everybody stands still in the middle of a step, then goes on.

Catches: one silence of the whole job that is many times as long as those of its usual steps, at a point where it does
not rest otherwise (a file system that does not answer, a fabric that pauses, a controller that holds everyone). It
needs no layout, and of the clock little more than the bytes of a step (`silences`).
No surer than where the clock sees steps end: an evaluation in a job whose clock has the wrong phase looks the same.
Must not shout at: pauses between steps (checkpoints, evaluation), those that come again, a stall that one late GPU
explains, crashes, one of many silences of slower steps. Tested with the stall-and-restart and hard-negatives scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.silences import Silence, long_silences
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["DETECTOR", "find_standstills"]


def find_standstills(evidence: JobEvidence, known: Sequence[Finding], rules: FaultRules = RULES) -> list[Finding]:
    """Stalls of one job that no finding of `known` explains."""
    steps, normal = evidence.timeline.steps, evidence.normal_ns
    rule = rules.standstill
    short = rule.clear_still_steps * normal if evidence.layout.steps_confidence > rule.least_standstill else np.inf
    floor = min(rules.members.stall_ns, short)
    if not evidence.counted.any():
        return []
    first = int(steps.start_ns[np.flatnonzero(evidence.counted)[0]])
    found: list[Finding] = []
    for silence in long_silences(evidence.job, steps, max(floor, normal), rules):
        seen = silence.begin_ns > first and silence.before >= rules.endings.few_steps
        long = silence.length_ns > rule.still_steps * normal or silence.is_unlike_any(rules)
        if not (seen and long and silence.is_new(rules) and silence.in_mid_step(rules)):
            continue
        if _of_slower_steps(evidence, silence, rules):
            continue
        if not _explained(evidence, silence, [*known, *found]):
            found.append(_finding(evidence, silence, rules))
    return found


def _of_slower_steps(evidence: JobEvidence, silence: Silence, rules: FaultRules) -> bool:
    """Does it lie in a stretch of slower steps and take too little of what these take longer? Then something is slow in
    all of them, and everybody waits for it now and then."""
    steps, longer = evidence.timeline.steps, evidence.duration_ns - evidence.normal_ns
    inside = (steps.start_ns < silence.end_ns) & (steps.end_ns > silence.begin_ns)
    stretches = [stretch for stretch in unexplained_steps(evidence, (), {}, rules) if (stretch & inside).any()]
    taken = silence.length_ns - silence.usual_ns
    return any(taken < rules.standstill.most_of_slower * float(longer[stretch].sum()) for stretch in stretches)


def _explained(evidence: JobEvidence, silence: Silence, known: Sequence[Finding]) -> bool:
    """Is something else wrong with the job in this step, or right before or after it? What is slow may end in a step in
    which nothing moves for a while: a transport that gets no answer waits for twice as long each time."""
    near = evidence.normal_ns
    return any(
        finding.job in (None, evidence.job.id)
        and finding.start_ns <= silence.end_ns + near
        and (finding.end_ns is None or finding.end_ns >= silence.begin_ns - near)
        for finding in known
    )


def _finding(evidence: JobEvidence, silence: Silence, rules: FaultRules) -> Finding:
    lost = max(silence.length_ns - silence.usual_ns, 0.0)
    seconds = silence.length_ns / 1e9
    return Finding(
        kind=FindingKind.STALL,
        job=evidence.job.id,
        where=Where(WhereType.JOB, evidence.job.id),
        start_ns=silence.begin_ns,
        end_ns=silence.end_ns,
        severity=round(lost / (lost + evidence.normal_ns), 3),
        confidence=round(_sure(evidence, rules), 3),
        lost_gpu_seconds=round(lost / 1e9 * evidence.gpus, 3),
        summary=(
            f"All {len(evidence.job.members)} GPUs of {evidence.job.id} stood still for {seconds:.1f} s inside step "
            f"{silence.before}, none later than the others: look at what they share, the file system first."
        ),
        evidence=(Evidence("seconds of silence inside the step", round(seconds, 3), round(silence.usual_ns / 1e9, 3)),),
    )


def _sure(evidence: JobEvidence, rules: FaultRules) -> float:
    """As sure as it is where steps end, within bounds."""
    rule = rules.standstill
    return min(rule.sure_standstill, max(rule.least_standstill, evidence.layout.steps_confidence))


def _look(given: DetectorInput) -> list[Finding]:
    return find_standstills(given.evidence, given.known, given.rules)


DETECTOR: Final = Detector("standstill", (FindingKind.STALL,), _look, needs_steps=False)
