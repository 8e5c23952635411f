import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.parallelism.pause_code import (
    OUTSIDE,
    around_medians,
    by_value,
    counts_by_part,
    places_in_steps,
    sent_by,
)


def messages(seed):
    """Pairs with a hundred messages, none and three, their pauses (some equal, some missing), bytes and ticks."""
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 100, 100, 103])
    start = np.concatenate([np.sort(rng.integers(0, 10_000, 100)), np.array([10, 20, 9_000])])
    pause = rng.integers(0, 12, 103).astype(np.float64)
    pause[[0, 7, 100]] = np.nan
    size = rng.integers(1, 50, 103)
    sent = np.concatenate([np.cumsum(size[:100]) - size[:100], np.cumsum(size[100:]) - size[100:]])
    total = np.array([size[:100].sum(), 0, size[100:].sum()])
    return offsets, start, pause, sent, total, np.sort(rng.integers(500, 9_500, 12)), size


def both_ways(function, *given):
    with always_interpreted():
        small = function(*given)
    with always_compiled():
        large = function(*given)
    for one, other in zip(
        small if isinstance(small, tuple) else (small,), large if isinstance(large, tuple) else (large,), strict=True
    ):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    return small


@pytest.mark.parametrize("seed", range(6))
def test_loops_and_arrays_say_the_same(seed):
    offsets, start, pause, sent, total, ticks, size = messages(seed)
    by_tick = both_ways(sent_by, offsets, start, sent, total, ticks)
    judged = np.isfinite(pause) & (start > 700)
    place, places, _ = both_ways(places_in_steps, offsets, start, sent, by_tick, ticks, judged, 2.0, 16)
    order = by_value(offsets, pause)
    both_ways(around_medians, offsets, pause, order, place, places)
    outside = np.where(place == OUTSIDE, 0, OUTSIDE)
    both_ways(around_medians, offsets, pause, order, outside, np.ones_like(places))
    both_ways(
        counts_by_part, offsets, start, sent, by_tick, ticks, size % 5, 4, 5, np.linspace(0.5, 1.0, ticks.size - 1)
    )


def test_bytes_by_each_tick_are_those_of_earlier_messages():
    offsets, start, sent = np.array([0, 3]), np.array([10, 20, 30]), np.array([0, 5, 9])
    assert sent_by(offsets, start, sent, np.array([12]), np.array([5, 20, 21, 40])).tolist() == [[0, 5, 9, 12]]


def test_deviations_are_from_the_medians_of_the_places():
    """Two places: 1, 3, 8 and 5, 6; the median of the pair is 5."""
    value, place = np.array([3.0, 5.0, 1.0, 6.0, 8.0, 9.0]), np.array([0, 1, 0, 1, 0, OUTSIDE])
    offsets = np.array([0, 6])
    found = around_medians(offsets, value, by_value(offsets, value), place, np.array([3]))
    deviation, from_usual, number, count, size, usual, spread, pair_of_place = (part.tolist() for part in found)
    assert deviation == [0.0, -0.5, -2.0, 0.5, 5.0]
    assert (from_usual, number) == ([-2.0, 0.0, -4.0, 1.0, 3.0], [0, 1, 0, 1, 0])
    assert (count, size, pair_of_place) == ([5], [3, 2], [0, 0])
    assert usual == [2.0]  # of 0, 1, 2, 3, 4
    assert spread == [0.5]  # of 0, 0.5, 0.5, 2, 5


def test_messages_are_counted_by_the_part_of_their_step():
    offsets, start, sent = np.array([0, 4]), np.array([1, 2, 3, 4]), np.array([0, 10, 20, 30])
    by_tick = np.array([[0, 40]])
    sort, ticks = np.array([0, 0, 1, 1]), np.array([0, 9])
    counts = counts_by_part(offsets, start, sent, by_tick, ticks, sort, 2, 2, np.array([0.5]))
    assert counts.tolist() == [[1, 0], [0, 1]]
