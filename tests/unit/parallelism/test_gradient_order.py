"""The first stage of a pipeline synchronises its gradients last, wherever the clock ticks."""

import numpy as np
import pytest

from llmprism.parallelism.gradient_order import later_gradients
from unit.builders import MS, Flow, transfer_table

STEPS, PERIOD = 8, 100 * MS


def order(first_ms, last_ms, phase=0.0, spread_ms=2):
    """Time by which a synchronises after b, both with a partner; each takes `spread_ms` from its moment on."""
    flows = [
        Flow(here, here + "x", step * PERIOD + at * MS, step * PERIOD + (at + spread_ms) * MS, 1_000_000)
        for step in range(STEPS)
        for here, at in (("a", first_ms), ("b", last_ms))
    ]
    transfers = transfer_table(flows)
    ends = (transfers.addresses.index("a"), transfers.addresses.index("b"))
    boundary = (np.arange(STEPS) * PERIOD + phase * PERIOD).astype(np.int64)
    return later_gradients(transfers, np.ones(transfers.pair_count, dtype=np.bool_), [ends], boundary)[0]


@pytest.mark.parametrize("phase", [0.0, 0.3, 0.85])
def test_what_is_later_is_later_across_the_tick_of_the_clock(phase):
    assert order(90, 85, phase) == pytest.approx(5 * MS, rel=0.05)
    assert order(2, 97, phase) == pytest.approx(5 * MS, rel=0.05)
    assert order(85, 90, phase) == pytest.approx(-5 * MS, rel=0.05)


def test_half_a_step_later_is_half_a_step_earlier():
    assert abs(order(80, 30)) < 0.1 * MS


def test_gradients_throughout_the_step_say_nothing():
    flows = [
        Flow(here, here + "x", (step * 100 + at + late) * MS, (step * 100 + at + late + 1) * MS, 1_000_000)
        for step in range(STEPS)
        for at in range(0, 100, 10)
        for here, late in (("a", 5), ("b", 0))
    ]
    transfers = transfer_table(flows)
    ends = (transfers.addresses.index("a"), transfers.addresses.index("b"))
    boundary = np.arange(STEPS, dtype=np.int64) * PERIOD
    every = np.ones(transfers.pair_count, dtype=np.bool_)
    assert abs(later_gradients(transfers, every, [ends], boundary)[0]) < 0.1 * MS


def test_an_end_without_gradients_says_nothing():
    transfers = transfer_table([Flow("a", "b", step * PERIOD, step * PERIOD + MS, 1_000_000) for step in range(STEPS)])
    none = np.zeros(transfers.pair_count, dtype=np.bool_)
    assert later_gradients(transfers, none, [(0, 1)], np.arange(STEPS, dtype=np.int64) * PERIOD).tolist() == [0.0]
