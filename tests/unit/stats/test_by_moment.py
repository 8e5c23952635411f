import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.stats.by_moment import NEVER, first_from, latest_before, sums_until


def rows(seed):
    """Three pairs of intervals, the second without any, and moments in any order, some of them at starts and ends."""
    rng = np.random.default_rng(seed)
    offsets = np.array([0, 40, 40, 70])
    start = np.concatenate([np.sort(rng.integers(0, 300, 40)), np.sort(rng.integers(0, 300, 30))])
    return (
        offsets,
        start,
        start + rng.integers(0, 50, 70),
        rng.integers(1, 9, 70),
        rng.permutation(rng.integers(-20, 400, 25)),
    )


@pytest.mark.parametrize("mode", [always_compiled, always_interpreted])
@pytest.mark.parametrize("seed", range(4))
def test_same_as_looking_at_every_row_for_every_moment(seed, mode):
    offsets, start, end, size, moments = rows(seed)
    pair = np.repeat(np.arange(3), np.diff(offsets))
    sign, marked = np.array([1, 1, -1], dtype=np.int8), np.array([True, False, seed % 2 == 0])
    chosen = marked[pair] & (size >= 4)
    with mode():
        sums = sums_until(offsets, end, size, sign, moments)
        latest = latest_before(offsets, start, end, size, 4, marked, moments)
        first = first_from(offsets, start, size, 4, marked, moments)
    for k, moment in enumerate(moments.tolist()):
        assert sums[k] == (size * sign[pair])[end <= moment].sum()
        assert latest[k] == end[chosen & (start < moment)].max(initial=-1)
        assert first[k] == start[chosen & (start >= moment)].min(initial=NEVER)
