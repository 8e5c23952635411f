"""What a pair carries, scored against a truth that lists its pairs."""

from __future__ import annotations

import pytest

from llmprism.score.document import LayoutFacts, ScoredJob
from llmprism.score.pairs import score_pairs


def job(pairs: tuple[tuple[str, str, str], ...], setup: frozenset[tuple[str, str, str]] = frozenset()) -> ScoredJob:
    return ScoredJob("j", frozenset("abc"), LayoutFacts(), (), (), pairs, (0,), (10,), optional_pairs=setup)


TRUE = (("a", "b", "dp"), ("b", "a", "dp"))
SETUP = frozenset({("a", "c", "dp")})


@pytest.mark.parametrize("said", [TRUE, (*TRUE, ("a", "c", "dp"))])
def test_a_pair_of_the_set_up_may_be_listed_or_not(said: tuple[tuple[str, str, str], ...]) -> None:
    assert score_pairs((job(TRUE, SETUP),), (job(said),)).accuracy == 1.0


def test_a_pair_of_the_set_up_with_another_kind_is_wrong() -> None:
    assert score_pairs((job(TRUE, SETUP),), (job((*TRUE, ("a", "c", "pp"))),)).accuracy == pytest.approx(2 / 3)


def test_the_same_pair_is_wrong_where_the_truth_does_not_know_it() -> None:
    assert score_pairs((job(TRUE),), (job((*TRUE, ("a", "c", "dp"))),)).accuracy == pytest.approx(2 / 3)
