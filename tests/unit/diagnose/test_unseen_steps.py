"""Holes of the clock: cut into steps where bytes flow in them, left alone where the job paused."""

import numpy as np

from llmprism.diagnose.unseen_steps import with_unseen_steps
from llmprism.model import Events, Job, Steps, Timeline
from unit.builders import MS, Flow, transfer_table

PERIOD = 100 * MS


def job_with(slow_steps, slow_factor=6, pause_ms=0, after=10):
    """Ten steps, some slow ones, a pause, `after` steps; the clock saw those that are not slow."""
    flows, seen, now = [], [], 0
    for step in range(10 + slow_steps + after):
        slow = 10 <= step < 10 + slow_steps
        length = PERIOD * (slow_factor if slow else 1)
        if step == 10 + slow_steps:
            now += pause_ms * MS
        for k in range(10):
            begin = now + k * length // 10
            flows += [Flow(a, b, begin, begin + length // 20, 1_000_000) for a, b in ("ab", "ba")]
        if not slow:
            seen.append((now, now + length))
        now += length
    start, end = (np.array(column, dtype=np.int64) for column in zip(*seen, strict=True))
    timeline = Timeline(Steps(start, end, np.zeros(start.size, dtype=np.bool_)), np.tile(end, (2, 1)), Events.empty())
    return Job("job", (0, 1), (), 1.0, transfer_table(flows)), timeline


def test_a_hole_in_which_bytes_flow_is_cut_into_the_steps_that_were_made():
    filled = with_unseen_steps(*job_with(4))
    assert filled.steps.count == 24
    lengths = filled.steps.duration_ns[10:14]
    assert np.abs(lengths - 6 * PERIOD).max() < PERIOD
    assert (filled.steps.start_ns[1:] >= filled.steps.end_ns[:-1]).all()
    assert (filled.member_end_ns[:, 10:14] == -1).all()


def test_a_pause_makes_no_steps_and_without_holes_nothing_changes():
    job, timeline = job_with(0, pause_ms=900)
    assert with_unseen_steps(job, timeline) is timeline
    job, timeline = job_with(0)
    assert with_unseen_steps(job, timeline) is timeline


def test_whole_steps_after_the_last_one_that_the_clock_saw_are_cut_too():
    filled = with_unseen_steps(*job_with(4, after=0))
    assert filled.steps.count in (13, 14)  # the last one may end with the last message
    assert np.abs(filled.steps.duration_ns[10:13] - 6 * PERIOD).max() < PERIOD


def test_a_step_under_way_where_the_window_ends_is_none():
    job, timeline = job_with(0)
    seen = Steps(timeline.steps.start_ns[:-1], timeline.steps.end_ns[:-1], timeline.steps.setup[:-1])
    cut = Timeline(seen, timeline.member_end_ns[:, :-1], Events.empty())
    assert with_unseen_steps(job, cut) is cut
