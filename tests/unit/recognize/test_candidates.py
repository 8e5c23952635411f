"""Which clusters are compared, and what speaks for one job beforehand."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.model import ClockCandidate, StepClock
from llmprism.recognize.candidates import PairCluster, candidates, same_shape
from llmprism.recognize.rules import RULES


def cluster(first, members=2, servers="", steps=60, size=100, period=100, training=True):
    clock = StepClock(np.arange(steps + 1) * period, np.ones(steps, dtype=np.bool_), 1.0) if steps else None
    clocks = (ClockCandidate(clock, 1.0),) if clock is not None else ()
    own = np.arange(first, first + members)
    return PairCluster(np.zeros(0, dtype=np.int32), own, frozenset(servers), clocks, clock, size, 0, 1, training)


DRAWN = st.lists(
    st.tuples(st.integers(2, 3), st.sets(st.sampled_from("ab")), st.sampled_from([0, 3, 60]), st.just(100),
              st.sampled_from([100, 102, 150])),
    max_size=8,
)  # fmt: skip


@given(DRAWN, st.booleans())
def test_all_meet_that_may_be_one_job(drawn, acquainted):
    clusters = [cluster(10 * number, *shape) for number, shape in enumerate(drawn)]
    known = frozenset({(0, 1)}) if acquainted and len(clusters) > 1 else frozenset()

    def vague(one):
        return not one.servers and (one.clock is None or one.clock.steps < RULES.few_steps)

    def one_period(a, b):
        if a.clock is None or b.clock is None:
            return False
        return abs(a.clock.period_ns - b.clock.period_ns) <= 3

    expected = [
        (i, j)
        for (i, a), (j, b) in combinations(enumerate(clusters), 2)
        if (i, j) in known
        or a.servers & b.servers
        or vague(a)
        or vague(b)
        or (one_period(a, b) and not (a.servers and b.servers))
    ]
    found = [(one.left, one.right) for one in candidates(clusters, frozenset(), known)]
    assert found == expected


def bits(*clusters, known=(), by_bulk=()):
    return {(c.left, c.right): c.bits for c in candidates(list(clusters), frozenset(known), frozenset(by_bulk))}


def test_the_more_are_tried_the_more_each_must_show():
    two, many = bits(cluster(0), cluster(10)), bits(*(cluster(10 * k) for k in range(9)))
    assert two[0, 1] - many[0, 1] == 3.0


def test_acquaintance_counts_as_much_as_it_is_rare():
    clusters = [cluster(10 * k, servers=[f"s{k}"]) for k in range(6)]
    rare = bits(*clusters, known=[(0, 1)])
    assert rare == {(0, 1): pytest.approx(RULES.chatter_known_bits + RULES.same_shape_bits + RULES.apart_bits)}
    assert bits(*clusters, known=combinations(range(6), 2)) == {}, "a mesh of pings knows everybody"


def test_readers_without_steps_are_compared_with_nobody():
    assert bits(cluster(0, servers="a"), cluster(10, servers="a", training=False)) == {}


def test_rails_have_as_many_members_and_the_same_bytes():
    assert same_shape(cluster(0, size=1000), cluster(10, size=1015))
    assert not same_shape(cluster(0, size=1000), cluster(10, size=1100))
    assert same_shape(cluster(0, size=1000, steps=10), cluster(10, size=1090)), "a step more or less"
    assert not same_shape(cluster(0), cluster(10, members=3))
