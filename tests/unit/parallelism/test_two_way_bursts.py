"""One large burst both ways of every step among the passes of two stages."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.two_way_bursts import bursts_in_parts, large_bursts
from unit.builders import MS, Flow, transfer_table

STEPS, MESSAGE = 8, 1_000_000


def steps_of(batches, *, tied, together, tick=0):
    """Transfers and clock of two stages that pass so many micro-batches there and back, both at one time or in turn,
    and reduce so many messages' bytes afterwards."""
    period = 20 * batches + 100
    flows = []
    for step in range(STEPS):
        begin = step * period
        for k in range(batches):
            for ends, late in (("ab", 0), ("ba", 0 if together else 10)):
                at = (begin + 20 * k + late) * MS
                flows.append(Flow(*ends, at, at + 2 * MS, MESSAGE))
        at = (begin + 20 * batches + 20) * MS
        if tied:
            flows += [Flow(*ends, at, at + 12 * MS, int(tied * MESSAGE)) for ends in ("ab", "ba")]
    ticks = (np.arange(STEPS + 1, dtype=np.int64) * period + tick) * MS
    return transfer_table(flows), StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("batches", "tied"), [(2, 1.5), (2, 700.3), (32, 2.6), (64, 55.3)])
def test_embeddings_are_found_wherever_the_clock_ticks(batches, tied, together):
    for tick in (0, 20 * batches + 26, 10 * batches):
        transfers, clock = steps_of(batches, tied=tied, together=together, tick=tick)
        rows = large_bursts(transfers, [(0, 1)], clock)
        assert rows is not None
        assert rows.sum() == 2 * STEPS
        assert (transfers.bytes[rows] == int(tied * MESSAGE)).all()


@pytest.mark.parametrize("tied", [0.0, 1.0, 3.0])
@pytest.mark.parametrize(("batches", "together"), [(2, True), (32, True), (32, False)])
def test_messages_and_whole_numbers_of_them_are_no_collective(batches, tied, together):
    """Passes that leave in one batch are at one time too, and chunks that follow each other at once make one burst."""
    transfers, clock = steps_of(batches, tied=tied, together=together)
    assert large_bursts(transfers, [(0, 1)], clock) is None
    assert bursts_in_parts(transfers, [(0, 1)], clock) is None


def _without_replicas(batches, *, tied, together):
    """The same where the last stage sends the first half of its part right behind its last gradient: it has no replicas
    to wait for, while the first stage computes first."""
    period = 20 * batches + 200
    flows = []
    for step in range(STEPS):
        begin = step * period
        for k in range(batches):
            for ends, late in (("ab", 0), ("ba", 0 if together else 10)):
                at = (begin + 20 * k + late) * MS
                flows.append(Flow(*ends, at, at + 2 * MS, MESSAGE))
        behind, after = (begin + 20 * batches - (15 if together else 5)) * MS, (begin + 20 * batches + 40) * MS
        half = int(tied * MESSAGE / 2)
        flows.append(Flow(*"ba", behind, behind + 4 * MS, half))
        flows += [Flow(*"ab", after, after + 8 * MS, 2 * half), Flow(*"ba", after + 4 * MS, after + 8 * MS, half)]
    ticks = np.arange(STEPS + 1, dtype=np.int64) * period * MS
    return transfer_table(flows), StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0), half


@pytest.mark.parametrize("together", [False, True])
@pytest.mark.parametrize(("batches", "tied"), [(2, 5.3), (6, 1.6), (24, 3.4), (8, 0.4)])
def test_what_the_last_stage_sends_at_once_is_part_of_the_collective(batches, tied, together):
    transfers, clock, half = _without_replicas(batches, tied=tied, together=together)
    rows = bursts_in_parts(transfers, [(0, 1)], clock)
    if tied < 1.0:  # smaller than a message: other signs have to tell
        assert rows is None
        return
    assert rows is not None
    assert rows.sum() == 3 * STEPS
    assert set(transfers.bytes[rows].tolist()) == {half, 2 * half}


@pytest.mark.parametrize("tied", [0.0, 8.3])
def test_messages_of_many_lengths_that_follow_each_other_are_no_collective(tied):
    """Two chunks that leave at once, both ways, in every step: of another length each time, unlike embeddings."""
    rng, flows = np.random.default_rng(1), []
    for step in range(4 * STEPS):
        for k in range(4):
            at, length = (step * 200 + 20 * k) * MS, int(rng.uniform(0.8, 1.2) * MESSAGE)
            flows += [Flow(*"ab", at, at + 2 * MS, length), Flow(*"ba", at + 10 * MS, at + 12 * MS, length)]
        at, length = (step * 200 + 100) * MS, int((tied or rng.uniform(1.9, 2.3)) * MESSAGE)
        flows += [Flow(*ends, at, at + 4 * MS, length) for ends in ("ab", "ba")]
    ticks = np.arange(4 * STEPS + 1, dtype=np.int64) * 200 * MS
    clock = StepClock(ticks, np.ones(4 * STEPS, dtype=np.bool_), 1.0)
    assert (bursts_in_parts(transfer_table(flows), [(0, 1)], clock) is None) == (tied == 0.0)
