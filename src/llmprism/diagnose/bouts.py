"""Bouts: runs of steps in which one member of a job is late, by whatever measure.

A run must be long, dense and slow enough, and no work of chance, given how often anybody is late at other times
(`chance`). Who is late in what is `late_member`'s.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.chance import log_expected_runs
from llmprism.diagnose.cost import long_enough_ns
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import FaultRules
from llmprism.diagnose.throughout import stand_out
from llmprism.stats.stretches import stretches_of

__all__ = ["Bout", "bouts_of", "in_steps", "one_per_time"]


@dataclass(frozen=True, slots=True)
class Bout:
    """A member (row) that is late in the `affected` steps between `first` and `last`, by `late_ns` as a rule.

    `how` says late in what: the words of the summary. `weight` is by how much of its own work it is late, 0 where that
    is not known.
    """

    row: int
    first: int
    last: int
    affected: Bool
    late_ns: float
    how: str
    weight: float = 0.0

    def overlaps(self, other: Bout) -> bool:
        return self.first < other.last and other.first < self.last


def in_steps(evidence: JobEvidence, lateness_ns: Float64, least: float, rules: FaultRules) -> tuple[Float64, float]:
    """Lateness in normal steps (NaN outside the counted ones), and what is beyond the job's ordinary spread."""
    late = np.where(evidence.counted[None, :], lateness_ns / evidence.normal_ns, np.nan)
    known = np.isfinite(late)
    spread = 1.4826 * float(np.median(np.abs(late[known]))) if known.any() else 0.0
    return late, max(least, rules.members.spreads * spread)


def bouts_of(
    evidence: JobEvidence,
    lateness_ns: Float64,
    flagged: Bool,
    how: str,
    rules: FaultRules,
    consistent: float | None = None,
    *,
    as_late: bool = False,
) -> list[Bout]:
    """The runs of flagged steps that are long, dense and slow enough, and no work of chance. How often chance flags a
    cell is read from those that are flagged outside of a run, or, `as_late`, from those half as late as the run: where
    only longer steps can be flagged, the others say no more than that."""
    found, steps = [], evidence.timeline.steps
    consistent = rules.members.consistent if consistent is None else consistent
    least = long_enough_ns(rules.members.late_ns, steps, rules)
    known = np.isfinite(lateness_ns) & evidence.counted[None, :]
    twice_as_long = evidence.duration_ns >= rules.members.long_step * evidence.normal_ns
    for row in np.flatnonzero(flagged.any(axis=1)):
        for first, last in stretches_of(flagged[row], bridge=2, shortest=2):
            affected = np.zeros(evidence.steps, dtype=np.bool_)
            affected[first:last] = flagged[row, first:last]
            few = affected.sum() < rules.members.late_steps
            if few and not (affected <= twice_as_long | stand_out(evidence, affected, rules)).all():
                continue
            lasting = steps.end_ns[last - 1] - steps.start_ns[first] >= least
            hits = int(affected.sum())
            if not lasting or hits < consistent * (last - first) or not _slows(evidence, affected, rules):
                continue
            late = float(np.nanmedian(lateness_ns[row, affected]))
            chance = np.nan_to_num(lateness_ns) >= rules.members.half_as_late * late if as_late else flagged
            often = log_expected_runs(chance, known, first, last, hits, twice=hits if few else 0)
            if often <= log(rules.members.by_chance_runs):
                found.append(Bout(int(row), first, last, affected, late, how))
    return found


def _slows(evidence: JobEvidence, affected: Bool, rules: FaultRules) -> bool:
    """Do the affected steps take longer than the job's others, where there are enough others?"""
    others = evidence.counted & ~affected
    if others.sum() < rules.members.late_steps:
        return True
    taken = float(np.median(evidence.duration_ns[affected]))
    return taken >= rules.members.slowdown * float(np.median(evidence.duration_ns[others]))


def one_per_time(bouts: list[Bout]) -> list[Bout]:
    """Of bouts that overlap, the worst, by its own work where that is known: one slow member makes others late too."""
    kept: list[Bout] = []
    for bout in sorted(bouts, key=lambda bout: (-bout.weight, -bout.late_ns)):
        if not any(bout.overlaps(other) for other in kept):
            kept.append(bout)
    return kept
