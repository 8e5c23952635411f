import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.features import links_of
from llmprism.parallelism.lead import _range, leads
from unit.builders import MS, Flow, transfer_table

STEPS = 10
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 100 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)


def lead(exchange, shift_ms=0):
    """Lead of the link between a and b that exchanges these (direction, start_ms, length_ms) in every step."""
    flows = [
        Flow(*("ab" if there else "ba"), k * 100 * MS + int(at * MS), k * 100 * MS + int((at + length) * MS), 1_000_000)
        for k in range(STEPS)
        for there, at, length in exchange
    ]
    transfers = transfer_table(flows)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    clock = StepClock(CLOCK.boundary_ns + shift_ms * MS, CLOCK.regular, 1.0)
    return float(leads(transfers, links, clock)[0])


@pytest.mark.parametrize("shift_ms", [0, 30, 70])
def test_a_pipeline_is_ahead_by_its_warm_up_wherever_the_clock_ticks(shift_ms):
    one = [(True, 2, 1), (True, 22, 1), (False, 40, 1), (False, 60, 1)]
    assert lead(one, shift_ms) == pytest.approx(2.0, abs=0.3)


def test_directions_sent_in_one_batch_still_lead_by_what_is_under_way():
    batched = [(True, 2, 1), *((way, 12 + 10 * k, 1) for k in range(7) for way in (True, False)), (False, 85, 1)]
    assert lead(batched) == pytest.approx(1.0, abs=0.2)


def test_a_collective_gives_and_takes_the_same():
    burst = [(way, 60 + 3 * k, 2) for k in range(8) for way in (True, False)]
    assert lead(burst) < 0.2


def test_ends_that_are_not_in_order_leave_room_for_all_of_the_other_direction():
    """Where transfers overlap, a search among their ends may find the end of a step before its beginning."""
    when, size = np.arange(10) * 10, np.full(10, 5_000)
    difference, messages = _range.python(when, size, 6, 3, 0, 5, 0, 100, 1_000, 0.1)
    assert messages == 5
    assert difference > 0
