"""Stall of a whole job: everybody stands still in the middle of a step, then goes on.

Catches: a step that takes many times the usual, with one long silence of the whole job inside it (a file system that
does not answer, a fabric that pauses, a controller that holds everyone).
Must not shout at: pauses between steps (checkpoints, evaluation: the silence is before the step's first message), a
stall that one late GPU explains, crashes. Tested with the stall-and-restart and hard-negatives scenarios.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.byte_curves import ByteCurve, training_messages
from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.detector import Detector, DetectorInput
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.stalls import beyond_jitter
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.stats.order import stable_order

__all__ = ["DETECTOR", "find_standstills"]


def find_standstills(evidence: JobEvidence, known: Sequence[Finding], rules: FaultRules = RULES) -> list[Finding]:
    """Stalls of one job that no finding of `known` explains."""
    least = max(rules.members.stall_ns, rules.endings.still_steps * evidence.normal_ns)
    steps = evidence.timeline.steps
    suspects = np.flatnonzero(evidence.counted & (evidence.duration_ns > evidence.normal_ns + least))
    findings = []
    for step in suspects[beyond_jitter(evidence, rules)[suspects]]:
        silence = _longest_inside(evidence, int(steps.start_ns[step]), int(steps.end_ns[step]), rules)
        if silence is None or silence[1] - silence[0] < least or _explained(evidence, int(step), known):
            continue
        if not _between_steps(evidence, silence, suspects, rules):
            findings.append(_finding(evidence, int(step), silence, rules))
    return findings


def _between_steps(
    evidence: JobEvidence, silence: tuple[int, int], suspects: NDArray[np.int64], rules: FaultRules
) -> bool:
    """Is this where the job rests between its steps, and nowhere else in them? Then the clock cut them elsewhere, and
    it is a checkpoint or an evaluation."""
    steps, rows = evidence.timeline.steps, training_messages(evidence.job)
    transfers = evidence.job.transfers
    curve = ByteCurve.of(transfers.start_ns[rows], transfers.end_ns[rows], transfers.bytes[rows])
    usual = np.setdiff1d(np.flatnonzero(evidence.counted), suspects)
    bounds = np.stack([steps.start_ns[usual], steps.end_ns[usual]]).astype(np.float64)
    amount = float(np.median(np.diff(curve.at(bounds), axis=0))) if usual.size else 0.0
    if amount <= 0.0:
        return False
    flat = np.flatnonzero((np.diff(curve.passed) <= 0.0) & (np.diff(curve.when_ns) > 0.0))
    length = np.diff(curve.when_ns)[flat]
    inside = np.isin(steps.at(curve.when_ns[flat].astype(np.int64)), usual)
    here = float(curve.at(np.array([silence[0]], dtype=np.float64))[0])
    point = ((curve.passed[flat] - here) / amount + 0.5) % 1.0 - 0.5
    near = inside & (np.abs(point) <= rules.endings.same_point)
    rest = float(np.median(length[near])) if near.any() else 0.0
    others = length[inside & ~near]
    alone = np.count_nonzero(others >= rules.endings.surely_resting * rest) < 0.5 * usual.size
    return bool(rest > 0.0 and near.sum() >= 0.5 * usual.size and alone)


def _longest_inside(evidence: JobEvidence, first: int, last: int, rules: FaultRules) -> tuple[int, int] | None:
    """The longest silence of the job between two messages of the step."""
    transfers = evidence.job.transfers
    rows = training_messages(evidence.job) & (transfers.start_ns >= first) & (transfers.start_ns < last)
    start, end = transfers.start_ns[rows], transfers.end_ns[rows]
    if start.size < 2:
        return None
    order = stable_order(start)
    begin, horizon = start[order], np.maximum.accumulate(end[order])
    sent = np.cumsum(transfers.bytes[rows][order])
    longest = int(np.argmax(begin[1:] - horizon[:-1]))
    if not rules.endings.begun * sent[-1] < sent[longest] < (1.0 - rules.endings.begun) * sent[-1]:
        return None
    return int(horizon[longest]), int(begin[longest + 1])


def _explained(evidence: JobEvidence, step: int, known: Sequence[Finding]) -> bool:
    """Is something else wrong with the job in this step, or right before or after it? What is slow may end in a step in
    which nothing moves for a while: a transport that gets no answer waits for twice as long each time."""
    begin, end = evidence.timeline.steps.start_ns[step], evidence.timeline.steps.end_ns[step]
    return any(
        finding.job == evidence.job.id
        and finding.start_ns <= end
        and (finding.end_ns is None or finding.end_ns >= begin)
        for finding in known
    )


def _finding(evidence: JobEvidence, step: int, silence: tuple[int, int], rules: FaultRules) -> Finding:
    affected = np.zeros(evidence.steps, dtype=np.bool_)
    affected[step] = True
    seconds = (silence[1] - silence[0]) / 1e9
    return Finding(
        kind=FindingKind.STALL,
        job=evidence.job.id,
        where=Where(WhereType.JOB, evidence.job.id),
        start_ns=silence[0],
        end_ns=silence[1],
        severity=round(share_lost(evidence, affected), 3),
        confidence=rules.endings.sure_standstill,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, affected), 3),
        summary=(
            f"All {len(evidence.job.members)} GPUs of {evidence.job.id} stood still for {seconds:.1f} s inside step "
            f"{step}, none later than the others: look at what they share, the file system first."
        ),
        evidence=(Evidence("seconds of silence inside the step", round(seconds, 3), 0.0),),
    )


def _look(given: DetectorInput) -> list[Finding]:
    return find_standstills(given.evidence, given.known, given.rules)


DETECTOR: Final = Detector("standstill", (FindingKind.STALL,), _look)
