"""Slow GPU where the job's slower steps are news already and only their cause is missing.

Other detectors ask of each member whether it is late for long enough, and in enough steps, to be no work of chance
(`bouts`). Whether slower steps are news is answered for the job as a whole (`unexplained`); after that the only
question is who was waited for in them. All of these steps together tell that: the member that is later in them at the
synchronisation by what they take longer (`late_throughout`), or else the member whose own silences
(`own_gaps`) grow by as much as the steps do, while those of no other server come near it, was. It is compared with its
own usual steps, so the layout need not be known.

Catches: a slow GPU in few steps, in rings whose messages are pushed, in jobs whose layout is doubtful. Must not shout
at: a slow card or link, which holds back many pieces where a GPU pauses as often as ever, or slows what is sent; a slow
stage, or all members together (others come near); steps that a slow place explains. Tested in `test_blamed_member`.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.late_member import sends_slowly
from llmprism.diagnose.late_throughout import late_throughout
from llmprism.diagnose.own_gaps import OwnGaps, made_up_of, own_gaps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.trust import HELD
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
    gaps = own_gaps(evidence, rules)
    silent = gaps.of_members(len(evidence.job.members), evidence.steps)
    grown = silent - np.median(silent[:, usual], axis=1)[:, None]
    found = []
    for steps in stretches:
        slower = steps & ~usual
        late = late_throughout(evidence, slower, usual, rules)
        if late:
            found += late
            continue
        row = _alone(evidence, grown, slower, rules)
        if row < 0 or sends_slowly(evidence, row, slower, usual):
            continue
        if _computes(gaps, row, slower, usual, rules):
            found.append(_finding(evidence, row, steps, float(np.median(grown[row, slower])), rules))
    return found


def _alone(evidence: JobEvidence, grown: Float64, slower: Bool, rules: FaultRules) -> int:
    """The member whose own silences grow by what the steps take longer, and those of no other server nearly as much;
    -1 where there is none."""
    rule, excess = rules.members, float((evidence.duration_ns - evidence.normal_ns)[slower].sum())
    by = grown[:, slower].sum(axis=1)
    row = int(np.argmax(by))
    others = np.arange(by.size) != row
    if evidence.job.places:  # what a server's GPUs exchange inside of it is not seen, and they wait for each other
        places = np.array(evidence.job.places)
        others &= (places != places[row]) | (places == "")
    enough = excess > 0.0 and by[row] >= rule.gap_share * excess
    return row if enough and by[others].max(initial=0.0) <= rule.gap_alone * by[row] else -1


def _computes(gaps: OwnGaps, row: int, slower: Bool, usual: Bool, rules: FaultRules) -> bool:
    """Are its own silences about as many as it has in usual steps? A hop that is slow makes many short ones."""
    rule = rules.members
    now = [made_up_of(gaps.of_one(row, step)[0], rule.gap_most) for step in np.flatnonzero(slower).tolist()]
    before = [made_up_of(gaps.of_one(row, step)[1], rule.gap_most) for step in np.flatnonzero(usual).tolist()]
    return bool(np.median(now) <= rule.gap_times * max(float(np.median(before)), 1.0))


def _finding(evidence: JobEvidence, row: int, steps: Bool, late_ns: float, rules: FaultRules) -> Finding:
    bounds, job = evidence.timeline.steps, evidence.job
    name = job.transfers.addresses[job.members[row]]
    taken, last = float(np.median(evidence.duration_ns[steps])), bool(steps[evidence.counted][-1])
    return Finding(
        kind=FindingKind.SLOW_GPU,
        job=job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(bounds.start_ns[steps][0]),
        end_ns=None if last else int(bounds.end_ns[steps][-1]),
        severity=round(share_lost(evidence, steps), 3),
        confidence=rules.members.sure_exchange,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, steps), 3),
        summary=(
            f"GPU {name} is silent for {late_ns / 1e6:.0f} ms longer than usual in each of {int(steps.sum())} slower "
            "steps until it goes on by itself, and the others wait for it: check its clocks, temperature and ECC "
            "errors, or what else runs on it; replace it if it stays slow."
        ),
        evidence=(
            Evidence(HELD, round(late_ns / 1e6, 3), 0.0),
            Evidence("median step while it is late, ms", round(taken / 1e6, 3), round(evidence.normal_ns / 1e6, 3)),
        ),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_blamed_members(given.evidence, given.known, given.accused, given.rules)


DETECTOR: Final = Detector("blamed_member", (FindingKind.SLOW_GPU,), _look)
