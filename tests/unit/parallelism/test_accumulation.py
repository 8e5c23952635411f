"""Passes are joined to steps by the optimizer's rest, and by nothing else."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.accumulation import accumulated, between_passes
from unit.builders import MS, Flow, transfer_table

PASS_MS = 100


def passes(rests_ms):
    """One message fills each pass but for the rest after it, which the clock's tick begins."""
    at, flows, ticks = 0.0, [], []
    for rest in rests_ms:
        flows.append(Flow("a", "b", int(at * MS), int((at + PASS_MS - 10) * MS), 9_000_000))
        ticks.append(at + PASS_MS - 10)
        at += PASS_MS - 10 + rest
    flows.append(Flow("a", "b", int(at * MS), int((at + PASS_MS - 10) * MS), 9_000_000))
    transfers = transfer_table(flows)
    clock = StepClock((np.array(ticks) * MS).astype(np.int64), np.ones(len(ticks) - 1, dtype=np.bool_), 1.0)
    return accumulated(transfers, np.ones(transfers.pair_count, dtype=np.bool_), clock)


@pytest.mark.parametrize("count", [2, 3, 4, 8])
def test_every_mth_rest_is_the_optimizers(count):
    rests = [14.0 if k % count == 1 else 3.0 + 0.2 * (k % 3) for k in range(12 * count)]
    clock, found = passes(rests)
    assert found == count
    assert np.diff(clock.boundary_ns) / MS == pytest.approx(count * 93, abs=count * 3 + 8)


def test_equal_rests_are_steps():
    assert passes([10.0 + 0.5 * (k % 4) for k in range(48)])[1] == 1


def test_a_checkpoint_after_every_tenth_step_joins_nothing():
    assert passes([900.0 if k % 10 == 9 else 10.0 for k in range(80)])[1] == 1


def test_single_long_rests_join_nothing():
    assert passes([30.0 if k in (7, 19, 20) else 6.0 for k in range(48)])[1] == 1


@pytest.mark.filterwarnings("error")
def test_a_clock_without_a_regular_step_joins_nothing():
    transfers = transfer_table([Flow("a", "b", 0, 90 * MS, 9_000_000)])
    clock = StepClock(np.array([0, 100 * MS, 250 * MS]), np.zeros(2, dtype=np.bool_), 1.0)
    assert accumulated(transfers, np.ones(1, dtype=np.bool_), clock) == (clock, 1)


def interrupted(pauses_ms):
    """Ticks of 60 ms computation, then reduction and gathering as one burst, interrupted in its middle for so long."""
    at, flows, ticks = 0.0, [], []
    for pause in pauses_ms:
        ticks.append(at)
        flows.append(Flow("a", "b", int((at + 60) * MS), int((at + 75) * MS), 6_000_000))
        flows.append(Flow("a", "b", int((at + 75 + pause) * MS), int((at + 90 + pause) * MS), 6_000_000))
        at += 90 + pause
    transfers = transfer_table(flows)
    clock = StepClock((np.array([*ticks, at]) * MS).astype(np.int64), np.ones(len(ticks), dtype=np.bool_), 1.0)
    return between_passes(transfers, np.ones(transfers.pair_count, dtype=np.bool_), clock)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_an_optimizer_inside_every_mth_tick_ends_a_step(count):
    clock, passes_of_step = interrupted([20.0 if k % count == 1 else 0.1 * (k % 3) for k in range(10 * count)])
    assert passes_of_step == count
    assert np.diff(clock.boundary_ns) / MS == pytest.approx(90 * count + 20, abs=count)


@pytest.mark.parametrize(
    "pauses",
    [
        [20.0] * 40,  # in every tick: the tick is the step
        [20.0 if k in (3, 11, 12, 25) else 0.1 for k in range(40)],  # now and then
        [200.0 if k % 10 == 9 else 0.1 for k in range(60)],  # longer than any optimizer: a checkpoint
        [0.5 if k % 4 == 1 else 0.0 for k in range(40)],  # too short to tell
    ],
)
def test_other_interruptions_join_nothing(pauses):
    assert interrupted(pauses) is None
