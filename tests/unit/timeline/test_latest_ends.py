import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.timeline.latest_ends import latest_ends


@pytest.mark.parametrize("mode", [always_compiled, always_interpreted])
@pytest.mark.parametrize("seed", range(4))
def test_same_as_looking_at_every_row(seed, mode):
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 30, 30, 70])
    start = np.concatenate([np.sort(rng.integers(0, 100, 30)), np.sort(rng.integers(0, 100, 40))])
    end, counted = start + rng.integers(1, 30, 70), rng.random(70) < 0.7
    ends = np.array([[0, 1, 2], [-1, 0, 1]])
    begin, until = np.array([10, 40, 55]), np.array([30, 55, 80])  # a pause between the first two
    expected = np.zeros((3, 3), dtype=np.int64)
    for row in np.flatnonzero(counted).tolist():
        for step in range(3):
            for member in ends[:, int(np.searchsorted(offsets, row, side="right")) - 1].tolist():
                if member >= 0 and begin[step] <= start[row] < until[step]:
                    expected[member, step] = max(expected[member, step], end[row])
    with mode():
        found = latest_ends(offsets, start, end, counted, ends, 3, begin, until)
    assert found.tolist() == expected.tolist()
