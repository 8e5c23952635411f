"""Collectives on the link of two stages that sizes do not show: both directions end the step together."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.last_messages import shared_rows
from llmprism.parallelism.shared_links import collective_rows
from unit.builders import MS, Flow, transfer_table

STEPS, PERIOD = 12, 400
ACTIVATION = 1_000_000


def passes(step, micro_batches, batched):
    """When the messages of a step pass in milliseconds, there and back; sent in one batch they are at one time."""
    base = step * PERIOD
    there = [base + 10 + 30 * k for k in range(micro_batches)]
    return there, [at + (30 if batched else 37) for at in there]


def found(micro_batches, tied=0, moved_ms=0, *, batched=False):
    """Which rows are found, and which are made as a collective of that size; the clock ticks `moved_ms` later."""
    flows, made = [], []
    for step in range(STEPS):
        there, back = passes(step, micro_batches, batched)
        flows += [Flow("a", "b", at * MS, (at + 3) * MS, ACTIVATION) for at in there]
        flows += [Flow("b", "a", at * MS, (at + 3) * MS, ACTIVATION + 1) for at in back]
        flows += [Flow(*ends, (step * PERIOD + 350) * MS, (step * PERIOD + 354) * MS, tied) for ends in ("ab", "ba")
                  if tied]  # fmt: skip
    transfers = transfer_table(flows)
    made = (transfers.start_ns % (PERIOD * MS)) == 350 * MS
    clock = StepClock((np.arange(STEPS + 1) * PERIOD + moved_ms) * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    rows = shared_rows(transfers, [(0, 1)], clock)
    inside = (transfers.start_ns >= clock.boundary_ns[1]) & (transfers.start_ns < clock.boundary_ns[-2])
    return rows[inside].tolist(), made[inside].tolist()


@pytest.mark.parametrize("micro_batches", [2, 3, 8])
@pytest.mark.parametrize("tied", [ACTIVATION, 950_000, 1_100_000])
@pytest.mark.parametrize("moved_ms", [0, 345, 45])
def test_a_collective_as_large_as_a_message_ends_the_step_or_begins_it(micro_batches, tied, moved_ms):
    rows, made = found(micro_batches, tied, moved_ms)
    assert any(made)
    assert rows == made


@pytest.mark.parametrize("micro_batches", [1, 2, 3, 8])
@pytest.mark.parametrize("moved_ms", [0, 45, 85])
@pytest.mark.parametrize("batched", [False, True])
def test_without_a_collective_nothing_is_taken_away(micro_batches, moved_ms, batched):
    assert not any(found(micro_batches, moved_ms=moved_ms, batched=batched)[0])


def test_a_burst_of_passes_that_follow_each_other_closely_is_no_collective():
    """Chunks of two interleaved stages: a few messages of the warm-up and of the end stand apart."""
    flows = []
    for step in range(STEPS):
        base = step * PERIOD
        there = [base + 10, base + 40, *(base + 100 + 4 * k for k in range(40))]
        back = [*(base + 101 + 4 * k for k in range(40)), base + 300, base + 330]
        flows += [Flow("a", "b", at * MS, (at + 2) * MS, ACTIVATION) for at in there]
        flows += [Flow("b", "a", at * MS, (at + 2) * MS, ACTIVATION) for at in back]
    clock = StepClock(np.arange(STEPS + 1) * PERIOD * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    transfers = transfer_table(flows)
    assert collective_rows(transfers, [(0, 1)], clock).any()
    assert not shared_rows(transfers, [(0, 1)], clock).any()
