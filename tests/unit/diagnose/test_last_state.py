"""How members stand when the traffic stops, against the same point of the steps before."""

import numpy as np
import pytest

from llmprism.diagnose.last_state import last_state
from llmprism.diagnose.usual_rest import whole_job
from llmprism.model import Job, Steps
from unit.builders import MS, Flow, transfer_table

PERIOD = 1_000 * MS
STEPS = 8
MICRO_BATCHES = 100


def messages(step: int, count: int):
    """One after another, each a hundredth of the step's bytes, in pairs: 2 ms after the first of two, 12 after both."""
    at = [step * PERIOD + (n // 2) * 18 * MS + (n % 2) * 4 * MS for n in range(count)]
    return [Flow("a", "b", when, when + 2 * MS, 1_000_000) for when in at]


@pytest.mark.parametrize(("sent", "pause_ms"), [(41, 2), (42, 12)])
def test_the_pause_before_another_message_is_another_one_however_many_there_are(sent, pause_ms):
    flows = [flow for step in range(STEPS) for flow in messages(step, MICRO_BATCHES)] + messages(STEPS, sent)
    flows += [Flow("b", "a", step * PERIOD, step * PERIOD + MS, 1_000_000) for step in range(STEPS + 1)]
    job = Job("job", (0, 1), (), 1.0, transfer_table(flows))
    ends = (np.arange(STEPS) + 1) * PERIOD - 10 * MS
    steps = Steps(ends - PERIOD, ends, np.zeros(STEPS, dtype=np.bool_))
    last = max(flow.end_ns for flow in flows)
    whole = whole_job(job, steps, last, PERIOD)
    assert whole is not None
    state = last_state(job, whole, last + PERIOD, PERIOD)
    assert state.pause_ns[0] == pytest.approx(pause_ms * MS, rel=0.01)
