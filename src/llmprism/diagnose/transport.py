"""How the ranks of a job hand messages over: by agreement, or by pushing them.

*By agreement* (gloo): a message leaves when a small one has said that its receiver is ready. A rank that neither sends
nor receives, and then sends, computed until then.

*Pushed* (NCCL over sockets): a message leaves as soon as there is room in the buffers on its way, so the rank *before*
a slow one pauses, too, until that takes what it was sent, and its pause ends by sending as if it had computed. Who
really did is seen by what it had got and did not pass on (`holding`).

Which of the two it is shows in the messages that follow a pause: over gloo a small one between the same two releases
about half of those of a collective, over NCCL hardly any (4 % with experts, else 1 %). Receivers of a pipeline announce
themselves long before, so pipelines do not tell.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Int64
from llmprism.diagnose.byte_curves import training_messages
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.model.job import Job
from llmprism.model.layout import PairKind
from llmprism.model.timeline import Steps

__all__ = ["agrees_on_messages", "pauses_tell"]


def pauses_tell(evidence: JobEvidence, rules: FaultRules = RULES) -> bool:
    """Do pauses that end by sending show who computed? Where messages are pushed the one before a slow
    member in a ring pauses in the same way; of two, the slow one sends to it in the same moment."""
    rings = [len(group.members) for group in evidence.layout.groups if group.kind == PairKind.DP]
    if evidence.layout.pipelines or (rings and max(rings) == 2):
        return True
    return agrees_on_messages(evidence.job, evidence.timeline.steps, rules)


def agrees_on_messages(job: Job, steps: Steps, rules: FaultRules = RULES) -> bool:
    """Are many of the messages that follow a pause released by a small one?"""
    rule, transfers = rules.members, job.transfers
    inside = steps.at(transfers.start_ns) >= 0
    training = training_messages(job)
    large, small = np.flatnonzero(inside & training), np.flatnonzero(inside & ~training)
    if not large.size or not small.size:
        return False
    ends = np.sort(np.stack([transfers.pair_src, transfers.pair_dst]), axis=0).astype(np.int64)
    both = (ends[0] * len(transfers.addresses) + ends[1])[transfers.pair_of_row]
    _, couple = np.unique(both, return_inverse=True)
    span = int(transfers.end_ns.max() - transfers.start_ns.min()) + 1
    begin = couple * span + (transfers.start_ns - transfers.start_ns.min())
    large = large[np.argsort(begin[large], kind="stable")]
    until = np.maximum.accumulate(begin[large] + (transfers.end_ns - transfers.start_ns)[large])
    pause = begin[large][1:] - until[:-1]
    after = np.flatnonzero((pause > rule.released_pause_ns) & (np.diff(couple[large]) == 0)) + 1
    return (
        _released(begin[large][after], until[after - 1], np.sort(begin[small]), rules) >= rule.agreed * after.size > 0
    )


def _released(begin: Int64, until: Int64, small: Int64, rules: FaultRules) -> int:
    """Messages that begin so shortly after a small one, which came after the one before had ended."""
    place = np.searchsorted(small, begin, side="right") - 1
    last = np.where(place >= 0, small[np.maximum(place, 0)], -1)
    return int(np.count_nonzero((last > until) & (begin - last <= rules.members.released_ns)))
