"""Imbalance for a while: one stage of all replicas computes longer than it did, and the job waits for it.

A slow GPU is one member of a stage; here all of them work longer at the same time, and those of the other stages do
not: a stage got more layers or longer sequences, or all of its servers have something in common. Looked at are
stretches of steps that are slower than the job's others, which is news by itself (`unexplained`), outside of those that
slow transfers explain; who was waited for then, all signs of all members together tell (`stage_signs`).

Catches: a stage that takes a third longer for some steps. Must not shout at: one slow GPU, a slow group, card or switch
below a stage, late data, jitter, jobs whose steps are as long as ever, one replica. Tested in `test_slow_stage`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.late_member import excused_steps
from llmprism.diagnose.own_gaps import own_gaps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.stage_signs import SuspectedStage, stages_of, suspected_stage
from llmprism.diagnose.trust import WEIGHED
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["DETECTOR", "find_slow_stages"]


def find_slow_stages(evidence: JobEvidence, excused: Bool, rules: FaultRules = RULES) -> list[Finding]:
    """One finding for each stretch of slower steps that one stage explains, outside of the steps that slow transfers
    explain (`excused`)."""
    if not stages_of(evidence):
        return []
    usual = usual_steps(evidence, rules)
    findings = []
    for steps in unexplained_steps(evidence, (), {}, rules):
        slower = steps & ~usual
        if (steps & excused).sum() >= rules.trust.explained * steps.sum():
            continue
        stage = suspected_stage(evidence, slower, usual, rules)
        if stage is not None and stage.chance >= rules.trust.worth_a_look:
            findings.append(_finding(evidence, stage, slower, usual, rules))
    return findings


def _finding(evidence: JobEvidence, stage: SuspectedStage, slower: Bool, usual: Bool, rules: FaultRules) -> Finding:
    bounds, job = evidence.timeline.steps, evidence.job
    first, last = np.flatnonzero(slower)[[0, -1]].tolist()
    grown = own_gaps(evidence, rules).grown(len(job.members), slower, usual)[stage.rows]
    longer = float((evidence.duration_ns - evidence.normal_ns)[slower].mean())
    names = tuple(job.transfers.addresses[job.members[row]] for row in stage.rows.tolist())
    return Finding(
        kind=FindingKind.IMBALANCE,
        job=job.id,
        where=Where(WhereType.STAGE, names),
        start_ns=int(bounds.start_ns[first]),
        end_ns=None if last == evidence.steps - 1 else int(bounds.end_ns[last]),
        severity=round(share_lost(evidence, slower), 3),
        confidence=stage.chance,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, slower), 3),
        summary=(
            f"All {len(names)} members of stage {stage.number} of {job.id} compute longer than they used to, those of "
            "the other stages do not, and all pipelines wait for it: ask the tenant what changed in it then."
        ),
        evidence=(
            Evidence(WEIGHED, stage.chance),
            Evidence("longer silences of its members, ms", round(float(np.median(grown)) / 1e6, 3)),
            Evidence("slower steps take longer by, ms", round(longer / 1e6, 3), 0.0),
            Evidence("steps", int(slower.sum())),
        ),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_slow_stages(given.evidence, excused_steps(given.evidence, given.accused), given.rules)


DETECTOR: Final = Detector("slow_stage", (FindingKind.IMBALANCE,), _look)
