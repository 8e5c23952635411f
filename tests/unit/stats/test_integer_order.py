import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.stats.integer_order import grouped_order, stable_order

NEAR = st.lists(st.integers(-5, 5), max_size=50)
FAR = st.lists(st.integers(-(2**63), 2**63 - 1), max_size=50)


@given(NEAR | FAR)
def test_it_is_the_order_of_a_stable_sort(values: list[int]) -> None:
    array = np.array(values, dtype=np.int64)
    assert stable_order(array).tolist() == np.argsort(array, kind="stable").tolist()


def test_times_of_a_day_in_nanoseconds_are_packed_and_those_of_a_century_still_sorted() -> None:
    random = np.random.default_rng(0)
    for span in (86_400 * 10**9, 100 * 365 * 86_400 * 10**9):
        times = 1_700_000_000 * 10**9 + random.integers(0, span, 5_000) // 10**9 * 10**9
        assert (stable_order(times) == np.argsort(times, kind="stable")).all()


def test_narrow_numbers_are_sorted_as_wide_ones() -> None:
    values = np.random.default_rng(0).integers(-(2**31), 2**31, 3_000).astype(np.int32) // 2**20
    assert (stable_order(values) == np.argsort(values, kind="stable")).all()


@given(st.lists(st.tuples(st.integers(0, 2**20), st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3)), max_size=50))
def test_groups_are_ordered_by_value_and_equal_ones_stay_as_they_come(rows: list[tuple[int, int]]) -> None:
    group, values = (np.array([row[place] for row in rows], dtype=np.int64) for place in (0, 1))
    for few in (group, group % 3):
        assert grouped_order(few, values).tolist() == np.lexsort((values, few)).tolist()
