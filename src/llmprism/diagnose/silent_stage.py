"""The stage that alone is silent for longer in slower steps, told from one GPU of it.

Of a slow stage nearly all members' own silences (`own_gaps`) grow, of one slow GPU those of one replica. But the other
members of its stage wait for it in the collectives of the stage, and some of that looks like silences of their own. It
does so before a message of the collective, never before one to another stage: a member that hands work on has computed
it. So silences before messages to other stages decide where there are any, in both ways: a stage is named by them, and
one GPU whose peers are not silent before theirs is no stage, whatever their other silences say.

Must not shout at: one slow GPU whose replicas wait for it, a stage whose passes end in collectives and not in messages
(silences before these are not seen, and all silences are compared), two stages that are silent alike. Tested in
`test_silent_stage`.
"""

from __future__ import annotations

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.blamed_stage import blamed_stage
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.own_gaps import grown_by, own_gaps
from llmprism.diagnose.rules import RULES, FaultRules

__all__ = ["one_of_it", "silent_stage"]


def silent_stage(
    evidence: JobEvidence, stages: Int64, slower: Bool, usual: Bool, rules: FaultRules = RULES
) -> Int64 | None:
    """The members of the stage that alone is silent for longer in the slower steps; None where none is.

    Silences before messages to other stages tell first: a member that waits in a collective of its stage is not silent
    before these. But not where somebody else is nearly as silent by all silences: then a slow place, or one GPU, holds
    these members up.
    """
    handed = _handed(evidence, slower, usual, rules)
    grown = own_gaps(evidence, rules).grown(len(evidence.job.members), slower, usual)
    for silences in (handed, grown):
        rows = np.unique(stages[int(np.argmax(_of_nearly_all(silences[stages], rules)))])
        tells = handed[rows].max() >= rules.members.stage_handed and _nobody_else(grown, rows, rules)
        if silences is handed and not tells:
            continue
        if _alone(evidence, silences, rows, rules) and not one_of_it(evidence, rows, slower, usual, rules):
            return rows
    blamed = blamed_stage(evidence, slower, usual, rules)
    return None if blamed is None or one_of_it(evidence, blamed, slower, usual, rules) else blamed


def _nobody_else(grown: Float64, rows: Int64, rules: FaultRules) -> bool:
    """Do nobody else's silences grow by nearly as much as those of the most silent one of these members?"""
    others = float(np.delete(grown, rows).max(initial=0.0))
    return others <= rules.members.alone * float(grown[rows].max())


def _handed(evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules) -> Float64:
    """What each member's own silences before messages to other stages grew by, from the usual to the slower steps, in
    shares of what these take longer."""
    silent = own_gaps(evidence, rules).of_members(len(evidence.job.members), evidence.steps, piped=True)
    longer = float((evidence.duration_ns - evidence.normal_ns)[slower].mean())
    return np.asarray(grown_by(silent, slower, usual) / max(longer, 1.0))


def one_of_it(evidence: JobEvidence, rows: Int64, slower: Bool, usual: Bool, rules: FaultRules = RULES) -> bool:
    """Is one of these members silent before its messages to other stages while others are not? Then these wait for it
    in the collectives of their stage."""
    rule, handed = rules.members, _handed(evidence, slower, usual, rules)[rows]
    most, reached = float(handed.max()), float(_of_nearly_all(handed[None, :], rules)[0])
    return most >= rule.stage_handed and reached < rule.stage_handed_alike * most


def _of_nearly_all(grown: Float64, rules: FaultRules) -> Float64:
    """What nearly all members of a stage (a row) reach."""
    return np.asarray(np.quantile(grown, 1.0 - rules.members.stage_agreement, axis=1, method="lower"))


def _alone(evidence: JobEvidence, grown: Float64, rows: Int64, rules: FaultRules) -> bool:
    """Do the silences of nearly all of these members grow, and nobody else's by nearly as much? The members of a
    tensor-parallel group are one: whether one of them is slow or all are is not to be seen."""
    rule = rules.members
    if rows.size < 2 * (evidence.layout.layout.tp or 1):
        return False
    nearly_all, others = float(_of_nearly_all(grown[rows][None, :], rules)[0]), np.delete(grown, rows)
    alike = nearly_all > 0.0 and nearly_all >= rule.stage_alike * float(grown[rows].max())
    return alike and float(others.max(initial=0.0)) <= rule.alone * nearly_all
