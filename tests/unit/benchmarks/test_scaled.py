"""Captures stretched in time: the truth stretches with them, and what is worse is seen."""

from __future__ import annotations

from dataclasses import replace

from llmprism.model.finding import FindingKind, Where, WhereType
from llmprism.score import Truth
from llmprism.score.document import IssueFact, LayoutFacts, ScoredJob
from perturbed import Right
from scaled import stretched, worse


def test_every_time_is_farther_from_the_first_one() -> None:
    job = ScoredJob(
        "a", frozenset("ab"), LayoutFacts(), (), (), None, (100, 110), (110, 120), partial_end_ns=frozenset({110})
    )
    fault = IssueFact(FindingKind.SLOW_GPU, "a", Where(WhereType.GPU, "a"), 115, None)
    seen = stretched(Truth((job,), (fault,)), 100, 10.0)
    assert seen.jobs[0].step_start_ns == (100, 200)
    assert seen.jobs[0].step_end_ns == (200, 300)
    assert seen.jobs[0].partial_end_ns == {200}
    assert (seen.faults[0].start_ns, seen.faults[0].end_ns) == (250, None)


def test_less_right_or_more_alarms_are_worse() -> None:
    right = Right(1, 1.0, 2, 2, 1, 1.0, 1, 0)
    assert not worse(right, right)
    assert not worse(replace(right, steps=0.96), right)
    for name, value in (("jobs", 0), ("pipelines", 1), ("steps", 0.9), ("faults", 0), ("alarms", 1)):
        assert worse(replace(right, **{name: value}), right)
