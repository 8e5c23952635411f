"""Messages that a slow hop breaks up: their pieces are as fast as ever, with pauses between them.

A collector closes a record when nothing came for a while. What a slow hop lets pass in bursts that are further apart
becomes one record per burst, each at the rate at which bursts are sent, so 128 KB move as fast as ever or faster. But
half of a message, as long as messages of the pair are in usual steps, takes as many times as long as the hop is slower.
A hop that waits for another one waits between messages, and so does what a slow GPU sends: they begin late and take no
longer. So a cell (pair x step) is sick where half a message takes far longer in the slower steps than in usual ones.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence, usual_steps
from llmprism.diagnose.rate_changes import rate_changes
from llmprism.diagnose.rates import half_message_rates
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.unexplained import unexplained_steps
from llmprism.model.layout import PairKind

__all__ = ["broken_up_cells"]


def broken_up_cells(evidence: JobEvidence, rules: FaultRules = RULES) -> tuple[Bool, Bool, Float64] | None:
    """Pairs x steps: whose messages take far longer, where that could have been seen, and rates as shares of the usual
    one; None where it is no news that steps are slower (`unexplained`), or no message takes longer."""
    slower = evidence.counted & (evidence.duration_ns >= rules.trust.unexplained_least * evidence.normal_ns)
    news = unexplained_steps(evidence, (), {}, rules) if slower.any() else []  # which looks at messages
    if not news:
        return None
    longer: Bool = np.logical_or.reduce(news)
    judged = evidence.pair_kind != PairKind.UNKNOWN
    steps, usual = evidence.timeline.steps, usual_steps(evidence, rules)
    rate = half_message_rates(evidence.job.transfers, steps, usual, judged, rules)
    change = rate_changes(evidence, rate, longer, rules)
    sick = change.seen & longer & (change.log < -change.cut)
    if not sick.any():
        return None
    return sick, sick | change.unchanged, np.exp(change.log)
