"""Where traffic breaks off: 20 steps of 100 ms made by hand, of a few equal messages each."""

import numpy as np
import pytest

from llmprism.diagnose.endings import Ending, final_ending, inner_endings
from llmprism.model import (
    Events,
    Job,
    JobLayout,
    Layout,
    PairKind,
    PairRoles,
    Steps,
    Timeline,
    Window,
)
from unit.builders import MS, SECOND, Flow, transfer_table

STEPS = 20
PERIOD = 100 * MS
SIZE = 1_000_000


def ending(**changes):
    """A job that stopped long ago in the middle of a step, but for what changes."""
    usual = {
        "step": 20, "begun_ns": 0, "last_ns": 50 * MS, "resumed_ns": None, "done": 0.5, "silence_ns": 10 * SECOND,
        "usual_silence_ns": 20 * MS, "alive_ns": 50 * MS, "period_ns": float(PERIOD),
    }  # fmt: skip
    return Ending(**{**usual, **changes})


def test_a_job_has_stopped_after_two_steps_of_silence():
    assert not ending(silence_ns=2 * PERIOD).stopped
    assert ending(silence_ns=2 * PERIOD + 1).stopped


@pytest.mark.parametrize(("done", "broken"), [(0.001, False), (0.01, True), (0.5, True), (0.85, True), (0.95, False)])
def test_it_broke_off_where_only_part_of_a_step_was_sent(done, broken):
    assert ending(done=done, exact=False).broken_off is broken


@pytest.mark.parametrize(("done", "broken"), [(0.001, False), (0.5, True), (0.95, True), (0.99, False)])
def test_where_bytes_are_exact_a_twentieth_that_is_missing_tells(done, broken):
    assert ending(done=done).broken_off is broken


@pytest.mark.parametrize(
    ("silence_ms", "usual_ms", "exact", "broken"),
    [
        (41, 20, True, True),
        (39, 20, True, False),
        (11, 1, True, True),
        (9, 1, True, False),
        (150, 20, False, False),
        (201, 20, False, True),
    ],
)
def test_a_shorter_silence_counts_where_it_is_unusual_and_bytes_are_exact(silence_ms, usual_ms, exact, broken):
    told = ending(silence_ns=silence_ms * MS, usual_silence_ns=usual_ms * MS, exact=exact)
    assert told.broken_off is broken


def job_of(places_ms, steps=STEPS, more=(), sizes=None, chatter=()):
    """(job, layout, timeline): each step sends one message at each of `places_ms`, the last of which ends it.

    `more` lists the times (ms, counted from the end of the last step) of messages after it; `chatter` those of
    heartbeats, which carry no training.
    """
    amount = sizes or [SIZE] * len(places_ms)
    flows = [
        Flow("a", "b", step * PERIOD + at * MS, step * PERIOD + (at + 1) * MS, size)
        for step in range(steps)
        for at, size in zip(places_ms, amount, strict=True)
    ]
    end = np.arange(steps, dtype=np.int64) * PERIOD + (places_ms[-1] + 1) * MS
    start = np.concatenate([[0], end[:-1]])
    flows += [Flow("a", "b", int(end[-1]) + at * MS, int(end[-1]) + (at + 1) * MS, SIZE) for at in more]
    flows += [Flow("b", "a", int(end[-1]) + at * MS, int(end[-1]) + (at + 1) * MS, 300) for at in chatter]
    transfers = transfer_table(flows)
    kind = np.full(transfers.start_ns.size, PairKind.DP, dtype=np.int8)
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), kind)
    timeline = Timeline(Steps(start, end, np.zeros(steps, dtype=np.bool_)), np.tile(end, (2, 1)), Events.empty())
    return Job("job", (0, 1), (), 1.0, transfers), layout, timeline, int(end[-1])


FIVE = [20, 30, 40, 50, 60]


def last_of(places, window_ms, **changes):
    job, layout, timeline, end = job_of(places, **changes)
    told = final_ending(job, layout, timeline, Window(0, end + window_ms * MS))
    assert told is not None
    return told, end


def test_the_share_that_was_sent_and_the_silence_since():
    told, end = last_of(FIVE, 500, more=[60, 70], chatter=[300])
    assert told.done == pytest.approx(0.4, abs=0.01)
    assert (told.step, told.begun_ns, told.last_ns) == (STEPS, end, end + 71 * MS)
    assert told.silence_ns == (500 - 71) * MS
    assert told.alive_ns == end + 301 * MS, "heartbeats are signs of life, not of training"
    assert told.exact
    assert told.broken_off


