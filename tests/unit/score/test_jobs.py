from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.score.jobs import adjusted_rand_index


def test_known_value_of_hubert_and_arabie() -> None:
    labels = [(0, 0), (0, 0), (1, 0), (1, 1)]
    assert adjusted_rand_index(labels) == pytest.approx(0.0)


@given(st.lists(st.integers(0, 3), min_size=2, max_size=30))
def test_a_partition_agrees_with_itself_under_any_names(labels: list[int]) -> None:
    assert adjusted_rand_index([(label, f"job {label}") for label in labels]) == 1.0


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=30))
def test_it_is_symmetric_and_at_most_one(labels: list[tuple[int, int]]) -> None:
    value = adjusted_rand_index(labels)
    assert value == pytest.approx(adjusted_rand_index([(b, a) for a, b in labels]))
    assert value <= 1.0
