import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.stats.silences import silences_of

intervals = st.lists(
    st.tuples(st.integers(0, 10_000), st.integers(0, 500), st.integers(0, 3_000)), min_size=1, max_size=60
).map(sorted)


def series(rows, floor=0):
    start, length, size = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    return silences_of(start, start + length, size, floor)


def test_a_silence_has_its_begin_its_length_and_the_bytes_before_it():
    found = series([(10, 5, 100), (40, 10, 200), (60, 1, 50)])
    assert found.begin_ns.tolist() == [15, 50, 61]
    assert found.length_ns.tolist() == [25, 10, 25], "the end of the series is as long as the longest other"
    assert found.bytes_before.tolist() == [100, 300, 350]


def test_overlapping_intervals_leave_no_silence_even_when_a_short_one_follows_a_long_one():
    found = series([(0, 100, 1), (10, 5, 1), (50, 20, 1), (120, 5, 1)])
    assert found.begin_ns.tolist() == [100, 125]
    assert found.length_ns.tolist() == [20, 20]


def test_touching_intervals_leave_no_silence():
    assert series([(0, 10, 1), (10, 10, 1)]).begin_ns.tolist() == [20]


def test_small_messages_add_bytes_but_break_no_silence():
    found = series([(0, 10, 5_000), (50, 10, 7), (100, 10, 5_000), (200, 10, 8)], floor=1_000)
    assert found.begin_ns.tolist() == [10, 110]
    assert found.length_ns.tolist() == [90, 90]
    assert found.bytes_before.tolist() == [5_007, 10_015]


def test_small_messages_before_the_first_large_one_begin_no_silence():
    assert series([(0, 10, 7), (50, 10, 5_000)], floor=1_000).bytes_before.tolist() == [5_007]


def test_nothing_and_nothing_large():
    none = np.zeros(0, dtype=np.int64)
    assert silences_of(none, none, none).count == 0
    assert series([(0, 1, 5), (9, 1, 5)], floor=1_000).count == 0


@given(intervals, st.integers(0, 2_000))
def test_silences_are_where_nothing_large_is(rows, floor):
    found = series(rows, floor)
    large = [(start, start + length) for start, length, size in rows if size >= floor]
    assert (found.count == 0) == (not large)
    if not large:
        return
    quiet = {
        t for t in range(large[0][0], max(end for _, end in large)) if not any(start <= t < end for start, end in large)
    }
    result = [
        set(range(begin, begin + length))
        for begin, length in zip(found.begin_ns[:-1].tolist(), found.length_ns[:-1].tolist(), strict=True)
    ]
    assert set().union(*result) == quiet
    assert sum(map(len, result)) == len(quiet), "silences do not overlap"
    assert found.bytes_before[-1] == sum(size for _, _, size in rows)
    assert (np.diff(found.bytes_before) >= 0).all()
    assert (np.diff(found.begin_ns) > 0).all()
    assert found.length_ns[-1] == max(found.length_ns[:-1].tolist(), default=1)
    assert (found.length_ns >= 1).all()


@given(intervals, st.integers(-5_000, 1 << 60))
def test_a_shift_in_time_shifts_the_silences(rows, shift):
    found, later = series(rows), series([(max(start + shift, 0), *rest) for start, *rest in rows])
    if rows[0][0] + shift >= 0:
        assert (later.begin_ns - found.begin_ns == shift).all()
        assert (later.length_ns == found.length_ns).all()
