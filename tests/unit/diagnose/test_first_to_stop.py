"""Who stopped first: due, silent and no longer written to."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.endings import Ending, _surely_first
from llmprism.diagnose.first_to_stop import (
    due_with,
    elsewhere,
    first_to_owe,
    heard_again,
    may_be_to_blame,
    noticed_a_death,
    overdue_first,
    silent_as_never_before,
    silent_first,
    some_are_gone,
    written_to_in_vain,
)
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES
from llmprism.model.job import Job, JobState
from unit.builders import Flow, transfer_table

MS = 1_000_000
PERIOD = 400 * MS
LAST = 10_000 * MS


def state(*, sent, pause, heard, addressed, lag=None):
    """Times in milliseconds, against the last message of the job."""
    count = len(sent)
    return LastState(
        last_ns=LAST,
        sent_ns=LAST + MS * np.array(sent, dtype=np.float64),
        pause_ns=MS * np.array(pause, dtype=np.float64),
        spread_ns=np.full(count, 4.0 * MS),
        longest_ns=MS * np.array(pause, dtype=np.float64),
        lag=np.zeros(count) if lag is None else np.array(lag),
        lag_spread=np.zeros(count),
        heard_ns=(LAST + MS * np.array(heard)).astype(np.int64),
        addressed_ns=(LAST + MS * np.array(addressed)).astype(np.int64),
        rest_ns=0.0,
        most_rest_ns=0.0,
        longest_rest_ns=100.0 * MS,
        exact=True,
    )


def hang(**changes):
    """Members 1 and 2 were due in the same moment; 2 has said since that it waits, 1 has not."""
    usual = {
        "sent": [0, -64, -64, 0],
        "pause": [0, 58, 58, 0],
        "heard": [0, -64, -3, 0],
        "addressed": [0, -2, 0, 0],
        "lag": [-0.03, 0.0, 0.0, 0.0],
    }
    return state(**{**usual, **changes})


def test_who_only_says_what_it_says_there_in_other_steps_has_noticed_nothing():
    one = hang(heard=[3, -64, -3, 5])
    assert heard_again(one, RULES).tolist() == [True, False, False, True]
    usual = replace(one, as_usual=np.array([True, False, False, False]))
    assert heard_again(usual, RULES).tolist() == [False, False, False, True]


def test_who_announces_its_next_message_when_it_is_due_is_not_to_blame():
    one = hang()
    assert np.isfinite(may_be_to_blame(one, PERIOD, RULES)).tolist() == [False, True, True, True]
    announced = replace(one, announced=np.array([False, False, True, True]))
    assert np.isfinite(may_be_to_blame(announced, PERIOD, RULES)).tolist() == [False, True, False, False]


def test_one_that_stops_in_the_middle_of_a_message_was_let_down_by_the_one_that_it_got_it_from():
    """Member 1 passes on what it gets from 2, which stopped before it and is not due yet."""
    one = state(sent=[0, -125, -126, 0], pause=[0, 0, 169, 0], heard=[0, -125, -126, 0], addressed=[0, -15, -106, 0])
    assert overdue_first(one, PERIOD, RULES) == 1
    got = np.array([3, 2, 3, 0], dtype=np.int64)
    assert overdue_first(replace(one, supplier=got), PERIOD, RULES) == 2
    written_to = replace(one, supplier=got, addressed_ns=one.addressed_ns + np.array([0, 0, 100 * MS, 0]))
    assert overdue_first(written_to, PERIOD, RULES) == 1, "it still takes what it is sent"


def test_nobody_is_due_where_nothing_is_known_of_anybody():
    unknown = state(sent=[np.nan] * 3, pause=[np.nan] * 3, heard=[0] * 3, addressed=[0] * 3)
    assert overdue_first(unknown, PERIOD, RULES) == -1


def test_who_is_held_up_in_a_message_waits_for_one_that_has_not_begun():
    """0 writes to 1 until the last moment; 1 was due a millisecond later, and has not sent anything for long."""
    held_up = state(sent=[0, -60, 0], pause=[0, 61, 120], heard=[0, -60, 0], addressed=[-30, 0, 0])
    assert overdue_first(held_up, PERIOD, RULES) == 1
    both_begun = state(sent=[0, 0, 0], pause=[0, 0.5, 120], heard=[0, 0, 0], addressed=[-30, 0, 0])
    assert overdue_first(both_begun, PERIOD, RULES) == 0


def test_who_is_silent_for_longer_than_ever_while_others_go_on_needs_no_clock():
    """Both send every 100 ms and pause once for 300; then the second one is silent for 700 ms."""
    own = [*range(0, 1_000, 100), *range(1_300, 2_000, 100)]
    flows = [Flow("a", "b", at * MS, at * MS + 1_000, 1_000_000) for at in [*own, *range(2_000, 2_601, 100)]]
    flows += [Flow("b", "a", at * MS, at * MS + 1_000, 1_000_000) for at in own]
    job = Job("job", (0, 1), (), 1.0, transfer_table(flows))
    beyond = silent_as_never_before(job, 2_600 * MS + 1_000)
    assert beyond[0] < 0.0 < beyond[1] < 350 * MS
    assert (silent_as_never_before(job, 1_900 * MS + 1_000) < 0.0).all(), "before that nobody was"


def test_who_is_heard_is_alive_where_nobody_says_more_than_usual():
    one = replace(hang(heard=[3, -64, -3, 5]), as_usual=np.array([True, False, False, True]))
    assert heard_again(replace(one, announced=np.zeros(4, dtype=np.bool_)), RULES).tolist() == [
        True,
        False,
        False,
        True,
    ]
    announced = replace(one, announced=np.array([False, False, False, True]))
    assert heard_again(announced, RULES).tolist() == [True, False, False, False]


def test_one_that_lacks_what_it_needs_is_to_blame_only_where_a_death_was_noticed():
    """Members 2 and 3 are heard again: when their next message is due, or long after it."""
    given = {"sent": [-100, -100, 0, -40], "pause": [145, 103, 22, 64], "lag": [-0.16, 0.0, -0.08, -0.14]}
    waiting = state(**given, heard=[-84, -80, 17, 23], addressed=[-100, 17, 23, -40])
    assert np.flatnonzero(np.isfinite(may_be_to_blame(waiting, PERIOD, RULES))).tolist() == [1]
    noticed = state(**given, heard=[-84, -80, 200, 200], addressed=[-100, 17, 23, -40])
    assert np.flatnonzero(np.isfinite(may_be_to_blame(noticed, PERIOD, RULES))).tolist() == [0, 1]


def test_who_is_heard_again_is_chance_where_as_many_are_heard_at_any_time():
    one = state(sent=[-60] * 8, pause=[50] * 8, heard=[5, -60, 5, 5, -60, 5, 5, -60], addressed=[0] * 8)
    assert heard_again(replace(one, by_chance=0.1), RULES).sum() == 5
    chance = replace(one, by_chance=0.6)
    assert not heard_again(chance, RULES).any()
    assert heard_again(replace(chance, talks=True), RULES).sum() == 5, "what each one says tells"
    assert np.isfinite(may_be_to_blame(chance, PERIOD, RULES)).all(), "and nobody is excused by it"


def test_two_are_due_at_the_same_time_only_within_what_their_pauses_vary_by():
    """1 was due 5 ms before 0; 0 was last written to before it."""
    silent = state(sent=[-60, -60, 0], pause=[20, 15, 0], heard=[-60, -60, 0], addressed=[-60, -50, 0])
    one = replace(silent, talks=True)
    assert overdue_first(one, PERIOD, RULES) == 0, "pauses vary by 4 ms"
    assert overdue_first(silent, PERIOD, RULES) == 1, "who happens to be written to last is chance"
    steady = replace(one, spread_ns=np.full(3, 0.1 * MS))
    assert overdue_first(steady, PERIOD, RULES) == 1
    assert not due_with(steady, 1, PERIOD, RULES).any()
    assert due_with(one, 1, PERIOD, RULES).any()


def test_when_a_living_member_was_last_heard_decides_nothing():
    one = state(sent=[-60, -60, 0], pause=[20, 20, 0], heard=[900, 700, 800], addressed=[-55, -55, 0])
    assert overdue_first(one, PERIOD, RULES) == 0, "the first of both: not the one that talked less after the end"


def test_who_lacks_something_but_was_due_before_all_others_waits_for_nobody():
    one = state(sent=[-70, -60, 0], pause=[15, 30, 0], heard=[-70, -60, 0], addressed=[0, 0, 0], lag=[-0.02, 0.0, 0.0])
    assert overdue_first(one, PERIOD, RULES) == 0
    later = replace(one, pause_ns=MS * np.array([45.0, 30.0, 0.0]))
    assert overdue_first(later, PERIOD, RULES) == 1, "it was due after the other"


def test_one_that_had_not_begun_its_message_is_to_blame_also_where_it_was_due_first_and_all_are_heard():
    """Two others stopped in the middle of theirs within its jitter, and pings go on."""
    ending = state(
        sent=[-145, 0, -145, -225], pause=[0, 0, 0, 78], heard=[900] * 4, addressed=[900] * 4, lag=[0, 0, 0, 0.1]
    )
    assert overdue_first(ending, PERIOD, RULES) == 3
    later = replace(ending, pause_ns=MS * np.array([40.0, 300.0, 38.0, 117.0]))
    assert overdue_first(later, PERIOD, RULES) == 3, "of several that were due within their jitter the first"


def test_a_rank_that_cannot_be_reached_is_written_to_for_long_and_a_dead_one_is_not():
    """A transport sends again, after pauses that double, to an address that does not answer."""
    silence = 18_000 * MS
    lost, died = hang(addressed=[0, 13_100, 0, 0]), hang(addressed=[0, 200, 0, 0])
    answers = hang(addressed=[0, 13_100, 0, 0], heard=[0, 13_000, -3, 0])
    assert [written_to_in_vain(one, 1, silence, RULES) for one in (lost, died, answers)] == [True, False, False]
    assert not written_to_in_vain(lost, -1, silence, RULES)


def test_ranks_that_wait_for_one_that_hangs_talk_on_and_those_that_notice_a_death_leave():
    silence, end = 18_000 * MS, 17_900
    waiting = hang(heard=[end] * 4, addressed=[end] * 4)
    unreachable = hang(heard=[end, -64, end, end], addressed=[end, 13_100, end, end])
    left = hang(heard=[end, -64, end, 0], addressed=[end, -2, end, 0])
    most_left = hang(heard=[end, -64, -3, 0], addressed=[end, -2, 0, 0])
    found = [some_are_gone(one, silence, RULES) for one in (waiting, unreachable, left, most_left)]
    assert found == [False, False, True, False]


def test_members_of_one_place_are_not_elsewhere_and_unknown_places_are():
    assert elsewhere(0, ("x", "x", "y", ""), 4).tolist() == [False, False, True, True]
    assert elsewhere(0, (), 2).all()


def test_where_bytes_do_not_tell_pauses_may_vary_by_more_than_a_small_part_of_a_step():
    due_later = hang(sent=[0, -64, -50, 0], heard=[0, -64, -50, 0], addressed=[0, -2, -2, 0])
    assert not due_with(due_later, 1, PERIOD, RULES)[2], "14 ms are more than 0.015 steps"
    assert due_with(replace(due_later, exact=False), 1, PERIOD, RULES)[2]


def test_who_announces_its_next_message_is_alive_however_early_it_was_due():
    early = hang(sent=[0, -64, -64, -100], pause=[0, 58, 58, 40], heard=[0, -64, -3, 0])
    assert overdue_first(early, PERIOD, RULES) == 3
    announced = replace(early, announced=np.array([False, False, False, True]), as_usual=np.zeros(4, dtype=np.bool_))
    assert overdue_first(announced, PERIOD, RULES) == 1


@pytest.mark.parametrize(("announced", "noticed"), [([0, 1], False), ([0], True)])
def test_who_has_what_it_needs_and_announces_nothing_is_gone_however_much_its_pauses_vary(announced, noticed):
    """Member 1 was due first; 0 has announced its next message, and 2 pauses for 3 ms, give or take 12."""
    said = np.isin(np.arange(3), [0 if row == 0 else 2 for row in announced])
    stood = replace(
        state(sent=[-60, -100, 0], pause=[50, 30, 3], heard=[-10, -90, 0], addressed=[0, 0, 0]), announced=said
    )
    assert noticed_a_death(stood, 1, PERIOD, RULES) is noticed


def test_where_bytes_do_not_tell_the_one_that_was_silent_for_longer_than_ever_first_is_to_blame():
    varies = replace(hang(), exact=False)
    silent = np.array([10.0, 20.0, 90.0, -50.0]) * MS
    assert silent_first(varies, silent, PERIOD, RULES) == 2
    assert silent_first(varies, silent - 60 * MS, PERIOD, RULES) == -1, "not for much longer than ever"
    assert silent_first(varies, silent + np.array([0, 40, 0, 0]) * MS, PERIOD, RULES) == -1, "another one as well"
    assert silent_first(hang(), silent, PERIOD, RULES) == -1, "it is known when it was due"
    unknown = hang(sent=[0, -64, np.nan, 0])
    assert silent_first(unknown, silent, PERIOD, RULES) == 2, "but not of this one"
    heard = replace(varies, heard_ns=varies.heard_ns + np.array([0, 0, 900, 0]) * MS)
    assert silent_first(heard, silent, PERIOD, RULES) == -1, "it lives, and of the others nobody knows"


def ring_of_three(**changes):
    """0 sends to 1, 1 to 2, 2 to 0. Member 0 stopped: 1 and 2 have passed on what they got, 0 has not. All were due in
    the same moment, and 1 was neither heard nor written to for longest."""
    ring = state(sent=[-80, -79, -78, 0], pause=[2, 2, 2, 2], heard=[-80, -79, 30, 30], addressed=[-78, -80, 30, 30])
    return replace(
        ring, supplied_ns=(LAST + MS * np.array([-78, -80, -79, -1])).astype(np.int64), talks=True, **changes
    )


def test_who_has_not_passed_on_what_it_got_stopped_first():
    assert first_to_owe(ring_of_three(), PERIOD, RULES) == 0
    assert overdue_first(ring_of_three(), PERIOD, RULES) == 0
    passed_on = ring_of_three(sent_ns=LAST + MS * np.array([-77.0, -79.0, -78.0, 0.0]))
    assert first_to_owe(passed_on, PERIOD, RULES) == -1
    assert overdue_first(passed_on, PERIOD, RULES) == 1


def test_who_rests_after_what_it_got_owes_nothing():
    assert first_to_owe(ring_of_three(pause_ns=np.full(4, 70.0 * MS)), PERIOD, RULES) == -1


def test_of_two_that_owe_messages_since_the_same_moment_neither_is_the_first():
    got = (LAST + MS * np.array([-78, -77, -79, -1])).astype(np.int64)
    assert first_to_owe(replace(ring_of_three(), supplied_ns=got), PERIOD, RULES) == -1


@pytest.mark.parametrize(
    ("places", "exact", "overdue_ms", "named"),
    [
        (("x", "x", "y"), True, 4, True),
        (("x", "y", "y"), True, 4, False),
        (("x", "y", "y"), True, 6, True),
        (("x", "x", "y"), False, 4, True),
        (("x", "y", "y"), False, 6, False),
    ],
)
def test_who_was_due_with_others_of_its_place_was_due_first_whether_bytes_tell_or_not(places, exact, overdue_ms, named):
    """Two were due in the same moment. If they move as one, either stands for both; else one is named only after
    others went on for a twentieth of a step, and never where bytes do not tell when it was due."""
    state = LastState(
        last_ns=LAST,
        sent_ns=LAST - MS * np.array([30.0 + overdue_ms, 30.0 + overdue_ms, 0.0]),
        pause_ns=MS * np.full(3, 30.0),
        spread_ns=np.full(3, 0.1 * MS),
        longest_ns=MS * np.full(3, 30.0),
        lag=np.zeros(3),
        lag_spread=np.zeros(3),
        heard_ns=np.full(3, LAST),
        addressed_ns=np.full(3, LAST),
        rest_ns=0.0,
        most_rest_ns=0.0,
        longest_rest_ns=30.0 * MS,
        exact=exact,
    )
    running = Ending(JobState.RUNNING, 20, 0, LAST, None, 10_000 * MS, LAST, 100.0 * MS)
    assert _surely_first(state, 0, places, running, RULES) is named
