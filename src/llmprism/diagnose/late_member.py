"""Slow GPU and stall: one member of a group is late, and its messages are fast.

Catches: a GPU that computes longer than its peers, step after step (`slow_gpu`); a GPU that stands still once for much
longer than a step (`stall`). Works with groups of two: the later one is the late one.
Must not shout at: ordinary jitter (its robust spread widens the cut), one odd step, members of a stage that all wait
for another stage (they are late together), members whose NIC is slow (told apart by `slow_transfer`, which is asked
first), pauses for checkpoints or evaluation (nobody is late then). Tested with the slow_gpu capture against all others.
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from llmprism.diagnose.cost import lost_gpu_seconds, share_lost
from llmprism.diagnose.evidence import JobEvidence
from llmprism.model.finding import Evidence, Finding, FindingKind, Where, WhereType
from llmprism.stats.runs import runs_of

Bool = NDArray[np.bool_]
Float64 = NDArray[np.float64]

__all__ = ["find_late_members"]

MIN_LATE: Final = 0.15
"""Lateness, in normal steps, from which a member counts as late; healthy members reach 0.1 in one step of ten."""

SPREADS: Final = 5.0
"""Lateness must also exceed this many robust spreads of the whole job's lateness."""

MIN_STEPS: Final = 3
"""Late steps before a GPU is called slow."""

MIN_TIME_NS: Final = 4_000_000_000
"""And for so long: shorter bouts are data loading, garbage collection or a neighbour on the host."""

MIN_SLOWDOWN: Final = 1.1
"""Steps with the late member must take at least this many times the job's other steps, where there are others."""

CONSISTENT: Final = 0.75
"""Share of the steps of a run in which the member is late."""

STALL_STEPS: Final = 4.0
"""A single step's lateness, in normal steps, that is a stall."""

STALL_FLOOR_NS: Final = 1_000_000_000
"""And at least a second: shorter stand-stills are the operating system's."""


def find_late_members(evidence: JobEvidence, accused: dict[str, list[tuple[int, int]]]) -> list[Finding]:
    """Findings for one job. `accused` lists when which addresses were already found guilty of slow transfers."""
    if evidence.steps < MIN_STEPS or evidence.normal_ns <= 0:
        return []
    late = evidence.lateness_ns / evidence.normal_ns
    late = np.where(evidence.counted[None, :], late, np.nan)
    known = np.isfinite(late)
    if not known.any():
        return []
    spread = 1.4826 * float(np.median(np.abs(late[known])))
    flagged = np.nan_to_num(late, nan=-1.0) > max(MIN_LATE, SPREADS * spread)
    flagged &= ~_excused(evidence, accused)
    findings = []
    for row in np.flatnonzero(flagged.any(axis=1)):
        stalled = flagged[row] & (late[row] > STALL_STEPS) & (evidence.lateness_ns[row] > STALL_FLOOR_NS)
        findings += [_stall(evidence, int(row), int(step)) for step in np.flatnonzero(stalled)]
        for first, last in runs_of(flagged[row] & ~stalled, bridge=2, shortest=MIN_STEPS):
            finding = _slow(evidence, int(row), first, last, flagged[row])
            findings += [finding] if finding is not None else []
    return _one_per_time(findings)


def _excused(evidence: JobEvidence, accused: dict[str, list[tuple[int, int]]]) -> Bool:
    """Steps during which a slow NIC of the job explains whoever is late."""
    steps = evidence.timeline.steps
    excused = np.zeros(evidence.steps, dtype=np.bool_)
    names = {evidence.job.transfers.addresses[member] for member in evidence.job.members}
    for address, times in accused.items():
        for start, end in times if address in names else ():
            excused |= (steps.end_ns >= start) & (steps.start_ns <= end)
    return np.broadcast_to(excused, evidence.lateness_ns.shape)


