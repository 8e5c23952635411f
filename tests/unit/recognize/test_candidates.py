"""Which clusters are compared."""

from itertools import combinations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from llmprism.model import ClockCandidate, StepClock
from llmprism.recognize.candidates import Cluster, candidates, same_shape


def cluster(first, members, servers, steps, size):
    clock = StepClock(np.arange(steps + 1), np.ones(steps, dtype=np.bool_), 1.0) if steps else None
    clocks = (ClockCandidate(clock, 1.0),) if clock is not None else ()
    own = np.arange(first, first + members)
    return Cluster(np.zeros(0, dtype=np.int32), own, frozenset(servers), clocks, clock, size, 0, 1)


DRAWN = st.lists(
    st.tuples(st.integers(2, 3), st.sets(st.sampled_from("ab")), st.sampled_from([0, 3, 60]), st.integers(80, 120)),
    max_size=8,
)


@given(DRAWN, st.booleans())
def test_all_meet_that_may_be_one_job(drawn, acquainted):
    clusters = [cluster(10 * number, *shape) for number, shape in enumerate(drawn)]
    known = frozenset({(0, 1)}) if acquainted and len(clusters) > 1 else frozenset()
    expected = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(clusters), 2)
        if (i, j) in known
        or a.servers & b.servers
        or (a.clock and b.clock and same_shape(a, b) and not (a.servers and b.servers))
    ]
    assert candidates(clusters, known) == expected
