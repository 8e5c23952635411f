import numpy as np
import pytest

from llmprism.kernel import always_compiled
from llmprism.stats import covered_time
from llmprism.stats.covered_time import silences_of_many
from llmprism.stats.order import stable_order
from llmprism.stats.silences import silences_of


def busy(seed, rows):
    """Bursts of many intervals that overlap, among them small ones, some of no length and many that start together."""
    rng = np.random.default_rng(seed)
    start = rng.integers(0, 40, rows) * 100_000 + rng.integers(0, 600, rows) * 100
    length = rng.choice([0, 300, 40_000], rows) * rng.integers(1, 3, rows)
    return start, start + length, rng.integers(1, 2_000, rows)


@pytest.mark.parametrize("rows", [1, 7, 300, 5_000])
@pytest.mark.parametrize("seed", range(3))
def test_same_silences_as_those_of_sorted_intervals(seed, rows, monkeypatch):
    monkeypatch.setattr(covered_time, "MANY", 1)
    start, end, size = busy(seed, rows)
    order = stable_order(start)
    expected = silences_of(start[order], end[order], size[order], 200)
    with always_compiled():
        found = silences_of_many(start, end, size, 200)
    for name in ("begin_ns", "length_ns", "bytes_before"):
        assert getattr(found, name).tolist() == getattr(expected, name).tolist()


def test_only_rows_in_open_slots_are_sorted(monkeypatch):
    """One interval covers all: nothing but its own slot is open."""
    monkeypatch.setattr(covered_time, "MANY", 1)
    sorted_rows = []
    monkeypatch.setattr(
        covered_time, "stable_order", lambda values: (sorted_rows.append(values.size), stable_order(values))[1]
    )
    start = np.concatenate([[0], np.arange(1, 4_000) * 1_000])
    found = silences_of_many(start, np.concatenate([[5_000_000], start[1:] + 10]), np.full(4_000, 5_000), 1_000)
    assert found.begin_ns.tolist() == [5_000_000]
    assert sorted_rows[0] < 40


def test_times_too_far_apart_for_slots_are_sorted(monkeypatch):
    monkeypatch.setattr(covered_time, "MANY", 1)
    start = np.array([-(2**62), 2**62])
    assert silences_of_many(start, start + 5, np.array([2_000, 2_000]), 0).count == 1  # none begins before 0
