"""Where members stand in their step when a job stops, and whether all stand at the same point."""

import numpy as np
import pytest

from llmprism.diagnose.byte_curves import ByteCurve
from llmprism.diagnose.stand_together import Standing, how_far_apart, position, stand_together
from llmprism.diagnose.usual_rest import bytes_per_step
from unit.builders import MS

PERIOD = 100 * MS
STEPS = 8
ENDS = (np.arange(STEPS) + 1.0) * PERIOD


def curve(messages_after):
    """Ten messages in each of eight steps, and some after them."""
    at = [(step, n) for step in range(STEPS) for n in range(10)]
    at += [(STEPS, n) for n in range(messages_after)]
    start = np.array([step * PERIOD + 50 * MS + n * MS for step, n in at], dtype=np.int64)
    return ByteCurve.of(start, start + MS // 2, np.full(start.size, 1_000, dtype=np.int64))


@pytest.mark.parametrize(("after", "stands"), [(0, 0.0), (4, 0.4), (10, 1.0)])
def test_a_member_stands_where_its_bytes_say(after, stands):
    step_bytes, _ = bytes_per_step(curve(after), ENDS)
    assert position(curve(after), ENDS, step_bytes) == pytest.approx(stands, abs=0.01)
    assert step_bytes == pytest.approx(10_000)


def test_a_clock_that_lost_a_step_says_the_same():
    assert position(curve(4), np.delete(ENDS, 2), 10_000.0) == pytest.approx(0.4, abs=0.01)


def test_who_sends_nothing_in_a_step_stands_nowhere():
    early = np.array([1.0, 2.0, 3.0])
    assert np.isnan(position(curve(0), early, bytes_per_step(curve(0), early)[0]))


def together(stands, usually, step_bytes=None, lossy=False):
    """`usually` is how far every second member is ahead of the others while messages, tenths of a step, flow."""
    where = np.array(stands)
    size = np.full(where.size, 1e6) if step_bytes is None else np.array(step_bytes)
    before = np.zeros((where.size, 3))
    before[::2] = usually
    return stand_together(*how_far_apart(Standing(where, size, np.full(where.size, 0.05), before), lossy=lossy))


def test_members_that_do_the_same_stand_together_where_they_are_much_closer_than_usual():
    assert together([0.5, 0.5, 0.52, 0.5], usually=0.1)
    assert not together([0.5, 0.5, 0.55, 0.5], usually=0.1)
    assert together([0.5, 0.5, 0.55, 0.5], usually=0.3)


def test_each_role_stands_for_itself():
    size = [1e6, 1e6, 2e6, 2e6]
    assert together([0.3, 0.3, 0.9, 0.9], usually=0.1, step_bytes=size)
    assert not together([0.3, 0.9, 0.9, 0.9], usually=0.1, step_bytes=size)


def test_a_few_whose_records_were_lost_do_not_count():
    stands = [0.5] * 19 + [0.1]
    assert together(stands, usually=0.1, lossy=True)
    assert not together(stands, usually=0.1)


def test_of_members_that_send_nothing_nothing_is_known():
    assert not together([np.nan, np.nan], usually=0.1)


def test_members_that_always_move_in_lockstep_say_nothing():
    assert together([0.5, 0.5, 0.5], usually=0.06)
    assert not together([0.5, 0.5, 0.5], usually=0.04)
