"""What mistakes leave unexplained: silent pairs, bytes that vary, hops that carry more than a ring."""

import numpy as np
import pytest

from llmprism.model import PairKind, StepClock
from llmprism.model.layout import Group
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.left_over import left_over
from unit.builders import MS, Flow, transfer_table

STEPS = 10
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
RING = (Group(PairKind.DP, (0, 1, 2, 3)),)


def rest(more=0.0, clock=CLOCK, every=1):
    """Of a ring a-b-c-d whose first hop carries more by a share; all of it comes in one of `every` steps."""
    sizes = {"ab": 1.0 + more, "bc": 1.0, "cd": 1.0, "da": 1.0}
    flows = [
        Flow(*ends, step * 100 * MS, (step * 100 + 5) * MS, int(1_000_000 * size))
        for step in range(0, STEPS, every)
        for ends, size in sizes.items()
    ]
    transfers = transfer_table(flows)
    every_pair = np.ones(transfers.pair_count, dtype=np.bool_)
    return left_over(transfers, every_pair, every_pair, pair_features(transfers, clock), RING, clock)


def test_an_even_ring_leaves_nothing():
    found = rest()
    assert (found.silent_pairs, found.varied_bytes, found.uneven_hops, found.irregular_steps) == (0.0, 0.0, 0.0, 0.0)


@pytest.mark.parametrize(("more", "share"), [(0.5, 1.5 / 4.5), (1.0, 0.0), (0.05, 0.0)])
def test_a_hop_that_carries_no_whole_number_of_rings_is_left_over(more, share):
    assert rest(more).uneven_hops == pytest.approx(share)


def test_a_clock_that_ticks_too_often_leaves_silent_pairs():
    assert rest(every=5).silent_pairs == 1.0


def test_irregular_steps_are_counted():
    clock = StepClock(CLOCK.boundary_ns, np.arange(STEPS) < 7, 1.0)
    assert rest(clock=clock).irregular_steps == pytest.approx(0.3)


def test_an_exchange_over_some_pairs_leaves_pairs_that_vary_more_than_the_others():
    random = np.random.default_rng(1)
    flows = [
        Flow(*ends, step * 100 * MS, (step * 100 + 5) * MS, int(1_000_000 * (random.uniform(1, 2) if uneven else 1)))
        for step in range(STEPS)
        for ends, uneven in {"ab": True, "bc": False, "cd": False, "da": False}.items()
    ]
    transfers = transfer_table(flows)
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    found = left_over(transfers, every, every, pair_features(transfers, CLOCK), RING, CLOCK)
    assert found.varied_bytes == 0.0
    assert found.varied_pairs > 0.05
    assert rest().varied_pairs == 0.0
