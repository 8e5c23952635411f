"""Jobs that pass a place and are as fast as ever: they speak against it.

Where a group and a switch explain the slow pairs of a job alike, another job on the same switch tells: what slows the
switch slows both. Of each job are kept, per link and switch on its paths and per step, the number of pairs that moved
data there as fast as ever; only steps that took no longer than usual count, so that a job that is slow by whatever sign
does not testify. Asked are only the suspected places, and only about the suspected time (`tally`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Int32, Int64
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.passes import Place, ways_of
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["Bystander", "bystander_of"]


@dataclass(frozen=True, slots=True)
class Bystander:
    """One job: the numbers of the links and switches that its healthy pairs pass, its steps, and per place how many
    healthy cells (pair x step) come before each step; the last column holds all."""

    job: str
    number: dict[Place, int]
    start_ns: Int64
    end_ns: Int64
    before: Int32

    def healthy_cells(self, place: Place, times: Sequence[tuple[int, int]]) -> int:
        """Healthy cells through a place in the steps that lie within these times: of several, which may be those of
        other jobs that tell of one time, the one that holds most."""
        if place not in self.number:
            return 0
        before = self.before[self.number[place]]
        first = np.searchsorted(self.start_ns, [start for start, _ in times], side="left")
        after = np.searchsorted(self.end_ns, [end for _, end in times], side="right")
        return int((before[np.maximum(after, first)] - before[first]).max(initial=0))


def bystander_of(evidence: JobEvidence, healthy: Bool, rules: FaultRules = RULES) -> Bystander | None:
    """What a job with these `healthy` cells (pairs x steps) says for the places that its pairs pass, if they are large
    enough for slowness to show; None if it says nothing."""
    well = healthy & evidence.timed[:, None] & usual_steps(evidence, rules)
    ways = ways_of(evidence, np.flatnonzero(well.any(axis=1)), rules)
    if not ways.number:
        return None
    steps = evidence.timeline.steps
    before = np.zeros((len(ways.number), steps.count + 1), dtype=np.int32)
    np.cumsum(np.add.reduceat(well[ways.pairs], ways.offsets[:-1], axis=0, dtype=np.int32), axis=1, out=before[:, 1:])
    return Bystander(evidence.job.id, ways.number, steps.start_ns, steps.end_ns, before)
