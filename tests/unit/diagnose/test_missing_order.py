"""Whose missing message came first in the steps before."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.diagnose.missing_order import missing_order
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.usual_rest import whole_job
from llmprism.model import Job, Steps
from unit.builders import MS, Flow, transfer_table

PERIOD = 100 * MS
STEPS = 12
NAMES = "abcd"


def stopped(sent_by=NAMES, late_ms=0):
    """Everybody sends to the next, one after the other, 5 ms apart; in the last step only some do."""
    flows = [
        Flow(name, NAMES[(row + 1) % 4], begin, begin + 2 * MS, 1_000_000)
        for step in range(STEPS + 1)
        for row, name in enumerate(NAMES)
        if step < STEPS or name in sent_by
        for begin in [step * PERIOD + (50 + 5 * row) * MS + (late_ms * MS if step == STEPS - 3 else 0)]
    ]
    job = Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows), bulk=np.ones(4, dtype=np.bool_))
    end = np.arange(1, STEPS + 1) * PERIOD
    steps = Steps(end - PERIOD, end, np.zeros(STEPS, dtype=np.bool_))
    last = max(flow.end_ns for flow in flows)
    whole = whole_job(job, steps, last, float(PERIOD))
    assert whole is not None
    return missing_order(job, whole)


@pytest.mark.parametrize("first", [0, 1, 2, 3])
def test_the_first_message_that_was_not_sent_was_the_first_in_every_step_before(first):
    order = stopped(NAMES[:first])
    assert order.to_send.shape[1] == RULES.endings.steps_back
    assert (order.to_send[first] == 0.0).all()
    others = list(range(first + 1, 4))
    assert (order.to_send[others] > 4 * MS).all()


def test_a_late_step_does_not_change_the_order():
    order = stopped("a", late_ms=30)
    assert (np.argmin(order.to_send, axis=0) == 1).all()
    np.testing.assert_allclose(order.to_send[2], 5 * MS, atol=MS / 10)


def test_whom_the_first_missing_message_was_for_lacks_it_first():
    order = stopped("a")
    assert (np.argmin(order.to_get, axis=0) == 2).all(), "b did not send to c"


def test_nothing_is_known_of_a_job_without_messages():
    order = stopped()
    job = Job("job", (0, 1), (), 1.0, transfer_table([]))
    end = np.arange(3) * PERIOD
    empty = whole_job(job, Steps(end, end + PERIOD, np.zeros(3, dtype=np.bool_)), 3 * PERIOD, float(PERIOD))
    assert empty is None
    assert np.isfinite(order.to_send).all()
