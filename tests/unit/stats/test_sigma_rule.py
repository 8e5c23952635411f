from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from llmprism.stats.sigma_rule import beyond_sigmas


@given(arrays(np.float64, st.integers(0, 10), elements=st.floats(-1e9, 1e9)))
def test_three_sigma_never_fires_below_eleven_samples(values: np.ndarray) -> None:
    assert not beyond_sigmas(values).any()
    assert not beyond_sigmas(values, low=True).any()


def test_fires_on_the_eleventh_sample_and_on_the_wanted_side() -> None:
    values = np.array([1.0] * 10 + [100.0])
    assert np.flatnonzero(beyond_sigmas(values)).tolist() == [10]
    assert np.flatnonzero(beyond_sigmas(-values, low=True)).tolist() == [10]
    assert not beyond_sigmas(values, low=True).any()


def test_sick_members_mask_each_other() -> None:
    assert beyond_sigmas([1.0] * 94 + [3.0] * 6).sum() == 6
    assert beyond_sigmas([1.0] * 85 + [3.0] * 15).sum() == 0


@pytest.mark.parametrize("value", [0.1, 1e-9, 1e12 / 3])
def test_a_constant_series_is_normal(value: float) -> None:
    assert not beyond_sigmas(np.full(1000, value)).any()
