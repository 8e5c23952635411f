"""How members stand when the traffic stops, against the same point of the steps before."""

import numpy as np
import pytest

from llmprism.diagnose.last_state import _Announced, last_state
from llmprism.diagnose.rules import RULES
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


@pytest.mark.parametrize(("got_ms", "said"), [(500, 0), (200, 1)])
def test_who_speaks_as_soon_as_it_has_got_what_it_passes_on_announces_its_message(got_ms, said):
    """It usually sends 50 ms after its last message. Now it got what it passes on later, and speaks at 500 ms, to
    several at once, as it does over a transport that talks with every message."""
    last = 10 * PERIOD
    talk = [Flow("a", "b", n * PERIOD + 300 * MS, n * PERIOD + 301 * MS, 48) for n in range(10)]
    now = [Flow("a", "b", last + 500 * MS + n * 9_000, last + 500 * MS + n * 9_000 + 1_000, 48) for n in range(4)]
    training = [Flow("a", "b", n * PERIOD, n * PERIOD + MS, 1_000_000) for n in range(10)]
    job = Job("job", (0, 1), (), 1.0, transfer_table([*talk, *now, *training]))
    begin = (np.arange(8) + 1.0) * PERIOD + MS
    small = _Announced(job, 0, last + PERIOD, 5)
    assert small.after(0, last, last + got_ms * MS, begin, begin + 50 * MS, RULES) == said


def state_of(flows, steps=STEPS, late_end=None):
    job = Job("job", (0, 1), (), 1.0, transfer_table(flows))
    ends = (np.arange(steps) + 1) * PERIOD - 10 * MS
    if late_end is not None:
        ends[late_end] += 300 * MS
    last = max(flow.end_ns for flow in flows)
    whole = whole_job(job, Steps(ends - PERIOD, ends, np.zeros(steps, dtype=np.bool_)), last, PERIOD)
    assert whole is not None
    return last_state(job, whole, last + PERIOD, PERIOD)


def test_who_stopped_before_the_clock_saw_the_last_step_end_has_lost_no_records():
    """`b` stops in the eighth step, and `a` goes on to its end; or a record of `b` is missing in the sixth."""
    replies = [Flow("b", "a", step * PERIOD + n * 40 * MS, step * PERIOD + n * 40 * MS + MS, 500_000)
               for step in range(STEPS) for n in range(20)]  # fmt: skip
    sent = [flow for step in range(STEPS) for flow in messages(step, MICRO_BATCHES)]
    assert not state_of([*sent, *[r for r in replies if r.start_ns < (STEPS - 1) * PERIOD + 300 * MS]]).lossy
    assert state_of([*sent, *[r for r in replies if r.start_ns != 5 * PERIOD + 400 * MS]]).lossy


def test_a_step_that_the_clock_cut_elsewhere_has_lost_no_records():
    """The fifth step ends 300 ms late by the clock: it has bytes of the sixth."""
    flows = [flow for step in range(STEPS) for flow in messages(step, MICRO_BATCHES)]
    flows += [Flow("b", "a", step * PERIOD, step * PERIOD + MS, 1_000_000) for step in range(STEPS)]
    assert not state_of(flows, late_end=4).lossy
    lost = [flow for flow in flows if not 5 * PERIOD + 100 * MS < flow.start_ns < 5 * PERIOD + 400 * MS]
    assert state_of(lost).lossy


def test_the_silences_that_are_half_as_long_as_the_one_here_are_counted():
    """Eight messages in a step: 20 ms of silence after every second one, 60 after the last."""
    at = [step * PERIOD + n * 40 * MS + (n // 2) * 20 * MS for step in range(STEPS) for n in range(8)]
    flows = [Flow("a", "b", when, when + 40 * MS, 1_000_000) for when in at]
    flows += [Flow("b", "a", step * PERIOD, step * PERIOD + MS, 1_000_000) for step in range(STEPS)]
    after_two = [flow for flow in flows if flow.start_ns < (STEPS - 1) * PERIOD + 80 * MS]
    assert state_of(after_two, STEPS - 1).rests == pytest.approx(4.0)
    assert state_of(after_two, STEPS - 1).alike == pytest.approx(3.0)
    assert state_of(flows).rests == state_of(flows).alike == pytest.approx(1.0)
    assert state_of(flows).longest_rest_ns == pytest.approx(PERIOD - 380 * MS)


def test_where_bytes_vary_all_members_are_due_after_the_longest_pauses_of_their_steps():
    """`b` sends the same in every step, `a` more in every other one: one clock for both, and what pauses vary by."""
    count = [100, 60, 90, 70, 100, 60, 90, 70]
    flows = [flow for step in range(STEPS) for flow in messages(step, count[step])]
    flows += [Flow("a", "c", step * PERIOD, step * PERIOD + MS, 1_000 * count[step]) for step in range(STEPS)]
    flows += [Flow("b", "a", step * PERIOD + at, step * PERIOD + at + MS, 900_000)
              for step in range(STEPS) for at in (0, (300 + 10 * (step % 3)) * MS)]  # fmt: skip
    flows += [Flow("c", "a", f.start_ns, f.end_ns, f.bytes) for f in flows if f.src == "a" and f.dst == "b"]
    last = max(flow.end_ns for flow in flows)
    job, ends = Job("job", (0, 1, 2), (), 1.0, transfer_table(flows)), (np.arange(STEPS) + 1) * PERIOD - 10 * MS
    whole = whole_job(job, Steps(ends - PERIOD, ends, np.zeros(STEPS, dtype=np.bool_)), last, PERIOD)
    assert whole is not None
    state = last_state(job, whole, last, PERIOD)
    assert not state.exact
    longest = [PERIOD - (300 + 10 * (step % 3)) * MS - MS for step in range(STEPS)]
    assert state.pause_ns[1] == pytest.approx(np.median(longest), abs=10 * MS)
    assert state.spread_ns[1] > 0.0
    assert state.longest_ns[1] == pytest.approx(max(longest), abs=MS)
