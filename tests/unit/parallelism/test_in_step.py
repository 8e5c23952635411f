"""Rings inside the forward pass: 10 steps of 100 ms, one pipeline link a-b, one ring pair a-c."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.in_step import find_in_step
from unit.builders import MS, Flow, transfer_table

STEPS = 10
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
FORWARD_MS, BACKWARD_MS, LAST_MS = 10, 40, 70
"""First activation of a step, first gradient that comes back, end of the last one."""


def message(src, dst, step, at_ms, size):
    start = step * 100 * MS + int(at_ms * MS)
    return Flow(src, dst, start, start + MS, size)


def seen(places, size=1_000_000, pipeline=True, heartbeat_ms=None):
    """(inside, gradients, gradient rows) of the pair a-c, which sends `size` bytes at `places(step)` ms of a step."""
    flows = [message("a", "c", step, at, size) for step in range(STEPS) for at in places(step)]
    for step in range(STEPS):
        flows += [message("a", "b", step, at, 2_000_000) for at in (FORWARD_MS, 30)]
        flows += [message("b", "a", step, at, 2_000_000) for at in (BACKWARD_MS, LAST_MS - 1)]
        if heartbeat_ms is not None:
            flows += [message(*ends, step, heartbeat_ms, 300) for ends in ("ab", "ba")]
    transfers = transfer_table(flows)
    names = transfers.addresses
    told = [names[s] + names[d] for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    pair = told.index("ac")
    forward = [(told.index("ab"), told.index("ba"))] if pipeline else []
    found = find_in_step(transfers, np.array([pair]), forward, CLOCK)
    assert not np.delete(found.inside, pair).any(), "a pair that was not asked"
    assert found.gradient_row[transfers.pair_of_row != pair].all()
    return bool(found.inside[pair]), bool(found.gradients[pair]), found.gradient_row[transfers.pair_of_row == pair]


def test_a_ring_that_waits_for_the_backward_pass_carries_gradients():
    inside, gradients, rows = seen(lambda step: [50, 80])
    assert (inside, gradients) == (False, True)
    assert rows.all()


def test_a_ring_between_activations_and_the_first_gradient_is_of_the_forward_pass():
    inside, gradients, rows = seen(lambda step: [20, 60])
    assert (inside, gradients) == (True, False)
    assert not rows.any()


def test_a_pair_may_carry_both_and_its_rows_are_told_apart():
    inside, gradients, rows = seen(lambda step: [20, 60, 80])
    assert (inside, gradients) == (True, True)
    assert rows.tolist() == [False, False, True] * STEPS


def test_traffic_before_the_first_activation_says_nothing():
    """Gathering of weights, data for the step: it may come before anything is computed."""
    assert seen(lambda step: [5, 80])[0] is False


@pytest.mark.parametrize(("often", "inside"), [(4, False), (5, True)])
def test_it_must_show_in_half_of_the_steps(often, inside):
    assert seen(lambda step: [20, 80] if step < often else [80])[0] is inside


def test_a_trickle_is_not_enough():
    assert seen(lambda step: [20, *np.arange(71.5, 98, 0.25)])[0] is False, "one part in a hundred and eight"


def test_heartbeats_on_pipeline_links_start_no_pass():
    """300 bytes at 2 ms would otherwise be the first activation, and the first gradient too."""
    assert seen(lambda step: [5, 80], heartbeat_ms=2)[0] is False
    assert seen(lambda step: [20, 80], heartbeat_ms=2)[0] is True


def test_without_pipelines_nothing_is_decided():
    inside, gradients, rows = seen(lambda step: [20, 60, 80], pipeline=False)
    assert (inside, gradients) == (False, True)
    assert rows.all()
