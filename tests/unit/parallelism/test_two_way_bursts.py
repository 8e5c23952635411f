"""One large burst both ways of every step among the passes of two stages."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.two_way_bursts import large_bursts
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
