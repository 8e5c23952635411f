"""Passes are joined to steps by the optimizer's rest, and by nothing else."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.accumulation import between_passes
from unit.builders import MS, Flow, transfer_table


def interrupted(pauses_ms, layers=4, burst=6_000_000, ns=MS):
    """Ticks of 60 ms computation in so many layers, then reduction and gathering in one burst, twice so many bytes, cut
    in its middle for so long; in other units than milliseconds where they are given."""
    at, flows, ticks = 0.0, [], []
    for pause in pauses_ms:
        ticks.append(at)
        for layer in range(1, layers):
            gathered = at + 60 * layer / layers
            flows.append(Flow("a", "b", int(gathered * ns), int((gathered + 1) * ns), 1_000_000))
        flows.append(Flow("a", "b", int((at + 60) * ns), int((at + 75) * ns), burst))
        flows.append(Flow("a", "b", int((at + 75 + pause) * ns), int((at + 90 + pause) * ns), burst))
        at += 90 + pause
    transfers = transfer_table(flows)
    clock = StepClock((np.array([*ticks, at]) * ns).astype(np.int64), np.ones(len(ticks), dtype=np.bool_), 1.0)
    return between_passes(transfers, np.ones(transfers.pair_count, dtype=np.bool_), clock)


@pytest.mark.parametrize("count", [2, 4, 8])
def test_an_optimizer_inside_every_mth_tick_ends_a_step(count):
    clock, passes_of_step = interrupted([20.0 if k % count == 1 else 0.1 * (k % 3) for k in range(10 * count)])
    assert passes_of_step == count
    assert np.diff(clock.boundary_ns) / MS == pytest.approx(90 * count + 20, abs=count)


@pytest.mark.parametrize("count", [2, 8])
def test_an_optimizer_shorter_than_the_pauses_of_layers_next_to_it_ends_a_step_too(count):
    """Each of 40 layers pauses for longer, and has a fortieth of the bytes of a tick."""
    pauses = [0.4 if k % count == 1 else 0.0 for k in range(12 * count)]
    clock, passes_of_step = interrupted(pauses, layers=40, burst=1_000_000, ns=20 * MS)
    assert passes_of_step == count
    assert np.diff(clock.boundary_ns) / (20 * MS) == pytest.approx(90 * count + 0.4, abs=0.1)


def test_an_end_that_was_not_seen_is_where_the_others_are():
    clock, _ = interrupted([20.0 if k % 4 == 1 and k != 21 else 0.0 for k in range(48)])
    assert clock.steps == 11
    assert np.diff(clock.boundary_ns) / MS == pytest.approx(380, abs=21)


@pytest.mark.parametrize(
    "pauses",
    [
        [20.0] * 40,  # in every tick: the tick is the step
        [20.0 if k in (3, 11, 12, 25) else 0.1 for k in range(40)],  # now and then
        [200.0 if k % 10 == 9 else 0.1 for k in range(60)],  # longer than any optimizer: a checkpoint
        [0.1 if k % 4 == 1 else 0.0 for k in range(40)],  # too short to tell
        [20.0 if k in (1, 5, 9) else 0.0 for k in range(10)],  # too few to tell
        [20.0 if k * k % 7 in (1, 4) else 0.0 for k in range(40)],  # without a rhythm
        [40.0 if k % 12 == 5 else 15.0 for k in range(60)],  # in every tick, in some longer: short checkpoints
    ],
)
def test_other_interruptions_join_nothing(pauses):
    assert interrupted(pauses) is None


def test_ticks_that_compute_in_one_piece_are_steps_with_checkpoints_between_them():
    assert interrupted([20.0 if k % 4 == 1 else 0.1 for k in range(40)], layers=1) is None


def test_a_pause_next_to_the_long_rest_of_every_tick_is_none_between_passes():
    """Replicas that log in every fifth step synchronise a little later then."""
    flows = []
    for k in range(41):
        at, late = 100 * k, 5 if k % 5 == 4 else 0
        flows.append(Flow("a", "b", (at + 60) * MS, (at + 80) * MS, 11_000_000))
        flows.append(Flow("a", "b", (at + 80 + late) * MS, (at + 82 + late) * MS, 1_000_000))
    transfers, ends = transfer_table(flows), [flow.end_ns for flow in flows[1::2]]
    clock = StepClock(np.array(ends, dtype=np.int64), np.ones(40, dtype=np.bool_), 1.0)
    assert between_passes(transfers, np.ones(transfers.pair_count, dtype=np.bool_), clock) is None
