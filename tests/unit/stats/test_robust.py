from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.stats.robust import (
    half_of_sum,
    known_max,
    known_median,
    known_median_of_others,
    mad,
    row_quantiles,
    segment_medians,
    segment_quantiles,
)


def test_mad_estimates_the_standard_deviation() -> None:
    assert mad(np.random.default_rng(0).normal(5.0, 2.0, 20_000)) == pytest.approx(2.0, rel=0.03)
    assert np.isnan(mad([]))


def test_half_of_the_sum_lies_in_values_up_to_this_one() -> None:
    assert half_of_sum([1] * 90 + [1_000] * 3) == 1_000.0
    assert half_of_sum([5, 1, 3]) == 5.0
    assert half_of_sum([0, 0]) == half_of_sum([]) == 0.0


@given(st.lists(st.lists(st.floats(-1e9, 1e9), max_size=9), min_size=1, max_size=6))
def test_segment_medians_are_the_medians_of_the_segments(parts: list[list[float]]) -> None:
    offsets = np.cumsum([0] + [len(part) for part in parts])
    medians = segment_medians(np.concatenate([np.array(part, dtype=float) for part in parts]), offsets)
    expected = [np.median(part) if part else np.nan for part in parts]
    np.testing.assert_allclose(medians, expected, rtol=1e-12, atol=1e-300)


@settings(deadline=None)
@given(
    st.lists(st.lists(st.floats(-1e9, 1e9), max_size=9), min_size=1, max_size=6),
    st.floats(0.0, 1.0),
)
def test_segment_quantiles_are_those_of_numpy_in_both_forms(parts: list[list[float]], quantile: float) -> None:
    offsets = np.cumsum([0] + [len(part) for part in parts])
    values = np.concatenate([np.array(part, dtype=float) for part in parts])
    expected = [np.quantile(part, quantile) if part else np.nan for part in parts]
    for form in (always_interpreted, always_compiled):
        with form():
            np.testing.assert_array_equal(segment_quantiles(values, offsets, quantile)[0], expected)


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        mad([1.0, float("nan")])


@given(arrays(np.float64, (5, 4), elements=st.one_of(st.just(np.nan), st.floats(-1e6, 1e6))), st.integers(0, 1))
def test_known_values_alone_count(values: NDArray[np.float64], axis: int) -> None:
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        median, largest = np.nanmedian(values, axis=axis), np.nanmax(values, axis=axis)
    np.testing.assert_allclose(known_median(values, axis), median)
    np.testing.assert_allclose(known_max(values, axis), largest)


@given(
    arrays(
        np.float64, st.tuples(st.integers(1, 7), st.just(3)), elements=st.sampled_from([np.nan, -1.0, 0.5, 2.0, 9.0])
    )
)
def test_each_row_is_left_out_of_its_own_median(values: NDArray[np.float64]) -> None:
    expected = np.stack([known_median(np.delete(values, row, axis=0)) for row in range(len(values))])
    np.testing.assert_array_equal(known_median_of_others(values), expected)


def test_of_nothing_nothing_is_known() -> None:
    assert np.isnan(known_median(np.zeros((0, 3)))).tolist() == [True] * 3
    assert np.isnan(known_max(np.zeros((0, 3)))).tolist() == [True] * 3


def test_quantiles_of_rows_are_those_of_numpy() -> None:
    rng = np.random.default_rng(3)
    for columns in (1, 2, 5, 40):
        table = rng.integers(0, 10**12, (7, columns))
        for quantile in (0.0, 0.2, 0.5, 0.8, 1.0):
            [found] = row_quantiles(table, quantile)
            np.testing.assert_array_equal(found, np.quantile(table.astype(np.float64), quantile, axis=1))
    assert np.isnan(row_quantiles(np.zeros((2, 0)), 0.2, 0.8)).all()
