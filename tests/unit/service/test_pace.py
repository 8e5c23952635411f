"""The usual step time of a run: learnt, followed, and left alone while something is wrong."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from llmprism.model.live import LiveState, TrackedRun
from llmprism.service.pace import is_slow, paced, with_baseline
from llmprism.units import SECOND

MS = SECOND // 1000
END = 10_000 * SECOND
RUN = TrackedRun("job-1", ("a", "b"), (), LiveState.RUNNING, 0, 0, END, END, steps=500, period_ns=SECOND)
SETTLED = replace(RUN, recent_ns=SECOND, baseline_ns=SECOND, usual_high_ns=SECOND)


def steps(*milliseconds):
    return np.array(milliseconds, dtype=np.int64) * MS


def followed(run, *milliseconds, troubled=False):
    """The run after a look that shows these steps."""
    return with_baseline(paced(run, steps(*milliseconds)), steps(*milliseconds), END, troubled=troubled)


def test_one_odd_step_in_three_does_not_move_the_recent_step_time():
    run = paced(RUN, steps(*[1_000] * 20, 1_000, 2_000, 1_000, 1_000, 2_000, 1_000, 1_000))
    assert run.recent_ns == SECOND
    assert paced(RUN, steps(*[1_000] * 20, *[1_500] * 4)).recent_ns == 1_500 * MS, "four of the last seven do"
    assert paced(RUN, steps()) is RUN


def test_slower_than_usual_and_than_the_slow_ones_of_the_usual_steps():
    assert is_slow(replace(SETTLED, recent_ns=1_400 * MS))
    assert not is_slow(replace(SETTLED, recent_ns=1_200 * MS))
    assert not is_slow(replace(SETTLED, recent_ns=1_400 * MS, usual_high_ns=1_350 * MS)), "some steps take that long"
    assert not is_slow(replace(RUN, recent_ns=1_400 * MS)), "nothing is known yet"


def test_a_slower_look_is_followed_slowly_and_a_faster_one_soon():
    assert SECOND < followed(SETTLED, *[1_040] * 9).baseline_ns < 1_010 * MS
    assert 850 * MS < followed(SETTLED, *[800] * 9).baseline_ns < 960 * MS


def test_what_is_much_slower_is_not_followed_at_first():
    assert followed(SETTLED, *[1_200] * 9).baseline_ns == SECOND
    for_long = replace(SETTLED, slow_since_ns=END - 3_600 * SECOND)
    assert followed(for_long, *[1_400] * 9).baseline_ns == 1_400 * MS, "its work has changed"
    for_a_while = replace(SETTLED, slow_since_ns=END - 600 * SECOND)
    assert followed(for_a_while, *[1_400] * 9).baseline_ns == SECOND


def test_a_young_run_forgets_its_first_steps():
    for young in ({"first_ns": END - 30 * SECOND}, {"steps": 10}):
        assert followed(replace(SETTLED, **young), *[700] * 9).baseline_ns == 700 * MS
    assert followed(SETTLED, *[700] * 9).baseline_ns > 800 * MS


def test_what_nine_of_ten_steps_stay_below_is_learnt_with_the_baseline():
    run = followed(RUN, *[1_000] * 8, *[1_500] * 3)
    assert (run.baseline_ns, run.usual_high_ns) == (SECOND, 1_500 * MS)


def test_few_steps_and_trouble_change_nothing():
    assert followed(SETTLED, *[800] * 4).baseline_ns == SECOND
    assert followed(SETTLED, *[800] * 9, troubled=True).baseline_ns == SECOND
    assert followed(RUN, *[800] * 9, troubled=True).baseline_ns == 800 * MS, "unless nothing is known"
