"""Slow GPU, or card, where the job's slower steps are news already and only their cause is missing.

Other detectors ask of each member whether it is late for long enough, and in enough steps, to be no work of chance
(`bouts`). Whether slower steps are news is answered for the job as a whole (`unexplained`); after that the only
question is who was waited for in them, and all signs of all of these steps together tell that (`blame`).

Catches: a slow GPU in few steps, in rings whose messages are pushed, in jobs whose layout is doubtful; the card of such
a member where its messages alone are slower (`blamed_card`). Must not shout at: a slow link, which holds back many
pieces where a GPU pauses as often as ever; a slow stage, or all members together (blame is shared then); steps that a
slow place explains. Tested in `test_blamed_member`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.blame import WaitedFor, blame, runner_up
from llmprism.diagnose.blamed_card import of_gpu_or_card
from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.late_member import sends_slowly
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.trust import WEIGHED
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType

__all__ = ["DETECTOR", "find_blamed_members"]


def find_blamed_members(
    evidence: JobEvidence,
    known: tuple[Finding, ...],
    accused: dict[str, list[tuple[int, int]]],
    rules: FaultRules = RULES,
) -> list[Finding]:
    """One finding for each stretch of slower steps that nothing explains and one member does."""
    stretches = unexplained_steps(evidence, known, accused, rules)
    usual = usual_steps(evidence, rules)
    if not stretches or usual.sum() < rules.members.late_steps:
        return []
    found = []
    for steps in stretches:
        slower = steps & ~usual
        blamed = blame(evidence, slower, usual, rules)
        if blamed is None:
            continue
        finding = of_gpu_or_card(evidence, _finding(evidence, blamed, steps), blamed, slower, usual, rules)
        if finding.kind is FindingKind.SLOW_GPU and sends_slowly(evidence, blamed.row, slower, usual):
            continue
        if finding.confidence >= rules.trust.worth_a_look:
            found.append(finding)
    return found


def _finding(evidence: JobEvidence, blamed: WaitedFor, steps: Bool) -> Finding:
    bounds, job = evidence.timeline.steps, evidence.job
    name = job.transfers.addresses[job.members[blamed.row]]
    taken, last = float(np.median(evidence.duration_ns[steps])), bool(steps[evidence.counted][-1])
    return Finding(
        kind=FindingKind.SLOW_GPU,
        job=job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(bounds.start_ns[steps][0]),
        end_ns=None if last else int(bounds.end_ns[steps][-1]),
        severity=round(share_lost(evidence, steps), 3),
        confidence=blamed.confidence,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, steps), 3),
        summary=(
            f"GPU {name} is late or silent for {blamed.grown_ns / 1e6:.0f} ms longer than usual in each of "
            f"{int(steps.sum())} slower steps, and the others wait for it: check its clocks, temperature and ECC "
            "errors, or what else runs on it; replace it if it stays slow."
        ),
        evidence=(
            Evidence(WEIGHED, round(blamed.share, 3)),
            Evidence("median step while it is late, ms", round(taken / 1e6, 3), round(evidence.normal_ns / 1e6, 3)),
        ),
        alternatives=runner_up(evidence, blamed),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_blamed_members(given.evidence, given.known, given.accused, given.rules)


DETECTOR: Final = Detector("blamed_member", (FindingKind.SLOW_GPU, FindingKind.SLOW_NIC), _look)
