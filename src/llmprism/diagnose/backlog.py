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
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rate_changes import rate_changes, slower_steps
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["changed_cells"]


def changed_cells(evidence: JobEvidence, rules: FaultRules = RULES) -> tuple[Bool, Bool, Float64] | None:
    """Pairs x steps: whose rate changed, where that could have been seen, and rates as shares of the usual one; None
    where no steps are longer, such steps come again and again, or no rate rose."""
    longer = slower_steps(evidence, rules)
    if longer is None:
        return None
    change = rate_changes(evidence, evidence.rate, longer, rules)
    sick = change.seen & longer & (np.abs(change.log) > change.cut)
    if not (sick & (change.log > 0.0)).any():
        return None
    return sick, sick | change.unchanged, np.exp(change.log)
