from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.score.steps import match_boundaries

boundaries = st.lists(st.integers(0, 10_000), max_size=40, unique=True).map(
    lambda v: np.array(sorted(v), dtype=np.int64)
)


@given(boundaries, boundaries, st.integers(0, 500))
def test_matches_are_one_to_one_in_order_and_within_tolerance(true: object, said: object, tolerance: int) -> None:
    assert isinstance(true, np.ndarray)
    assert isinstance(said, np.ndarray)
    at_true, at_said = match_boundaries(true, said, tolerance)
    assert np.all(np.diff(at_true) > 0)
    assert np.all(np.diff(at_said) > 0)
    assert np.all(np.abs(true[at_true] - said[at_said]) <= tolerance)


@given(boundaries)
def test_a_boundary_matches_itself(true: object) -> None:
    assert isinstance(true, np.ndarray)
    at_true, at_said = match_boundaries(true, true, 0)
    assert np.array_equal(at_true, np.arange(true.size))
    assert np.array_equal(at_said, at_true)
