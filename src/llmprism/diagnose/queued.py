"""Hops that hold pieces back behind the point at which records are stamped.

A queue in the network takes in what a sender gives it as fast as ever, so the records of a slow uplink, or of a card
that receives slowly, look healthy: 128 KB leave at line rate, and then nothing does for a while. What shows it are the
pauses of both ends (`own_pauses`): the sender waits for room, the receiver for its piece. In a ring whose other hops
only wait for the slow one, these pause at one end at most.

Judged are steps that take much longer than usual. A cell (pair x step) is sick where the hop holds back a good part of
what the step takes longer, by many short pauses: one long pause is computation. The cells are explained by places as
slow ones are (`tally`).
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64
from llmprism.diagnose.evidence import JobEvidence, usual_steps, with_a_past
from llmprism.diagnose.own_pauses import in_collectives, kept_by_hops_ns, own_pauses
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.stats.stretches import stretches_of

__all__ = ["queued_cells"]


def queued_cells(evidence: JobEvidence, rules: FaultRules = RULES) -> tuple[Bool, Bool, Float64] | None:
    """Pairs x steps: where a hop holds pieces back, where that could have been seen, and what it holds back of the time
    that the step takes longer; None where no steps are much longer than usual, or such steps come again and again."""
    rule, duration = rules.places, evidence.duration_ns
    usual = usual_steps(evidence, rules)
    long = evidence.counted & (duration >= rule.queued_slowdown * evidence.normal_ns)
    longer = long & with_a_past(usual, rules)
    excess = duration - evidence.normal_ns
    if usual.sum() < rules.members.late_steps or excess[longer].sum() < rule.slow_ns:
        return None
    longest = np.where(longer, excess, np.median(excess[longer])) / rule.queued_pauses
    pauses = own_pauses(evidence.job, evidence.timeline.steps)
    kept = kept_by_hops_ns(pauses, evidence.job.transfers.pair_count, longest, usual)
    judged = in_collectives(evidence)[:, None]
    share = np.where(longer & judged, kept / np.maximum(excess, 1.0), 0.0)
    most = share.max(axis=0, initial=0.0)
    clear = longer & (most >= rule.queued_most)
    worth = np.floor(duration[clear] / evidence.normal_ns).sum()
    if worth < rule.queued_steps or len(stretches_of(long, bridge=1)) > rule.queued_stretches:
        return None
    cut = np.maximum(rule.queued_share, rule.queued_alike * most)
    sick = clear & judged & (share >= cut)
    healthy = judged & evidence.timed[:, None] & (usual | (clear & (share < 0.5 * cut)))
    return sick, sick | healthy, share
