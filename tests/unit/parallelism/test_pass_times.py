import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.parallelism.pass_times import extremes, mark_late, steps_by_place, sums_in_passes
from llmprism.stats.by_moment import NEVER

BOUNDARY = np.array([100, 300, 500, 700, 900])


def table(seed):
    """Six pairs among four nodes, the third without rows; rows before the first and after the last tick too."""
    rng = np.random.default_rng(seed)
    counts = np.array([30, 25, 0, 40, 10, 20])
    offsets = np.concatenate([[0], np.cumsum(counts)])
    start = np.concatenate([np.sort(rng.integers(0, 1_000, count)) for count in counts])
    ends = np.array([[0, 1, 1, 2, 2, 3], [1, 0, 2, 1, 3, 2]])
    return offsets, start, start + rng.integers(1, 60, start.size), rng.integers(1, 2_000, start.size), ends


def both_ways(function, *given):
    with always_interpreted():
        small = function(*(one.copy() if isinstance(one, np.ndarray) else one for one in given))
    with always_compiled():
        large = function(*(one.copy() if isinstance(one, np.ndarray) else one for one in given))
    for one, other in zip(
        small if isinstance(small, tuple) else (small,), large if isinstance(large, tuple) else (large,), strict=True
    ):
        assert one.dtype == other.dtype
        assert one.tolist() == other.tolist()
    return small


@pytest.mark.parametrize("seed", range(5))
def test_loops_and_arrays_say_the_same(seed):
    offsets, start, end, size, ends = table(seed)
    passing, others = np.array([0, 1, 2]), np.array([3, 4, 5])
    first = both_ways(extremes, offsets, start, start, size, 500, passing, ends[:, :3], BOUNDARY, 3, False)
    last = both_ways(extremes, offsets, start, end, size, 500, passing, ends[:, :3], BOUNDARY, 3, True)
    sender, link_of = np.array([[2, 2, 3], [2, 2, 3], [2, 2, 3]]), np.array([0, 0, 1])
    given = (offsets, start, size, 500, others, link_of, 2, BOUNDARY)
    both_ways(sums_in_passes, *given[:2], (start + end) // 2, *given[2:], sender, first, first + 40, last)
    both_ways(steps_by_place, *given, sender[0], first, last, 8)
    both_ways(
        mark_late,
        offsets,
        start,
        (start + end) // 2,
        others,
        sender[0],
        BOUNDARY,
        last,
        np.ones(start.size, dtype=np.bool_),
    )


def test_a_node_has_the_first_and_the_last_of_all_its_pairs():
    offsets, start, end = np.array([0, 2, 3]), np.array([110, 310, 105]), np.array([120, 330, 290])
    size, ends, pairs = np.array([900, 900, 900]), np.array([[0, 1], [1, 2]]), np.array([0, 1])
    first = extremes(offsets, start, start, size, 500, pairs, ends, BOUNDARY[:3], 3, False)
    last = extremes(offsets, start, end, size, 500, pairs, ends, BOUNDARY[:3], 3, True)
    assert first.tolist() == [[110, 310], [105, 310], [105, NEVER], [NEVER, NEVER]]
    assert last.tolist() == [[120, 330], [290, 330], [290, -1], [NEVER, NEVER]]


def test_bytes_are_counted_in_and_after_the_passes_and_messages_before_the_first_gradient():
    """Passes from 100 to 180; one row each at a tenth of them, in the middle, and after the end."""
    offsets, start, size = np.array([0, 3]), np.array([108, 140, 190]), np.array([1, 10, 100])
    passes = np.array([[100], [NEVER]])
    given = (
        offsets, start, start, size, np.array([0]), np.array([0]), 1, BOUNDARY[:2], np.zeros((3, 1), dtype=np.int64),
        passes, np.array([[130], [NEVER]]), np.array([[180], [NEVER]]),
    )  # fmt: skip
    sums, seen = sums_in_passes(*given[:4], 1, *given[4:])
    assert sums[:, 0].tolist() == [11, 100]
    assert seen.tolist() == [1]
    assert sums_in_passes(*given[:4], 2, *given[4:])[1].tolist() == [0]


def test_what_lies_outside_of_all_steps_is_neither_in_the_passes_nor_after_them():
    offsets, start, size = np.array([0, 4]), np.array([50, 120, 190, 400]), np.array([1, 10, 100, 1000])
    passes = np.array([[100], [NEVER]])
    sender, boundary = np.zeros((3, 1), dtype=np.int64), np.array([100, 300])
    given = (
        offsets,
        start,
        start,
        size,
        1,
        np.array([0]),
        np.array([0]),
        1,
        boundary,
        sender,
        passes,
        passes,
        passes + 80,
    )
    assert both_ways(sums_in_passes, *given)[0].tolist() == [[10.0], [100.0]]
    longer = (offsets, start, start + np.array([0, 70, 0, 0]), *given[3:])  # most of it is after the passes
    assert both_ways(sums_in_passes, *longer)[0].tolist() == [[0.0], [110.0]]


def test_places_count_the_steps_in_which_a_message_begins_there_however_large_it_is():
    """Passes of 80 from each tick on; two steps, in both of which the last place sends most."""
    offsets, start = np.array([0, 6]), np.array([101, 102, 170, 330, 371, 395])
    size, passes = np.array([5, 5, 5_000, 1, 5_000, 5]), np.array([[100, 300], [NEVER, NEVER]])
    busy = steps_by_place(offsets, start, size, 5, np.array([0]), np.array([0]), 1, BOUNDARY[:3], np.array([0]),
                          passes, passes + 80, 4)  # fmt: skip
    assert busy.tolist() == [[1, 0, 0, 2]]
