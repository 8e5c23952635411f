"""Which pairs move data otherwise in the job's slower steps than in its usual ones: each against its own past."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence, usual_steps, with_a_past
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.stats.robust import known_mad, known_median
from llmprism.stats.stretches import stretches_of

__all__ = ["RateChanges", "rate_changes", "slower_steps"]


@dataclass(frozen=True, slots=True)
class RateChanges:
    """Pairs x steps: `log`, the natural logarithm of the rate over the pair's usual one (0 where `seen` is false), and
    per pair (a column) the `cut` beyond which that is a change; `longer` are the slower steps."""

    log: Float64
    seen: Bool
    cut: Float64
    longer: Bool

    @property
    def unchanged(self) -> Bool:
        """The cells that surely did not change."""
        near: Bool = self.seen & (np.abs(self.log) < 0.5 * self.cut)
        return near


def slower_steps(evidence: JobEvidence, rules: FaultRules = RULES) -> Bool | None:
    """The longer steps, after some that are not; None where there are too few, or such steps come again and again."""
    rule, usual = rules.places, usual_steps(evidence, rules)
    long = evidence.counted & (evidence.duration_ns >= rule.backlog_slowdown * evidence.normal_ns)
    longer: Bool = long & with_a_past(usual, rules)
    lasts = float(evidence.duration_ns[longer].sum())
    few = usual.sum() < rules.members.late_steps or longer.sum() < rule.sick_steps or lasts < rule.slow_ns
    return None if few or len(stretches_of(long, bridge=1)) > rule.queued_stretches else longer


def rate_changes(evidence: JobEvidence, rate: Float64, longer: Bool, rules: FaultRules = RULES) -> RateChanges:
    """How the rates (pairs x steps) of these `longer` steps differ from the usual ones."""
    rule, usual = rules.places, usual_steps(evidence, rules)
    seen = np.isfinite(rate) & (rate > 0.0)
    logs = np.log(np.where(seen, rate, 1.0))
    before = np.where(seen & usual, logs, np.nan)
    change = np.where(seen, logs - known_median(before, axis=1)[:, None], np.nan)
    cut = np.maximum(rule.backlog_change, rule.spreads * np.nan_to_num(known_mad(before)))[:, None]
    known: Bool = np.isfinite(change) & (usual | longer)
    return RateChanges(np.where(known, change, 0.0), known, cut, longer)
