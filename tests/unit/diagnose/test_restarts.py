"""Jobs that broke off inside the window and came back, against those that only paused."""

import numpy as np

from llmprism.diagnose.restarts import inner_endings
from llmprism.model import Events, Steps, Timeline
from unit.builders import MS, SECOND, Flow
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


def paused(cut, small=()):
    """A job that stands still for 2 s after `cut` rounds of step 10 and goes on with the others."""
    shift = 2 * SECOND
    flows = [flow for step in range(STEPS) for flow in ring(step, shift=shift if step > 10 else 0) if step != 10]
    flows += [*ring(10, ROUNDS[:cut]), *ring(10, ROUNDS[cut:], shift=shift), *small]
    return inner_endings(*job_of(flows, 10, shift))


def test_a_job_that_goes_on_where_it_had_stopped_was_never_away_however_much_its_ranks_talk_then():
    gone, back = 10 * PERIOD + ROUNDS[2] * MS, 10 * PERIOD + 2 * SECOND
    often, seldom = talk(0, 5 * PERIOD, 10 * MS), talk(5 * PERIOD, gone, 100 * MS)
    small = [*often, *seldom, *talk(back + 60 * MS, back + 300 * MS, 10 * MS)]
    assert paused(2, small) == [], "it takes the step up in the middle"
    assert away(2, 2.0, small), "it begins the step again"


def test_a_job_without_steps_was_never_away():
    job, _ = job_of(WHOLE)
    none = Timeline(Steps.empty(), np.zeros((3, 0), dtype=np.int64), Events.empty())
    assert inner_endings(job, none) == []


def test_a_burst_of_connections_is_seen_among_many_small_messages():
    """Twenty messages in 100 ms are more than ever in as long a time, and few among those of seconds."""
    gone, back = 10 * PERIOD + ROUNDS[0] * MS, 10 * PERIOD + ROUNDS[0] * MS + 6 * SECOND
    before, after = talk(0, gone, 40 * MS), talk(back + 100 * MS, back + 2 * SECOND, 40 * MS)
    anew = talk(back - 50 * MS, back + 50 * MS, 5 * MS)
    assert [one.resumed_ns for one in away(0, 6.0, [*before, *anew, *after])] == [back]
    assert away(0, 6.0, [*before, *after]) == [], "an evaluation"


def test_pings_that_outlive_a_job_do_not_hide_that_its_own_messages_stop():
    gone, back = 10 * PERIOD + ROUNDS[0] * MS, 10 * PERIOD + ROUNDS[0] * MS + 6 * SECOND
    pings = [flow._replace(bytes=84) for flow in talk(7 * MS, back + 2 * SECOND, 20 * MS)]
    before, anew = talk(0, gone, 100 * MS), talk(back - 50 * MS, back + 50 * MS, 5 * MS)
    assert [one.resumed_ns for one in away(0, 6.0, [*pings, *before, *anew])] == [back]
    assert away(0, 6.0, [*pings, *before, *talk(gone, back, 100 * MS), *anew]) == [], (
        "its ranks are heard all the while"
    )
