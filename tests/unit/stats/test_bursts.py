from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from llmprism.stats.bursts import burst_labels, running_max


def test_series_are_labelled_each_from_zero() -> None:
    random = np.random.default_rng(0)
    one = np.concatenate([step * 10_000 + np.sort(random.integers(0, 1000, 25)) for step in range(6)])
    two = np.concatenate([step * 50_000 + np.sort(random.integers(0, 1000, 40)) for step in range(4)])
    labels = burst_labels(np.concatenate([one, [5], two]), [0, one.size, one.size + 1, one.size + 1, one.size + 161])
    assert labels[: one.size].tolist() == np.repeat(np.arange(6), 25).tolist()
    assert labels[one.size] == 0
    assert labels[one.size + 1 :].tolist() == np.repeat(np.arange(4), 40).tolist()


@settings(max_examples=60, deadline=None)
@given(arrays(np.int64, st.integers(0, 80), elements=st.integers(0, 2**62)), st.data())
def test_labels_start_at_zero_and_grow_by_at_most_one(times: np.ndarray, data: st.DataObject) -> None:
    cut = data.draw(st.integers(0, times.size))
    times[:cut].sort()
    times[cut:].sort()
    labels = burst_labels(times, [0, cut, times.size])
    for part in (labels[:cut], labels[cut:]):
        assert not part.size or part[0] == 0
        assert set(np.diff(part).tolist()) <= {0, 1}


@given(st.lists(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=8), max_size=6))
def test_running_max_is_that_of_each_series(parts: list[list[int]]) -> None:
    values = np.array([value for part in parts for value in part], dtype=np.int64)
    result = running_max(values, np.cumsum([0] + [len(part) for part in parts]))
    expected = [np.maximum.accumulate(np.array(part, dtype=np.int64)) for part in parts if part]
    assert result.tolist() == (np.concatenate(expected).tolist() if expected else [])


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_no_events(offsets: list[int]) -> None:
    assert burst_labels([], offsets).tolist() == []
