"""A stage that computes longer than it used to, by the blame that its members share.

Where one GPU is slow, all signs together blame that one (`blame`): the others of its stage wait, and do not end their
silences by themselves. Where a whole stage is slow, each of its members computes longer, so nobody of them stands out
and the stage as a whole has all of the blame. Members that exchange contexts or tokens within a pass wait for each
other and hide each other's silences; shares add up all the same.

Must not shout at: one slow GPU (it has most of its stage's share), a slow group, card or switch below a stage (rates
fall). Tested in `test_blamed_stage`.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Int64
from llmprism.diagnose.blame import fallen, much_slower, shares_of, signs_of, tensor_peers
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["blamed_stage"]


def blamed_stage(evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules = RULES) -> Int64 | None:
    """Rows of the members of the stage that was waited for in the `slower` steps; None where none as a whole was."""
    rule, pipelines = rules.members, evidence.layout.pipelines
    if not pipelines or len({len(pipeline) for pipeline in pipelines}) != 1 or usual.sum() < rule.late_steps:
        return None
    slower, longer = much_slower(evidence, slower, rules)
    if longer <= 0.0 or fallen(evidence, slower, usual) > rule.stage_fallen:
        return None
    shares = shares_of(signs_of(evidence, slower, usual, longer, rules), rules)
    stages = np.searchsorted(np.array(evidence.job.members), np.array(pipelines).T)
    rows = np.unique(max(stages, key=lambda stage: float(shares[np.unique(stage)].sum())))
    whole = float(shares[rows].sum())
    most = max(float(shares[tensor_peers(evidence, row)].sum()) for row in rows[np.argsort(shares[rows])[-2:]].tolist())
    return rows if whole >= rule.stage_share and most <= rule.stage_most * whole else None
