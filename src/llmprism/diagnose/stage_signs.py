"""Which stage computes longer in slower steps, if one does: signs that are added up.

Of one slow GPU the others of its stage wait; of a slow stage each member computes longer. No sign tells the two apart
in every job: members that exchange contexts or tokens within a pass hide each other's silences, a last stage answers
when it has all micro-batches, and those that wait in the collectives of their stage look silent by themselves. Nor does
one tell a slow stage from a slow group or card below it, which holds the next pass up. So every stage has a score, a
weighted sum of: by how much nearly all of its members work longer, how alike their silences before messages to other
stages grew (a member that hands work on has computed it), how far the silences of nearly all are ahead of anybody
else's, and how far rates fell meanwhile. The stages compete with each other and with "no stage" (a score of 0) by a
softmax; weights are fitted (`rules.SlowStageRules`). What part of the blame for a GPU (`blame`) its members have
together, and how evenly, adds nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from llmprism.arrays import Bool, Float64, Int64
from llmprism.diagnose.blame import fallen, much_slower
from llmprism.diagnose.evidence import JobEvidence
from llmprism.diagnose.own_gaps import grown_by, own_gaps
from llmprism.diagnose.rules import RULES, FaultRules
from llmprism.diagnose.waiting import stage_work_ns
from llmprism.stats.robust import known_median

__all__ = ["SuspectedStage", "stage_terms", "stages_of", "suspected_stage"]


@dataclass(frozen=True, slots=True)
class SuspectedStage:
    """The likeliest stage: its number, the rows of its members, and how likely it is slow."""

    number: int
    rows: Int64
    chance: float


def suspected_stage(
    evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules = RULES
) -> SuspectedStage | None:
    """The stage that most likely was waited for in the `slower` steps; None where no stage has members to compare, or
    too few steps were seen."""
    terms = stage_terms(evidence, slower, usual, rules)
    if terms is None:
        return None
    rule = rules.slow_stage
    weights = (rule.fit_constant, rule.work, rule.handed, rule.silent, rule.fallen)
    scores = np.append(terms @ np.array(weights), 0.0)  # the last one: no stage
    chances = np.exp(scores - scores.max())
    chances /= chances.sum()
    number = int(np.argmax(chances[:-1]))
    sure = min(float(chances[number]), rules.trust.most_sure)
    return SuspectedStage(number, stages_of(evidence)[number], round(sure, 3))


def stages_of(evidence: JobEvidence) -> list[Int64]:
    """Rows of the members of each stage, where there are several pipelines of as many; else none."""
    pipelines = evidence.layout.pipelines
    if len(pipelines) < 2 or len({len(pipeline) for pipeline in pipelines}) != 1:
        return []
    members = np.array(evidence.job.members)
    stages = [np.unique(np.searchsorted(members, stage)) for stage in np.array(pipelines).T]
    return stages if len(stages) > 1 else []


def stage_terms(evidence: JobEvidence, slower: Bool, usual: Bool, rules: FaultRules = RULES) -> Float64 | None:
    """Stages x signs, in the order of the weights of `suspected_stage`; None where nothing can be compared."""
    stages = stages_of(evidence)
    if not stages or usual.sum() < rules.members.late_steps:
        return None
    slower, longer_ns = much_slower(evidence, slower, rules)
    if longer_ns <= 0.0:
        return None
    work, gaps, size = stage_work_ns(evidence), own_gaps(evidence, rules), len(evidence.job.members)
    before, now = (known_median(work[:, steps], axis=1) for steps in (usual, slower))
    works = np.log(np.clip(now / np.maximum(before, 1.0), 1.0, 1.0 + rules.blame.most_work))
    handed, silent = (
        grown_by(gaps.of_members(size, evidence.steps, piped=piped), slower, usual) / longer_ns
        for piped in (True, None)
    )
    fell = min(fallen(evidence, slower, usual), rules.blame.most_fallen)
    return np.array(
        [
            (
                1.0,
                _of_nearly_all(works[rows], rules),
                _ahead(_of_nearly_all(handed[rows], rules), handed[rows], rules),
                _ahead(_of_nearly_all(silent[rows], rules), np.delete(silent, rows), rules),
                fell,
            )
            for rows in stages
        ]
    )


def _of_nearly_all(values: Float64, rules: FaultRules) -> float:
    """What nearly all members of a stage reach, of those of which it is known; 0 where it is of none."""
    known = values[np.isfinite(values)]
    return float(np.quantile(known, 1.0 - rules.members.stage_agreement, method="lower")) if known.size else 0.0


def _ahead(value: float, others: Float64, rules: FaultRules) -> float:
    """How far (a logarithm) a growth is ahead of the largest of others, in shares of what the steps take longer."""
    doubt, most = rules.slow_stage.growth_doubt, float(others.max(initial=0.0))
    return float(np.log((max(value, 0.0) + doubt) / (most + doubt)))
