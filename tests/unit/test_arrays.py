"""The median and the quantiles of a few numbers are NumPy's, to the bit; the nearest of sorted numbers."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.arrays import FEW_NUMBERS, evenly_spread, median, median_deviation, medians, nearest, quantile

WHOLE = st.lists(st.integers(-(2**62), 2**62), min_size=1, max_size=12)
REAL = st.lists(st.floats(-1e300, 1e300) | st.sampled_from([np.nan, np.inf]), min_size=1, max_size=12)


def same(numbers: np.ndarray) -> bool:
    return median(numbers).tobytes() == np.float64(np.median(numbers)).tobytes()


@given(WHOLE)
def test_whole_numbers(values: list[int]) -> None:
    assert same(np.array(values, dtype=np.int64))


@given(REAL)
def test_real_numbers(values: list[float]) -> None:
    with np.errstate(invalid="ignore"):
        found, expected = median(values), np.median(values)
    assert found == expected or (np.isnan(found) and np.isnan(expected))


@pytest.mark.parametrize("count", [FEW_NUMBERS - 1, FEW_NUMBERS, FEW_NUMBERS + 1])
def test_few_and_many(count: int) -> None:
    assert same(np.random.default_rng(count).normal(size=count))


def test_all_numbers_of_a_table_count() -> None:
    assert median(np.array([[5.0, 1.0], [2.0, 9.0]])) == 3.5


def test_the_deviation_is_from_the_median_and_one_far_number_does_not_move_it() -> None:
    assert median_deviation([1, 2, 3, 4, 100]) == 1.0
    assert median_deviation(np.array([])) == 0.0


@given(st.integers(0, 6), st.integers(0, 5), st.randoms(use_true_random=False))
def test_medians_along_an_axis(rows: int, columns: int, random: object) -> None:
    table = np.array([[random.choice([1.5, -2.0, np.nan, np.inf, random.random()]) for _ in range(columns)]  # type: ignore[attr-defined]
                      for _ in range(rows)]).reshape(rows, columns)  # fmt: skip
    whole = np.nan_to_num(table, posinf=7.0).astype(np.int64)
    with np.errstate(invalid="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of no numbers
        for values, axis in itertools.product((table, whole), (0, 1)):
            assert np.array_equal(medians(values, axis), np.median(values, axis=axis), equal_nan=True)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=20), st.floats(0.0, 1.0))
def test_quantiles(values: list[float], share: float) -> None:
    assert quantile(np.array(values), share) == np.quantile(values, share)


@given(st.integers(0, 3000), st.integers(1, 600))
def test_places_are_spread_evenly_and_none_comes_twice(count: int, most: int) -> None:
    expected = np.unique(np.linspace(0, count - 1, min(most, count)).astype(np.int64))
    assert evenly_spread(count, most).tolist() == expected.tolist()


@given(WHOLE, WHOLE)
def test_the_nearest_is_no_farther_than_any_and_the_first_of_those(values: list[int], among: list[int]) -> None:
    wanted, ordered = np.array(values) // 8, np.sort(np.array(among) // 8)
    found = nearest(wanted, np.unique(ordered))
    for value, place in zip(wanted.tolist(), found.tolist(), strict=True):
        assert place == min(range(np.unique(ordered).size), key=lambda k: abs(np.unique(ordered).tolist()[k] - value))
