import numpy as np
import pytest

from llmprism.kernel import always_compiled
from llmprism.stats import covered_time
from llmprism.stats.covered_time import silences_of_pairs
from llmprism.stats.integer_order import stable_order
from llmprism.stats.silences import silences_of


def busy(seed, rows):
    """Pairs with bursts of intervals that overlap, among them small ones, some of no length and many that start
    together; the first pair is empty."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.sort(rng.integers(0, rows + 1, 6)), [rows]])
    offsets[1] = 0
    start = rng.integers(0, 40, rows) * 100_000 + rng.integers(0, 600, rows) * 100
    start = start[np.lexsort((start, np.repeat(np.arange(7), np.diff(offsets))))]
    return (
        offsets,
        start,
        start + rng.choice([0, 300, 40_000], rows) * rng.integers(1, 3, rows),
        rng.integers(1, 2_000, rows),
    )


@pytest.mark.parametrize("rows", [1, 7, 300, 5_000])
@pytest.mark.parametrize("seed", range(3))
def test_same_silences_as_those_of_sorted_intervals(seed, rows, monkeypatch):
    monkeypatch.setattr(covered_time, "MANY", 1)
    offsets, start, end, size = busy(seed, rows)
    pairs = np.array([True, True, False, True, True, False, True])
    own = np.flatnonzero(np.repeat(pairs, np.diff(offsets)))
    own = own[stable_order(start[own])]
    expected = silences_of(start[own], end[own], size[own], 200)
    with always_compiled():
        found = silences_of_pairs(offsets, start, end, size, pairs, 200)
    for name in ("begin_ns", "length_ns", "bytes_before"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_only_rows_in_open_slots_are_sorted(monkeypatch):
    """One interval covers all: nothing but its own slot is open."""
    monkeypatch.setattr(covered_time, "MANY", 1)
    sorted_rows = []

    def noted(values):
        sorted_rows.append(values.size)
        return stable_order(values)

    monkeypatch.setattr(covered_time, "stable_order", noted)
    start = np.concatenate([[0], np.arange(1, 4_000) * 1_000])
    end, size = np.concatenate([[5_000_000], start[1:] + 10]), np.full(4_000, 5_000)
    found = silences_of_pairs(np.array([0, 4_000]), start, end, size, np.array([True]), 1_000)
    assert found.begin_ns.tolist() == [5_000_000]
    assert sorted_rows[0] < 40


def test_times_too_far_apart_for_slots_are_sorted(monkeypatch):
    monkeypatch.setattr(covered_time, "MANY", 1)
    start = np.array([0, 2**62])
    found = silences_of_pairs(np.array([0, 2]), start, start + 5, np.array([2_000, 2_000]), np.array([True]), 0)
    assert found.begin_ns.tolist() == [5, 2**62 + 5]
