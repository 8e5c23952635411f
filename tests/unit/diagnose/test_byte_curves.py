"""Bytes over time: two messages of 100 bytes with a pause between them, again and again."""

import numpy as np
import pytest

from llmprism.diagnose.byte_curves import ByteCurve, curves_of, hold_the_training, training_messages
from llmprism.model import Job, Steps
from unit.builders import MS, Flow, transfer_table

STARTS = np.array([0, 20, 100, 120], dtype=np.int64)
CURVE = ByteCurve.of(STARTS, STARTS + 10, np.full(4, 100, dtype=np.int64))


def some(*values):
    return np.array(values, dtype=np.float64)


def test_messages_flow_evenly():
    assert CURVE.at(some(0, 5, 15, 25, 500)).tolist() == [0, 50, 100, 150, 400]
    assert CURVE.total == 400


def test_messages_that_overlap_add_up_and_leave_exact_pauses():
    start = np.arange(0, 9_000, 3, dtype=np.int64) * 7
    curve = ByteCurve.of(start, start + 17, np.full(start.size, 333, dtype=np.int64))
    assert curve.total == pytest.approx(333 * start.size)
    assert np.count_nonzero(np.diff(curve.passed) == 0.0) == start.size - 1


def test_short_messages_of_today_keep_their_bytes():
    """Nanoseconds since 1970 do not fit into a float: messages of a few of them must not vanish or grow."""
    start = 1_794_783_662_925_427_711 + np.arange(50, dtype=np.int64) * 1_000_003
    curve = ByteCurve.of(start, start + np.arange(50) % 5, np.full(50, 8_948, dtype=np.int64))
    assert curve.total == pytest.approx(50 * 8_948, rel=1e-9)
    assert np.diff(curve.at(start[1:].astype(np.float64) - 5_000)) == pytest.approx(np.full(48, 8_948), rel=1e-9)


def test_the_longest_pause_near_an_amount_is_found():
    begin, end = CURVE.pauses_at(some(200, 100, 250), some(5, 5, 5), some(5, 5, 5))
    assert begin.tolist() == [30, 10, 105]
    assert end.tolist() == [100, 20, 105], "nothing pauses in the middle of a message"
    begin, end = CURVE.pauses_at(some(190), some(5), some(20))
    assert (begin.tolist(), end.tolist()) == ([30], [100])
    assert np.isnan(CURVE.pauses_at(some(-1, 401), some(5, 5), some(5, 5))[0]).all()


def test_the_longest_pause_of_each_step():
    assert CURVE.longest_pauses(some(0, 95, 200)).tolist() == [70, 10]


def test_every_member_has_a_curve_of_what_it_sent_and_was_sent():
    flows = [Flow("a", "b", 0, 10, 5_000), Flow("a", "b", 20, 30, 5_000), Flow("b", "a", 0, 10, 300)]
    transfers = transfer_table(flows)
    job = Job("job", (0, 1), (), 1.0, transfers)
    rows = training_messages(job)
    assert rows.sum() == np.count_nonzero(transfers.bytes >= 1_000)
    sent = curves_of(job, np.ones_like(rows), transfers.pair_src)
    assert [curve is not None for curve in sent] == [int(np.sum(transfers.pair_of_row == 0)) > 1, False]


def test_steps_that_hold_little_of_the_training_are_none():
    flows = [Flow("a", "b", at * MS, at * MS + MS, 1_000_000) for at in range(0, 100, 10)]
    job = Job("job", (0, 1), (), 1.0, transfer_table(flows))

    def steps(first_ms, last_ms):
        bounds = [np.array([at * MS], dtype=np.int64) for at in (first_ms, last_ms)]
        return Steps(*bounds, np.zeros(1, dtype=np.bool_))

    assert hold_the_training(job, steps(0, 59))
    assert not hold_the_training(job, steps(0, 39))
