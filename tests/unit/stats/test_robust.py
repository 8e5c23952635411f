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
    Tail,
    known_max,
    known_median,
    known_median_of_others,
    leave_one_out_scores,
    mad,
    outliers,
    robust_scores,
    segment_medians,
    segment_quantiles,
    weighted_median,
    weighted_quantile,
)


@pytest.mark.parametrize("members", range(3, 31))
def test_a_third_of_the_members_sick_is_found_exactly(members: int) -> None:
    random = np.random.default_rng(members)
    values = random.normal(1.0, 0.02, members)
    sick = random.choice(members, members // 3, replace=False)
    values[sick] *= random.uniform(1.5, 3.0, sick.size)
    assert np.flatnonzero(outliers(values)).tolist() == sorted(sick.tolist())


@pytest.mark.parametrize("members", range(2, 31))
def test_healthy_members_are_left_alone(members: int) -> None:
    random = np.random.default_rng(100 + members)
    alarms = sum(int(outliers(random.normal(1.0, 0.02, members)).any()) for _ in range(200))
    assert alarms == 0


def test_of_two_members_the_slow_one_is_named() -> None:
    assert outliers([1.0, 1.5]).tolist() == [False, True]
    assert outliers([100.0, 30.0], tail=Tail.LOW).tolist() == [False, True]
    assert outliers([1.0, 1.05]).tolist() == [False, False]


def test_one_member_has_nobody_to_differ_from() -> None:
    assert leave_one_out_scores([5.0]).tolist() == [0.0]
    assert leave_one_out_scores([]).tolist() == []


def test_both_tails() -> None:
    values = [1.0, 1.01, 0.99, 1.0, 3.0, 0.2]
    assert outliers(values, tail=Tail.BOTH).tolist() == [False] * 4 + [True, True]
    assert outliers(values, tail=Tail.HIGH).tolist() == [False] * 4 + [True, False]


def test_many_members_are_judged_together() -> None:
    values = np.random.default_rng(0).normal(10.0, 1.0, 500)
    values[:150] += 20.0
    assert outliers(values)[:150].all()
    assert np.array_equal(leave_one_out_scores(values), robust_scores(values))


def test_without_floor_and_spread_a_difference_is_infinite() -> None:
    scores = robust_scores([2.0, 2.0, 2.0, 1.0], relative_floor=0.0)
    assert scores.tolist() == [0.0, 0.0, 0.0, -np.inf]


def test_mad_estimates_the_standard_deviation() -> None:
    assert mad(np.random.default_rng(0).normal(5.0, 2.0, 20_000)) == pytest.approx(2.0, rel=0.03)
    assert np.isnan(mad([]))


numbers = arrays(np.float64, st.integers(1, 20), elements=st.floats(-1e6, 1e6))


@given(numbers)
def test_equal_weights_give_the_median(values: np.ndarray) -> None:
    assert weighted_median(values, np.full(values.size, 0.7)) == pytest.approx(np.median(values))


@given(arrays(np.int64, st.integers(1, 12), elements=st.integers(-100, 100)), st.data())
def test_whole_weights_are_repetitions(values: np.ndarray, data: st.DataObject) -> None:
    weights = np.array(data.draw(st.lists(st.integers(1, 5), min_size=values.size, max_size=values.size)))
    assert weighted_median(values, weights) == pytest.approx(np.median(np.repeat(values, weights)))


def test_weighted_quantile_ends() -> None:
    values, weights = [3.0, 1.0, 2.0], [1.0, 5.0, 0.0]
    assert weighted_quantile(values, weights, 0.0) == 1.0
    assert weighted_quantile(values, weights, 1.0) == 3.0
    assert np.isnan(weighted_median([1.0], [0.0]))
    with pytest.raises(ValueError, match="weight"):
        weighted_median([1.0], [-1.0])


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


@given(numbers, st.floats(0.1, 1e3))
def test_scores_do_not_depend_on_the_unit(values: np.ndarray, factor: float) -> None:
    # Scores of values that tie with the median up to rounding have no stable sign, hence the absolute floor.
    floor = 1e-3
    before = leave_one_out_scores(values, absolute_floor=floor)
    after = leave_one_out_scores(values * factor, absolute_floor=floor * factor)
    np.testing.assert_allclose(after, before, rtol=1e-6, atol=1e-5)


def test_values_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        robust_scores([1.0, float("nan")])


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
