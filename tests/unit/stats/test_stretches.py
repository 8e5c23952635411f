import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.stats.stretches import stretch_starts, stretches_of


def flags(text):
    return np.array([character == "x" for character in text])


@pytest.mark.parametrize(
    ("text", "bridge", "shortest", "expected"),
    [
        ("", 1, 1, []),
        ("....", 1, 1, []),
        ("xxxx", 0, 1, [(0, 4)]),
        (".xx.x..x", 0, 1, [(1, 3), (4, 5), (7, 8)]),
        (".xx.x..x", 1, 1, [(1, 5), (7, 8)]),
        (".xx.x..x", 2, 1, [(1, 8)]),
        (".xx.x..x", 0, 2, [(1, 3)]),
        ("x.x", 1, 3, []),
        ("x.x", 1, 2, [(0, 3)]),
    ],
)
def test_runs(text, bridge, shortest, expected):
    assert stretches_of(flags(text), bridge=bridge, shortest=shortest) == expected


@given(st.lists(st.booleans(), max_size=80), st.integers(0, 4))
def test_runs_cover_every_true_value_and_keep_their_distance(values, bridge):
    flag = np.array(values, dtype=np.bool_)
    runs = stretches_of(flag, bridge=bridge)
    assert sum(int(flag[first:last].sum()) for first, last in runs) == int(flag.sum())
    for first, last in runs:
        assert flag[first]
        assert flag[last - 1]
        gaps = np.diff(np.flatnonzero(flag[first:last])) - 1
        assert (gaps <= bridge).all()
    assert all(later[0] - earlier[1] > bridge for earlier, later in itertools.pairwise(runs))


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 2)), max_size=40))
def test_between_two_starts_nothing_changes(rows):
    columns = [np.array([row[i] for row in rows], dtype=np.int64) for i in (0, 1)]
    assert stretch_starts(*columns).tolist() == [i for i in range(len(rows)) if i == 0 or rows[i] != rows[i - 1]]