def test_a_job_that_ends_with_a_step_did_not_break_off():
    told, end = last_of(FIVE, 10_000)
    assert (told.done, told.last_ns) == (0.0, end)
    assert told.stopped
    assert not told.broken_off


@pytest.mark.parametrize(("places", "sent"), [([20, 30, 75, 85], 2), ([20, 30, 40, 50, 60, 90, 95], 5), ([20, 75], 1)])
def test_the_usual_silence_is_that_at_the_same_point_of_earlier_steps(places, sent):
    """A long silence after `sent` messages is what all steps do there, and nowhere else."""
    long = places[sent] - places[sent - 1] - 1
    at = [100 - places[-1] - 1 + place for place in places]
    assert last_of(places, 500, more=at[:sent])[0].usual_silence_ns == long * MS
    if sent > 1:
        assert last_of(places, 500, more=at[: sent - 1])[0].usual_silence_ns < long * MS


def test_a_silence_that_is_too_short_to_tell_is_not_compared():
    told, _ = last_of(FIVE, 76, more=[60, 70])
    assert (told.silence_ns, told.usual_silence_ns) == (5 * MS, 0)
    assert not told.broken_off


def test_a_window_that_ends_in_the_usual_silence_of_a_step_is_no_break():
    """A few large messages per step: the silence after the second one is 44 ms, that after the first 9 ms."""
    assert not last_of([20, 30, 75, 85], 75, more=[34, 44])[0].broken_off, "30 ms"
    assert last_of([20, 30, 75, 85], 75, more=[44])[0].broken_off, "30 ms where 9 are usual"


def test_bytes_that_vary_are_not_exact():
    random = np.random.default_rng(0)
    job, layout, timeline, end = job_of(FIVE)
    assert final_ending(job, layout, timeline, Window(0, end)).exact
    flows = [Flow("a", "b", s * PERIOD + at * MS, s * PERIOD + (at + 1) * MS, int(random.integers(10**6, 10**7)))
             for s in range(STEPS) for at in FIVE]  # fmt: skip
    varying = Job("job", (0, 1), (), 1.0, transfer_table(flows))
    assert not final_ending(varying, layout, timeline, Window(0, end)).exact


def test_a_job_without_steps_has_no_ending():
    job, layout, timeline, end = job_of(FIVE, steps=1)
    assert final_ending(job, layout, timeline, Window(0, end)) is None
    assert inner_endings(job, layout, timeline) == []


def away(cut, seconds=6.0, steps=STEPS):
    """A job that sends `cut` messages of step 10, is silent, then starts again with that step."""
    flows, start, end = [], [], []
    for step in range(steps):
        shift = int(seconds * SECOND) + PERIOD if step >= 10 else 0
        begin = step * PERIOD + shift
        flows += [Flow("a", "b", begin + at * MS, begin + (at + 1) * MS, SIZE) for at in FIVE]
        start.append(begin + FIVE[0] * MS if step in (0, 10) else end[-1])
        end.append(begin + 61 * MS)
    flows += [Flow("a", "b", 10 * PERIOD + at * MS, 10 * PERIOD + (at + 1) * MS, SIZE) for at in FIVE[:cut]]
    transfers = transfer_table(flows)
    layout = JobLayout(
        Layout(), (), (), PairRoles.empty(), np.full(transfers.start_ns.size, PairKind.DP, dtype=np.int8)
    )
    ends = np.array(end, dtype=np.int64)
    steps_seen = Steps(np.array(start, dtype=np.int64), ends, np.zeros(steps, dtype=np.bool_))
    timeline = Timeline(steps_seen, np.tile(ends, (2, 1)), Events.empty())
    return inner_endings(Job("job", (0, 1), (), 1.0, transfers), layout, timeline)


def test_a_job_that_broke_off_and_came_back_is_seen_inside_the_window():
    (told,) = away(cut=2)
    assert (told.step, told.last_ns) == (10, 10 * PERIOD + 31 * MS)
    assert told.resumed_ns == 10 * PERIOD + 6 * SECOND + PERIOD + 20 * MS
    assert told.silence_ns == told.resumed_ns - told.last_ns
    assert told.done == pytest.approx(0.4, abs=0.02)
    assert told.alive_ns == told.last_ns


def test_pauses_between_steps_and_short_ones_are_no_endings():
    assert away(cut=0) == [], "a checkpoint"
    assert away(cut=5) == [], "one more step, whole, before a checkpoint"
    assert away(cut=2, seconds=2.0) == [], "no job restarts that fast"
