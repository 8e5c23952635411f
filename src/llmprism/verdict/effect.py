"""Whether a slow place slowed the job: the durations that the logs print while it lasted, against those before and
after.

A flow finding says which share of the job's speed was lost, by playing steps again without the fault. The ranks' own
clocks measure the same directly. Where the iterations took their usual time, nothing was lost, whatever a transfer
looked like.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.model.finding import Finding
from llmprism.verdict.case import JobCase
from llmprism.verdict.rules import RULES, SlownessRules

__all__ = ["Effect", "measure_effect"]


@dataclass(frozen=True, slots=True)
class Effect:
    """Seconds per iteration while a finding lasted and apart from it, and the slowdown that the finding predicts.

    Inside it is the mean, because faults come and go within that time; no iteration counts for more than the finding
    predicts, so that one pause for another reason does not vouch for it.
    """

    inside_s: float
    outside_s: float
    predicted: float
    rules: SlownessRules = RULES.slowness

    @property
    def slowdown(self) -> float:
        return self.inside_s / self.outside_s - 1

    @property
    def contradicts(self) -> bool:
        return self.slowdown < self.rules.contradicts * self.predicted

    @property
    def confirms(self) -> bool:
        return self.slowdown >= self.rules.confirms * self.predicted


def measure_effect(case: JobCase, finding: Finding) -> Effect | None:
    """None where the logs print no durations, or not both while it lasted and apart from it."""
    rules = case.rules.slowness
    if case.job is None or case.fit is None or finding.severity < rules.least_severity:
        return None
    steps = case.job.timeline.steps
    ends, seconds = [], []
    for rank in case.view.ranks:
        step = case.fit.step_of(rank.iterations)
        good = (step >= 0) & (step < steps.count) & np.isfinite(rank.iteration_seconds)
        good[good] = ~steps.setup[step[good]]
        ends.append(steps.end_ns[step[good]])
        seconds.append(rank.iteration_seconds[good])
    end = np.concatenate(ends) if ends else np.zeros(0)
    duration = np.concatenate(seconds) if seconds else np.zeros(0)
    until = finding.end_ns if finding.end_ns is not None else case.report.window.end_ns
    inside = (end > finding.start_ns) & (end <= until + case.step_ns)
    if np.unique(end[inside]).size < rules.least_inside or np.unique(end[~inside]).size < rules.least_outside:
        return None
    predicted = 1 / (1 - min(finding.severity, 0.99)) - 1
    outside_s = float(np.median(duration[~inside]))
    inside_s = float(np.minimum(duration[inside], (1 + predicted) * outside_s).mean())
    return Effect(inside_s, outside_s, predicted, rules)
