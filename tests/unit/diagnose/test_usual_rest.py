"""Whether a job only rests where it always does, before anything is calls of its members."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import endings
from llmprism.diagnose.endings import ending_at
from llmprism.diagnose.usual_rest import rests_as_usual, whole_job
from llmprism.model import Job, JobState, Steps
from unit.builders import MS, Flow, transfer_table

PERIOD = 1_000 * MS
STEPS = 8


def job_of(late_ms=0, step_bytes=10_000_000):
    """Two members that send to each other at the end of each step, the second of them `late_ms` later in the last."""
    flows = []
    for step in range(STEPS):
        at = step * PERIOD + 800 * MS
        shift = late_ms * MS if step == STEPS - 1 else 0
        flows += [Flow("a", "b", at + n * MS, at + (n + 1) * MS, step_bytes) for n in range(4)]
        flows += [Flow("b", "a", at + shift + n * MS, at + shift + (n + 1) * MS, step_bytes) for n in range(4)]
    end = (np.arange(STEPS) + 1) * PERIOD - 100 * MS
    return Job("job", (0, 1), (), 1.0, transfer_table(flows)), Steps(end - PERIOD, end, np.zeros(STEPS, dtype=np.bool_))


def last_of(job):
    return int(job.transfers.end_ns.max())


def test_the_rest_of_a_step_is_known_from_those_before():
    job, steps = job_of()
    whole = whole_job(job, steps, last_of(job), PERIOD)
    assert whole is not None
    assert whole.rest_ns == pytest.approx(996 * MS, rel=0.001)
    assert whole.most_rest_ns == pytest.approx(whole.rest_ns, rel=0.001)
    assert whole.rested_ns < MS, "it has not rested yet"
    assert whole_job(job, steps, 2 * PERIOD, PERIOD) is None


def with_one_more(after_ms, size=50_000):
    """The job with a message so long after its last one, and its steps."""
    job, steps = job_of()
    last, sent = last_of(job), job.transfers
    begun = Flow("a", "b", last + after_ms * MS, last + (after_ms + 1) * MS, size)
    names = [(sent.addresses[sent.pair_src[pair]], sent.addresses[sent.pair_dst[pair]]) for pair in sent.pair_of_row]
    rows = zip(names, sent.start_ns.tolist(), sent.end_ns.tolist(), sent.bytes.tolist(), strict=True)
    flows = [Flow(*pair, start, end, size) for pair, start, end, size in rows]
    return Job("job", (0, 1), (), 1.0, transfer_table([*flows, begun])), steps


@pytest.mark.parametrize(
    ("after_ms", "size", "begun"), [(150, 50_000, False), (250, 50_000, True), (250, 9 << 20, False)]
)
def test_few_bytes_long_after_the_end_of_a_step_are_the_begin_of_the_next(after_ms, size, begun):
    job, steps = with_one_more(after_ms, size)
    whole = whole_job(job, steps, last_of(job), PERIOD)
    assert whole is not None
    assert whole.begun_anew() is begun
    assert whole.after_whole_steps() is (not begun and size < 1 << 20)


@pytest.mark.parametrize(("since_end", "beyond", "stands"), [(0.97, 0.9, True), (1.04, 1.06, True), (0.7, 0.99, True),
                                                            (0.7, 0.8, False), (1.02, 0.05, False)])  # fmt: skip
def test_the_clock_may_have_missed_the_last_end_of_a_step(since_end, beyond, stands):
    """It stands at an end by time, or by bytes; not where it has only begun the next step."""
    job, steps = job_of()
    whole = whole_job(job, steps, last_of(job), PERIOD)
    assert whole is not None
    assert replace(whole, since_end=since_end, beyond=beyond).stands_at_an_end() is stands


def test_little_that_is_sent_after_the_rest_shows_that_it_is_over():
    job, steps = with_one_more(900)
    whole = whole_job(job, steps, last_of(job), PERIOD)
    assert whole is not None
    assert whole.rested_ns == pytest.approx(900 * MS, rel=0.001)
    assert whole.rest_ns == pytest.approx(996 * MS, rel=0.001)


@pytest.mark.parametrize(
    ("late_ms", "silence_ms", "rests"),
    [(0, 900, True), (0, 1_900, True), (0, 2_100, False), (40, 900, True), (60, 900, False)],
)
def test_it_rests_where_it_is_silent_for_no_longer_than_usual_and_nobody_stopped_before_the_others(
    late_ms, silence_ms, rests
):
    job, steps = job_of(late_ms)
    whole = whole_job(job, steps, last_of(job), PERIOD)
    assert whole is not None
    assert rests_as_usual(job, whole, silence_ms * MS, PERIOD) is rests


def test_members_are_looked_at_only_where_that_does_not_tell(monkeypatch):
    job, steps = job_of()
    last = last_of(job)
    usual = ending_at(job, steps, last, last + 900 * MS, last, None)
    calls = []
    original = endings.last_state
    monkeypatch.setattr(endings, "last_state", lambda *rest: calls.append(rest) or original(*rest))
    assert ending_at(job, steps, last, last + 900 * MS, last, None) == usual
    assert usual.state is JobState.RUNNING
    assert not calls
    monkeypatch.setattr(endings, "rests_as_usual", lambda *_: False)
    assert ending_at(job, steps, last, last + 900 * MS, last, None) == usual
    assert calls


@pytest.mark.parametrize(("members", "whole"), [(2, True), (1, False), (0, True)])
def test_a_job_stops_after_whole_steps_where_their_bytes_are_all_there(members, whole):
    """So many members send in the last step, of which the clock has not seen the end."""
    job, steps = job_of()
    rows = (job.transfers.start_ns < (STEPS - 1) * PERIOD) | (job.transfers.pair_of_row < members)
    cut = Job("job", (0, 1), (), 1.0, job.transfers.select_rows(rows))
    seen = whole_job(cut, Steps(steps.start_ns[:-1], steps.end_ns[:-1], steps.setup[:-1]), last_of(cut), PERIOD)
    assert seen is not None
    assert seen.after_whole_steps() is whole


def test_a_job_that_has_sent_all_of_its_last_step_has_begun_no_other():
    """What was sent long after the clock's tick is of the step that the job ended with."""
    job, steps = with_one_more(250)
    whole = whole_job(job, replace(steps, job_end_ns=last_of(job)), last_of(job), PERIOD)
    assert whole is not None
    assert whole.after_whole_steps()
    assert not whole.begun_anew()
