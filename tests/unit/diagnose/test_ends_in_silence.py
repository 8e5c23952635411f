"""A job of which nobody is heard any more: ended where a step may be over, stopped elsewhere."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.ends_in_silence import ends_in_silence
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES

MS = 1_000_000
PERIOD = 1_000 * MS
LAST = 10_000 * MS

AT_A_REST = LastState(
    last_ns=LAST,
    sent_ns=np.full(4, float(LAST)),
    pause_ns=np.full(4, 20.0 * MS),
    spread_ns=np.full(4, 1.0 * MS),
    longest_ns=np.full(4, 20.0 * MS),
    lag=np.zeros(4),
    lag_spread=np.zeros(4),
    heard_ns=np.full(4, LAST),
    addressed_ns=np.full(4, LAST),
    rest_ns=20.0 * MS,
    most_rest_ns=20.0 * MS,
    longest_rest_ns=400.0 * MS,
    exact=True,
    rests=3.0,
    alike=1.0,
    apart=0.0,
)
"""All four rest for a fiftieth of a step where the clock sees no end, at one of three rests of a step."""

NOBODY = np.zeros(4, dtype=np.bool_)
NOT_ALL = np.array([True, True, False, False])
IN_FLOW = replace(AT_A_REST, rest_ns=0.0, apart=1.0)


def test_all_that_fall_silent_after_whole_steps_have_ended_though_some_seem_overdue():
    assert ends_in_silence(replace(IN_FLOW, after_whole_steps=True), NOT_ALL, PERIOD)
    assert ends_in_silence(replace(IN_FLOW, together=True), NOT_ALL, PERIOD)
    assert not ends_in_silence(IN_FLOW, NOT_ALL, PERIOD)


def test_who_stands_in_the_middle_of_a_message_has_not_ended():
    pause = np.array([0.0, 20.0, 20.0, 20.0]) * MS
    assert not ends_in_silence(replace(IN_FLOW, after_whole_steps=True, pause_ns=pause), NOT_ALL, PERIOD)
    earlier = replace(IN_FLOW, after_whole_steps=True, pause_ns=pause, sent_ns=LAST - np.array([5.0, 0, 0, 0]) * MS)
    assert ends_in_silence(earlier, NOBODY, PERIOD), "it neither spoke last nor is it overdue"


def test_one_word_after_the_last_message_is_a_sign_that_something_stopped_them():
    heard = np.array([LAST, LAST, LAST, LAST + 40 * MS])
    assert not ends_in_silence(replace(IN_FLOW, after_whole_steps=True, heard_ns=heard), NOT_ALL, PERIOD)


@pytest.mark.parametrize(("rest_ms", "rests", "ended"), [(20, 3, True), (20, 11, False), (150, 3, False)])
def test_a_short_rest_that_has_few_like_it_is_an_end(rest_ms, rests, ended):
    state = replace(AT_A_REST, rest_ns=rest_ms * float(MS), rests=float(rests))
    assert ends_in_silence(state, NOBODY, PERIOD) is ended


def test_the_more_rests_are_alike_the_less_likely_steps_end_at_one_of_them():
    assert ends_in_silence(replace(AT_A_REST, alike=2.0), NOBODY, PERIOD)
    assert not ends_in_silence(replace(AT_A_REST, alike=5.0), NOBODY, PERIOD)


def test_a_word_that_comes_at_any_time_is_no_sign():
    heard = np.array([LAST, LAST, LAST, LAST + 40 * MS])
    watched = replace(IN_FLOW, after_whole_steps=True, heard_ns=heard, by_chance=0.5)
    assert ends_in_silence(watched, NOBODY, PERIOD)
    assert not ends_in_silence(watched, NOT_ALL, PERIOD), "one that was missed tells more than words by chance"
    assert not ends_in_silence(replace(watched, heard_ns=np.full(4, LAST + 40 * MS), by_chance=0.1), NOBODY, PERIOD)


def test_where_bytes_do_not_tell_the_clock_does_if_nobody_was_due():
    varying = replace(IN_FLOW, exact=False)
    assert ends_in_silence(varying, NOBODY, PERIOD, whole_steps=True)
    assert not ends_in_silence(varying, NOBODY, PERIOD)
    assert not ends_in_silence(varying, NOT_ALL, PERIOD, whole_steps=True)


def test_where_one_is_missed_or_ahead_of_the_others_they_do_not_rest():
    assert not ends_in_silence(AT_A_REST, NOT_ALL, PERIOD)
    assert not ends_in_silence(replace(AT_A_REST, apart=2.0 * RULES.endings.level), NOBODY, PERIOD)
