"""Steps between the longest common rests of links."""

import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.link_rests import common_rests, rested_clock
from unit.builders import MS, Flow, transfer_table

STEPS, PERIOD = 6, 100


def links():
    """Two pairs that send in turn for 60 ms of every 100."""
    return transfer_table(
        [
            Flow(*ends, (step * PERIOD + 20 * k + late) * MS, (step * PERIOD + 20 * k + late + 5) * MS, 10**6)
            for step in range(STEPS)
            for k in range(3)
            for ends, late in (("ab", 0), ("ba", 10))
        ]
    )


def test_rests_are_common_to_all_pairs():
    start, rest = common_rests(links(), np.array([0, 1]))
    assert set(np.round(rest / MS).astype(int).tolist()) == {5, 45}
    assert start.size == 6 * STEPS - 1


def test_a_clock_that_ticks_among_the_passes_is_moved_to_the_rest():
    ticks = (np.arange(STEPS + 1, dtype=np.int64) * PERIOD - 62) * MS
    clock = StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0)
    found = rested_clock(links(), np.array([0, 1]), clock)
    inner = found.boundary_ns[1:]  # before the first row nobody rests
    assert (inner // MS % PERIOD).tolist() == [0] * inner.size
    assert found.regular.all()
