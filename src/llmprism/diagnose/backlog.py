"""Hops that lag behind: in slower steps they send without the pauses that they used to have.

In a ring, or between two stages, pieces leave when they come: a quantum of bytes takes as long as the pauses inside it.
A hop that passes pieces on slowly behind the point at which records are stamped always has pieces waiting. They follow
each other at once, so that in the slower steps its rate is many times what it used to be, while hops that wait for it
keep theirs. Where it is slow before that point its rate falls instead. So the place of the fault is where rates
*changed*, either way.

The neighbours of a slow GPU catch up in the same way, so a card is no explanation by this sign: who was waited for is
asked elsewhere (`blame`). Judged are steps that are longer than usual, after some that are not.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence, usual_steps, with_a_past
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.stats.robust import known_mad, known_median
from llmprism.stats.stretches import stretches_of

__all__ = ["changed_cells"]


def changed_cells(evidence: JobEvidence, rules: FaultRules = RULES) -> tuple[Bool, Bool, Float64] | None:
    """Pairs x steps: whose rate changed, where that could have been seen, and rates as shares of the usual one; None
    where no steps are longer, such steps come again and again, or no rate rose."""
    rule, usual = rules.places, usual_steps(evidence, rules)
    long = evidence.counted & (evidence.duration_ns >= rule.backlog_slowdown * evidence.normal_ns)
    longer = long & with_a_past(usual, rules)
    lasts = float(evidence.duration_ns[longer].sum())
    few = usual.sum() < rules.members.late_steps or longer.sum() < rule.sick_steps or lasts < rule.slow_ns
    if few or len(stretches_of(long, bridge=1)) > rule.queued_stretches:
        return None
    seen = np.isfinite(evidence.rate) & (evidence.rate > 0.0)
    logs = np.log(np.where(seen, evidence.rate, 1.0))
    before = np.where(seen & usual, logs, np.nan)
    change = np.where(seen, logs - known_median(before, axis=1)[:, None], np.nan)
    cut = np.maximum(rule.backlog_change, rule.spreads * np.nan_to_num(known_mad(before)))[:, None]
    known = np.isfinite(change) & (usual | longer)
    change = np.where(known, change, 0.0)
    sick = known & longer & (np.abs(change) > cut)
    if not (sick & (change > 0.0)).any():
        return None
    return sick, sick | (known & (np.abs(change) < 0.5 * cut)), np.exp(change)
