"""The whole score of one report against one truth."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from llmprism.score.document import parse_report
from llmprism.score.faults import FaultsScore, score_faults
from llmprism.score.jobs import JobsScore, match_jobs, score_jobs
from llmprism.score.measures import Rate, SetScore
from llmprism.score.pairs import TRAINING_KINDS, PairsScore, score_pairs
from llmprism.score.steps import StepsScore, score_steps
from llmprism.score.structure import StructureScore, score_structure
from llmprism.score.truth import Truth

__all__ = ["Score", "score_report"]


@dataclass(frozen=True, slots=True)
class Score:
    jobs: JobsScore
    pairs: PairsScore
    structure: StructureScore
    steps: StepsScore
    faults: FaultsScore

    def to_dict(self) -> dict[str, Any]:
        """The score as JSON values (docs/how-to/score-another-tool.md says what each means)."""
        structure, steps, faults = self.structure, self.steps, self.faults
        return {
            "schema": "llmprism.score/1",
            "jobs": {**_set(self.jobs.exact), "adjusted_rand_index": self.jobs.adjusted_rand_index},
            "pairs": {
                "accuracy": self.pairs.accuracy,
                "kinds": {
                    kind: _set(s) for kind in TRAINING_KINDS if (s := self.pairs.kind(kind)) != SetScore(0, 0, 0)
                },
                "confusion": [{"truth": t, "report": r, "count": n} for t, r, n in self.pairs.confusion],
            },
            "groups": _set(structure.groups),
            "pipelines": _set(structure.pipelines),
            "micro_batches": _rate(structure.micro_batches),
            "degrees": _rate(structure.degrees),
            "schedule": _rate(structure.schedule),
            "sharding": _rate(structure.sharding),
            "state": _rate(structure.state),
            "steps": {
                **_set(steps.boundaries),
                "periods": steps.periods,
                "period_error_median": steps.period_error_median,
                "period_error_p99": steps.period_error_p99,
                "total_time_error": steps.total_time_error,
            },
            "faults": {
                "detected": _rate(faults.detected),
                "kind_right": _rate(faults.kind_right),
                "located": _rate(faults.located),
                "exact": _rate(faults.exact),
                "findings": faults.findings,
                "repeats": faults.repeats,
                "false_alarms": faults.false_alarms,
                "unprompted": faults.unprompted,
                "vague": faults.vague,
                "job_hours": faults.job_hours,
                "false_alarms_per_job_hour": faults.false_alarms_per_job_hour,
                "onset_error_s": faults.onset_error_s,
            },
        }


def score_report(report: dict[str, Any], truth: Truth) -> Score:
    """Scores a parsed `llmprism.report/1` document; FormatError where the document is not one."""
    said = parse_report(report)
    match = match_jobs(truth.jobs, said.jobs)
    return Score(
        jobs=score_jobs(truth.jobs, said.jobs, match),
        pairs=score_pairs(truth.jobs, said.jobs),
        structure=score_structure(truth.jobs, said.jobs, match),
        steps=score_steps(truth.jobs, said.jobs, match),
        faults=score_faults(truth.jobs, truth.faults, said.issues, match, truth.faint),
    )


def _set(score: SetScore) -> dict[str, Any]:
    return {
        "right": score.right,
        "claimed": score.claimed,
        "expected": score.expected,
        "precision": score.precision,
        "recall": score.recall,
        "f1": score.f1,
    }


def _rate(rate: Rate) -> dict[str, Any]:
    return {"right": rate.right, "total": rate.total, "value": rate.value}
