"""Rows in the order of their times."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.stats.time_order import time_order

NEAR = st.lists(st.integers(1_700_000_000_000_000_000, 1_700_000_000_000_000_020), max_size=50)
FAR = st.lists(st.integers(-(2**61), 2**61), max_size=50)


@given(st.one_of(NEAR, FAR))
def test_the_order_is_that_of_a_stable_sort(values: list[int]) -> None:
    times = np.array(values, dtype=np.int64)
    given_times = times.copy()
    np.testing.assert_array_equal(time_order(times), np.argsort(times, kind="stable"))
    np.testing.assert_array_equal(times, given_times)
