"""Jobs that broke off inside the window and came back, against those that only paused."""

import numpy as np
import pytest

from llmprism.diagnose import restarts
from llmprism.diagnose.restarts import inner_endings
from llmprism.model import Events, Steps, Timeline
from llmprism.model.job import Job
from unit.builders import MS, SECOND, Flow, transfer_table
from unit.diagnose.test_endings import NAMES, PERIOD, ROUNDS, STEPS, WHOLE, job_of, ring


def talk(first_ns, last_ns, every_ns):
    """Small messages of everybody to everybody."""
    moments = range(int(first_ns), int(last_ns), int(every_ns))
    return [Flow(a, b, when, when + 1_000, 60) for when in moments for a in NAMES for b in NAMES if a != b]


def away(cut, seconds, small=()):
    """A job that sends `cut` rounds of step 10 (the third member none), is silent, then starts again with that step."""
    shift = int(seconds * SECOND)
    flows = [flow for step in range(STEPS) for flow in ring(step, shift=shift if step >= 10 else 0)]
    flows += [*ring(10, ROUNDS[:cut], ("a", "b")), *small]
    return inner_endings(*job_of(flows, 10, shift))


def test_a_job_that_broke_off_and_came_back_is_seen_inside_the_window():
    (result,) = away(1, 6.0)
    assert (result.step, result.culprit) == (10, NAMES.index("c"))
    assert result.resumed_ns == 10 * PERIOD + 6 * SECOND + ROUNDS[0] * MS
    assert result.silence_ns == result.resumed_ns - result.last_ns


def test_pauses_between_steps_and_short_ones_are_no_endings():
    assert away(0, 6.0) == [], "a checkpoint"
    assert away(1, 2.0) == [], "nobody was gone"


def test_a_short_silence_is_a_restart_where_the_ranks_were_gone_and_connect_anew():
    gone, back = 10 * PERIOD, 10 * PERIOD + 2 * SECOND
    before, anew = talk(0, gone, 100 * MS), talk(back + 60 * MS, back + 300 * MS, 10 * MS)
    (result,) = away(1, 2.0, [*before, *anew])
    assert result.culprit == NAMES.index("c")
    assert away(1, 2.0, [*before, *talk(gone, back, 100 * MS), *anew]) == [], "they were heard all the while"
    assert away(1, 2.0, [*before, *talk(back, back + 300 * MS, 100 * MS)]) == [], "no more than usual"


def test_a_job_without_steps_was_never_away():
    job, _ = job_of(WHOLE)
    none = Timeline(Steps.empty(), np.zeros((3, 0), dtype=np.int64), Events.empty())
    assert inner_endings(job, none) == []


@pytest.mark.parametrize("seed", range(8))
def test_steps_that_may_hold_a_long_silence_are_all_that_do(seed):
    """No step is left out whose longest silence is longer than the least; the others save the search only."""
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 20_000, 60)) * 1_000
    flows = [Flow("a", "b", int(one), int(one) + int(random.integers(1, 300_000)), 5_000_000) for one in start]
    job = Job("j", (0, 1), (), 1.0, transfer_table(flows))
    first = np.arange(0, 20_000_000, 2_000_000)
    for least in (100_000, 400_000, 1_500_000):
        may = restarts._steps_with_silence(job, first, first + 2_000_000, least)
        for step in range(first.size):
            gap = restarts._longest_silence(job, int(first[step]), int(first[step]) + 2_000_000)
            assert step in may or gap is None or gap[1] - gap[0] <= least


def test_quiet_slots_are_found_alike_in_a_loop_and_by_arrays():
    random = np.random.default_rng(0)
    start = random.integers(-50, 500, 30)
    arguments = start, start + random.integers(0, 20, 30), random.random(30) < 0.8, 0, 7, 60
    assert restarts._quiet_slots.python(*arguments).tolist() == restarts._quiet_slots_by_arrays(*arguments).tolist()
