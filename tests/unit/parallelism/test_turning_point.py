import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.turning_point import clock_before_turn
from unit.builders import MS, Flow, transfer_table

LAYERS, STEPS, MB = 6, 10, 1_000_000
ALL = np.ones(1, dtype=np.bool_)


def sharded(*, forward_ms=4, optimizer_ms=0):
    """A pair of sharded training whose first layer is gathered as soon as the last one is reduced (and the optimizer
    has run): the ends of its steps, and those of its forward passes. Without time to compute, gathers follow at
    once."""
    flows, ends, turns, now = [], [], [], 0
    for _ in range(STEPS):
        for _ in range(LAYERS):
            flows.append(Flow("a", "b", now, now + MS, MB))
            now += MS + forward_ms * MS
        turns.append(flows[-1].end_ns)
        now = flows[-1].end_ns + 15 * MS  # the last layer, forward and backward
        for layer in range(LAYERS):
            size = 2 if layer < LAYERS - 1 else 1  # the first layer of all is not gathered for another
            flows.append(Flow("a", "b", now, now + size * MS, size * MB))
            now += size * MS + (8 * MS if layer < LAYERS - 1 else 0)
        ends.append(now)
        now += optimizer_ms * MS
    return transfer_table(flows), np.array(ends, dtype=np.int64), np.array(turns, dtype=np.int64)


def clock_at(ticks):
    return StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("forward_ms", [0, 4])
@pytest.mark.parametrize("optimizer_ms", [0, 2])
def test_the_step_ends_before_the_forward_pass_not_at_its_turn(forward_ms, optimizer_ms):
    transfers, ends, turns = sharded(forward_ms=forward_ms, optimizer_ms=optimizer_ms)
    found = clock_before_turn(transfers, ALL, clock_at(turns), 0.0)
    assert found is not None
    period = float(np.median(np.diff(ends)))
    off = np.abs(found.boundary_ns[:, None] - ends[None, :]).min(axis=1)
    assert off.max() <= 0.05 * period
    assert found.steps >= STEPS - 3


def test_an_end_is_not_taken_for_a_turn():
    transfers, ends, _ = sharded(optimizer_ms=20)
    assert clock_before_turn(transfers, ALL, clock_at(ends), 0.0) is None


def test_the_silence_of_a_whole_forward_pass_is_no_turn():
    """Replicated training: buckets under the backward pass, then nothing until the next one."""
    flows, now, ends = [], 0, []
    for _ in range(STEPS):
        for _ in range(6):
            flows.append(Flow("a", "b", now, now + 2 * MS, 2 * MB))
            now += 10 * MS
        ends.append(flows[-1].end_ns)
        now += 60 * MS
    assert clock_before_turn(transfer_table(flows), ALL, clock_at(np.array(ends, dtype=np.int64)), 0.0) is None


def test_few_pauses_show_no_passes():
    flows = [
        Flow("a", "b", (100 * k + at) * MS, (100 * k + at + 5) * MS, 5 * MB) for k in range(STEPS) for at in (0, 50)
    ]
    ticks = np.array([100 * k * MS + 5 * MS for k in range(STEPS)], dtype=np.int64)
    assert clock_before_turn(transfer_table(flows), ALL, clock_at(ticks), 0.0) is None


def test_a_pause_that_is_clearly_longer_than_those_of_layers_is_the_optimizers():
    """Ranks are done one after the other, so that it is two pauses: the step ends before the first."""
    flows, ends, turns, now = [], [], [], 0
    for _ in range(STEPS):
        flows.append(Flow("a", "b", now, now + MS, MB // 4))  # the first rank's piece, before the others gather
        now += 14 * MS
        for _ in range(LAYERS):
            flows.append(Flow("a", "b", now, now + MS, MB))
            now += 5 * MS
        turns.append(flows[-1].end_ns)
        now = flows[-1].end_ns + 15 * MS
        for _ in range(LAYERS):
            flows.append(Flow("a", "b", now, now + 2 * MS, 2 * MB))
            now += 10 * MS
        ends.append(flows[-1].end_ns)
        now = flows[-1].end_ns + 13 * MS
    found = clock_before_turn(transfer_table(flows), ALL, clock_at(np.array(turns, dtype=np.int64)), 0.0)
    assert found is not None
    off = np.abs(found.boundary_ns[:, None] - np.array(ends)[None, :]).min(axis=1)
    assert off.max() <= MS
