"""Silences of a whole job: where in a step they lie, and whether the job rests there in every step."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import silences
from llmprism.diagnose.silences import long_silences
from llmprism.model import Steps
from llmprism.model.job import Job
from unit.builders import MS, SECOND, Flow, transfer_table

STEPS = 20
PERIOD = 100 * MS
SIZE = 1_000_000
BURSTS = (10, 20, 50, 60)
"""Milliseconds after the begin of a step at which all send, for 8 ms: the job rests for 22 ms after the second burst
and for 42 ms after the last one."""


def silent(after_burst, seconds, in_step=12, phase_ms=0, again=(), least=SECOND):
    """The silences of a job that stands still in a step after so many bursts; the clock is off by `phase_ms`."""
    flows, ends, shift = [], [], 0
    for step in range(STEPS):
        for burst, at in enumerate(BURSTS):
            if burst == after_burst and step in (in_step, *again):
                shift += int(seconds * SECOND)
            begin = shift + step * PERIOD + at * MS
            flows += [Flow(a, b, begin, begin + 8 * MS, SIZE) for a, b in ("ab", "ba")]
        ends.append(shift + (step + 1) * PERIOD + phase_ms * MS)
    end = np.array(ends, dtype=np.int64)
    steps = Steps(np.append(phase_ms * MS, end[:-1]).astype(np.int64), end, np.zeros(STEPS, dtype=np.bool_))
    return long_silences(Job("job", (0, 1), (), 1.0, transfer_table(flows)), steps, least)


def test_a_silence_is_compared_with_the_rest_at_the_same_point_of_other_steps():
    (between,) = silent(0, 5.0)
    assert between.usual_ns == pytest.approx(42 * MS)
    assert (between.before, between.length_ns) == (11, 5 * SECOND + 42 * MS)
    assert between.is_new()
    assert not between.in_mid_step(), "an evaluation"
    (inside,) = silent(1, 5.0)
    assert inside.usual_ns == pytest.approx(2 * MS)
    assert inside.in_mid_step()


def test_the_rest_between_two_steps_is_one_though_the_clock_cuts_the_last_message():
    (between,) = silent(0, 5.0, phase_ms=-32.5)
    assert 0.01 < between.point < 0.02
    assert not between.in_mid_step()


def test_bytes_decide_where_the_clock_cuts_steps_at_the_wrong_point():
    """The clock ends its steps after the first burst, where the job goes on after 2 ms: no evaluation is there."""
    (inside,) = silent(1, 5.0, phase_ms=19)
    assert inside.point == pytest.approx(1.0, abs=0.02)
    assert inside.in_mid_step()


def test_time_tells_where_bytes_vary():
    """The clock cuts the last burst: by bytes the job has begun its next step, by time it has hardly."""
    (between,) = silent(0, 5.0, phase_ms=-34)
    cut = replace(between, point=0.2)
    assert 0.0 < cut.since_end < 0.03
    assert cut.in_mid_step()
    assert not replace(cut, spread=0.05).in_mid_step()
    assert not replace(cut, point=0.05).in_mid_step(), "the job rests there as long as anywhere"
    assert replace(cut, point=0.05, usual_ns=0.5 * cut.longest_ns).in_mid_step()
    assert replace(cut, spread=0.05, since_end=0.1).in_mid_step()
    assert not replace(cut, spread=0.05, since_end=0.95, point=0.97).in_mid_step(), "bytes vary by more than is left"
    assert replace(cut, spread=0.005, since_end=0.95, point=0.97).in_mid_step()


def test_bytes_tell_whether_a_job_takes_its_step_up_after_a_silence():
    (inside,) = silent(1, 5.0)
    assert inside.taken_up
    (last,) = silent(1, 5.0, in_step=STEPS - 2)
    assert not last.taken_up, "too few steps after it to know"


@pytest.mark.parametrize(("after_burst", "news"), [(1, True), (2, False)])
def test_a_silence_is_news_sooner_where_the_job_does_not_rest_otherwise(after_burst, news):
    """The job rests for 42 ms in each step. After the first burst it rests for 2 ms, after the second for 22."""
    found = silent(after_burst, 0.1, least=50 * MS)
    assert [one.is_new() for one in found] == [news]


def test_what_a_job_does_twice_is_no_news():
    assert [one.is_new() for one in silent(2, 5.0, again=(5,))] == [False, False]
    assert [one.is_new() for one in silent(2, 0.9, again=())] == []


@pytest.mark.parametrize("seed", range(8))
def test_no_long_silence_is_left_out_by_the_first_look(seed):
    random = np.random.default_rng(seed)
    start = np.sort(random.integers(0, 20_000, 60)) * 1_000
    end = start + random.integers(1, 300_000, 60)
    chosen = random.random(60) < 0.8
    horizon = np.maximum.accumulate(end[chosen])[:-1]
    longest = int((start[chosen][1:] - horizon).max())
    for least in (100_000, 400_000, 1_500_000):
        assert silences._may_be_silent(start, end, chosen, least) or longest <= least


def test_quiet_slots_are_found_alike_in_a_loop_and_by_arrays():
    random = np.random.default_rng(0)
    start = random.integers(-50, 500, 30)
    arguments = start, start + random.integers(0, 20, 30), random.random(30) < 0.8, 0, 7, 60
    assert silences._quiet_slots.python(*arguments).tolist() == silences._quiet_slots_by_arrays(*arguments).tolist()
