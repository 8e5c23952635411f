"""Windows of captures: cut while nothing is wrong, with whole steps of every job, and judged by what they hold."""

from __future__ import annotations

from llmprism.model.finding import FindingKind, Where, WhereType
from llmprism.score import Truth
from llmprism.score.document import IssueFact, LayoutFacts, ScoredJob
from windows import quiet_span, windows_of, within

SECOND = 1_000_000_000


def job(name: str, steps: int, begin_s: int = 0) -> ScoredJob:
    """One step a second."""
    ends = tuple((begin_s + number) * SECOND for number in range(1, steps + 1))
    members = frozenset({f"{name}0", f"{name}1"})
    return ScoredJob(name, members, LayoutFacts(), (), (), None, tuple(end - SECOND for end in ends), ends)


def fault(at_s: int) -> IssueFact:
    return IssueFact(FindingKind.SLOW_GPU, "a", Where(WhereType.GPU, "a0"), at_s * SECOND, None)


def test_a_window_begins_after_the_third_step_and_ends_before_the_first_fault() -> None:
    assert quiet_span(Truth((job("a", 30),), ())) == (3 * SECOND, 29 * SECOND)
    assert quiet_span(Truth((job("a", 30), job("b", 20, 5)), ())) == (8 * SECOND, 24 * SECOND)
    assert quiet_span(Truth((job("a", 30),), (fault(20),))) == (3 * SECOND, 20 * SECOND)
    assert quiet_span(Truth((job("a", 30),), (), (fault(2),))) is None
    assert quiet_span(Truth((job("a", 4),), ())) is None


def test_every_job_has_eight_steps_in_a_window() -> None:
    assert set(windows_of(Truth((job("a", 30),), ()))) == {"all", "first", "last"}
    assert set(windows_of(Truth((job("a", 15),), ()))) == {"all"}
    assert windows_of(Truth((job("a", 30), job("b", 9)), ())) == {}


def test_a_step_that_began_before_the_window_counts_neither_way() -> None:
    seen = within(Truth((job("a", 30),), (fault(20),)), (5 * SECOND // 2, 6 * SECOND))
    assert seen.faults == ()
    assert seen.jobs[0].step_end_ns == tuple(end * SECOND for end in (3, 4, 5, 6))
    assert seen.jobs[0].partial_end_ns == {3 * SECOND}