def _slow(evidence: JobEvidence, row: int, first: int, last: int, flagged: Bool) -> Finding | None:
    affected = np.zeros(evidence.steps, dtype=np.bool_)
    affected[first:last] = flagged[first:last]
    steps = evidence.timeline.steps
    if steps.end_ns[last - 1] - steps.start_ns[first] < MIN_TIME_NS:
        return None
    if affected.sum() < CONSISTENT * (last - first) or not _delays_the_job(evidence, row, affected):
        return None
    others = evidence.counted & ~affected
    taken = float(np.median(evidence.duration_ns[affected]))
    if others.sum() >= MIN_STEPS and taken < MIN_SLOWDOWN * float(np.median(evidence.duration_ns[others])):
        return None
    name = evidence.job.transfers.addresses[evidence.job.members[row]]
    late = float(np.median(evidence.lateness_ns[row, affected])) / 1e6
    return Finding(
        kind=FindingKind.SLOW_GPU,
        job=evidence.job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(steps.start_ns[first]),
        end_ns=None if last == evidence.steps else int(steps.end_ns[last - 1]),
        severity=round(max(share_lost(evidence, affected), _late_share(evidence, row, affected)), 3),
        confidence=round(min(0.99, 1.0 - 0.5 / (last - first)), 3),
        lost_gpu_seconds=round(max(lost_gpu_seconds(evidence, affected), _late_cost(evidence, row, affected)), 3),
        summary=(
            f"GPU {name} is ready to synchronise {late:.0f} ms after its peers in {int(affected.sum())} of "
            f"{last - first} steps while its network is fast: check its clocks, temperature and ECC errors, "
            "or what else runs on it; replace it if it stays slow."
        ),
        evidence=(
            Evidence("median lateness against the group, ms", round(late, 3), 0.0),
            Evidence("median step while it is late, ms", round(taken / 1e6, 3), round(evidence.normal_ns / 1e6, 3)),
        ),
    )


def _delays_the_job(evidence: JobEvidence, row: int, affected: Bool) -> bool:
    """Is the member later than its group could afford? Later stages end a step early and wait for the first one."""
    group = next(g for g in evidence.layout.groups if evidence.job.members[row] in g.members)
    rows = np.flatnonzero(np.isin(evidence.job.members, group.members))
    ends = evidence.timeline.member_end_ns[rows].max(axis=0)
    slack = evidence.timeline.steps.end_ns - ends
    return bool(np.median((evidence.lateness_ns[row] - slack)[affected]) > 0)


def _late_share(evidence: JobEvidence, row: int, affected: Bool) -> float:
    return float(np.median(evidence.lateness_ns[row, affected] / evidence.duration_ns[affected]))


def _late_cost(evidence: JobEvidence, row: int, affected: Bool) -> float:
    """What the lateness alone costs: the floor of the loss when the whole window is affected."""
    if affected[evidence.counted].mean() < 0.5:
        return 0.0
    return float(evidence.lateness_ns[row, affected].sum()) / 1e9 * len(evidence.job.members)


def _stall(evidence: JobEvidence, row: int, step: int) -> Finding:
    name = evidence.job.transfers.addresses[evidence.job.members[row]]
    steps = evidence.timeline.steps
    waited = float(evidence.lateness_ns[row, step])
    affected = np.zeros(evidence.steps, dtype=np.bool_)
    affected[step] = True
    return Finding(
        kind=FindingKind.STALL,
        job=evidence.job.id,
        where=Where(WhereType.GPU, name),
        start_ns=int(steps.start_ns[step]),
        end_ns=int(steps.end_ns[step]),
        severity=round(share_lost(evidence, affected), 3),
        confidence=0.9,
        lost_gpu_seconds=round(lost_gpu_seconds(evidence, affected), 3),
        summary=(
            f"GPU {name} stood still for {waited / 1e9:.1f} s in step {step} while all of its peers waited: "
            "look for a paused process, a data-loader wait or a GPU reset on its server at that time."
        ),
        evidence=(
            Evidence("seconds behind its group", round(waited / 1e9, 3), 0.0),
            Evidence("duration of the step, s", round(float(evidence.duration_ns[step]) / 1e9, 3),
                     round(evidence.normal_ns / 1e9, 3)),
        ),
    )  # fmt: skip


def _one_per_time(findings: list[Finding]) -> list[Finding]:
    """Of findings of one kind whose times overlap, the costliest: one slow member makes others late too."""
    kept: list[Finding] = []
    for finding in sorted(findings, key=lambda f: -f.evidence[0].value):
        if not any(_overlap(finding, other) for other in kept):
            kept.append(finding)
    return kept


def _overlap(a: Finding, b: Finding) -> bool:
    end_a = a.end_ns if a.end_ns is not None else np.iinfo(np.int64).max
    end_b = b.end_ns if b.end_ns is not None else np.iinfo(np.int64).max
    return a.start_ns < end_b and b.start_ns < end_a
