"""Slow GPU that is late in all slower steps of a job taken together, though in each of them it may be by chance.

Members of a group are ready to synchronise at times that vary from step to step, in some jobs by a tenth of a step. So
one that is late by a quarter of it is nothing in one step. In ten slower ones in a row it is: chance adds up to
nothing, and the jitter of their median is a third of that of each. Whether slower steps are news was asked before
(`unexplained`); here is asked whether one member, and those that wait with it, is later in them than in usual ones by
what they take longer. Of a pipeline the stage is named whose own work (`waiting`) is longer than that of its peers.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool
from llmprism.diagnose.bouts import Bout
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.late_member import SYNCHRONISE, finding_on, sends_slowly
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.waiting import beyond_peers, excess_share
from llmprism.model.finding import Finding
from llmprism.stats.robust import known_median

__all__ = ["late_throughout"]


def late_throughout(evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules = RULES) -> list[Finding]:
    """The finding on the member that makes these steps slower than the `usual` ones; none where nobody does."""
    rule, late = rules.members, evidence.lateness_ns
    if slower.sum() < rule.late_steps or not np.isfinite(late[:, slower]).any():
        return []
    before = known_median(late[:, usual], axis=1)
    grown = np.nan_to_num(known_median(late[:, slower], axis=1) - before)
    jitter = 1.4826 * known_median(np.abs(late[:, usual] - before[:, None]), axis=1)
    row = int(np.argmax(grown))
    longer = float(np.median(evidence.duration_ns[slower]) - np.median(evidence.duration_ns[usual]))
    by_chance = rule.spreads * float(jitter[row]) / float(np.sqrt(slower.sum()))
    if not grown[row] >= max(rule.gap_share * longer, by_chance):
        return []
    others = ~_waits_with(evidence, row)
    if grown[others].max(initial=0.0) > rule.gap_alone * grown[row] or not _is_own_work(evidence, row, slower, rules):
        return []
    first, last = np.flatnonzero(slower)[[0, -1]].tolist()
    if sends_slowly(evidence, row, slower, usual):
        return []
    return [finding_on(evidence, Bout(row, first, last + 1, slower, float(grown[row]), SYNCHRONISE), rules)]


def _waits_with(evidence: JobEvidence, row: int) -> Bool:
    """The members of its pipelines and of its server, and it itself: they are late when one of them is."""
    job = evidence.job
    near = {m for pipeline in evidence.layout.pipelines if job.members[row] in pipeline for m in pipeline}
    with_it: Bool = np.isin(job.members, [job.members[row], *near])
    if job.places and job.places[row]:
        with_it |= np.array(job.places) == job.places[row]
    return with_it


def _is_own_work(evidence: JobEvidence, row: int, slower: Bool, rules: FaultRules) -> bool:
    """Does a stage of its pipelines work clearly longer than its peers? Asked only where there are pipelines."""
    if not evidence.layout.pipelines:
        return True
    rows, share = beyond_peers(evidence, excess_share(evidence), row, slower)
    return not rows or bool(np.nanmax(share, initial=0.0) >= rules.members.excess)
