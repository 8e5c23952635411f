"""Who stopped first, by all signs together."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.missing_order import MissingOrder
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.usual_rest import WholeJob
from llmprism.diagnose.who_stopped import chances_of, signs_of_stop, who_stopped
from llmprism.model.job import Job
from unit.builders import transfer_table

MS = 1_000_000
PERIOD = 400 * MS
LAST = 10_000 * MS
COUNT = 4
STILL = {
    "sent": [0.0] * COUNT,
    "pause": [30.0] * COUNT,
    "heard": [0.0] * COUNT,
    "addressed": [0.0] * COUNT,
    "lag": [0.0] * COUNT,
}
"""All stop in the same moment; nothing tells them apart. Times in milliseconds, against the last message of the job."""


NOTHING = WholeJob(np.zeros(0, dtype=np.bool_), 0.0, np.zeros(0), np.zeros(0), np.zeros(0))
"""No messages, so that the order of those that are missing is not known."""

SIGNS = 12


def stopped(silent=(0.0,) * COUNT, places=(), announced=(), **changes):
    """What is said of four members that stopped; `changes` of `STILL`."""
    at = {**STILL, **changes}
    state = LastState(
        last_ns=LAST,
        sent_ns=LAST + MS * np.array(at["sent"]),
        pause_ns=MS * np.array(at["pause"]),
        spread_ns=np.full(COUNT, 1.0 * MS),
        longest_ns=MS * np.array(at["pause"]),
        lag=np.array(at["lag"]),
        lag_spread=np.zeros(COUNT),
        heard_ns=(LAST + MS * np.array(at["heard"])).astype(np.int64),
        addressed_ns=(LAST + MS * np.array(at["addressed"])).astype(np.int64),
        rest_ns=0.0,
        most_rest_ns=0.0,
        longest_rest_ns=100.0 * MS,
        exact=True,
    )
    if announced:
        state = replace(state, announced=np.array(announced), as_usual=np.zeros(COUNT, dtype=np.bool_))
    job = Job("job", tuple(range(COUNT)), (), 1.0, transfer_table([]), places=places)
    return who_stopped(job, NOTHING, state, MS * np.array(silent), PERIOD)


def test_where_nothing_tells_them_apart_each_is_as_likely():
    suspects = stopped()
    assert suspects.sure == pytest.approx(1 / COUNT)
    assert suspects.sure < RULES.who_stopped.named


@pytest.mark.parametrize(
    "sign",
    [
        {"sent": [0.0, -60.0, 0.0, 0.0]},  # due before all others
        {"heard": [900.0, 0.0, 900.0, 900.0]},  # alone not heard again
        {"lag": [-0.1, 0.0, -0.1, -0.1]},  # the others wait for something
        {"pause": [0.0, 30.0, 0.0, 0.0], "sent": [0.0, -30.0, 0.0, 0.0]},  # they stand in a message, and it does not
        {"heard": [0.0, -200.0, 0.0, 0.0], "addressed": [0.0, -200.0, 0.0, 0.0]},  # long neither heard nor written to
        {"silent": (0.0, 300.0, 0.0, 0.0)},  # silent for longer than ever
        {"announced": (True, False, True, True), "heard": [1.5, 0.0, 1.5, 1.5]},  # the others announce their message
    ],
)
def test_each_sign_alone_points_at_the_one_that_has_it(sign):
    suspects = stopped(**sign)
    assert suspects.row == 1
    assert suspects.sure > 1.3 / COUNT


def test_what_all_signs_say_together_is_surer_than_what_one_says():
    due, silent = {"sent": [0.0, -2.0, 0.0, 0.0]}, {"silent": (0.0, 60.0, 0.0, 0.0)}
    assert stopped(**due, **silent).sure > max(stopped(**due).sure, stopped(**silent).sure)


def test_those_of_one_place_count_as_one_and_one_of_them_is_listed():
    places = ("a", "a", "b", "c")
    suspects = stopped(places=places)
    assert suspects.sure == pytest.approx(2 / COUNT)
    assert [places[row] for row, _ in suspects.likeliest] == ["a", "b", "c"]
    assert stopped(places=("", "", "b", "c")).sure == pytest.approx(1 / COUNT), "what is not known is no place"


def test_no_chance_is_said_to_be_certain():
    one = stopped(silent=(0.0, 400.0, 0.0, 0.0), heard=[900.0, 0.0, 900.0, 900.0], sent=[0.0, -200.0, 0.0, 0.0])
    assert one.sure == RULES.who_stopped.never_surer


def test_one_whose_due_time_is_unknown_is_no_more_likely_than_one_that_was_due_late():
    unknown = stopped(sent=[0.0, np.nan, 0.0, 0.0], pause=[30.0, np.nan, 30.0, 30.0])
    assert unknown.row != 1
    nobody = stopped(sent=[np.nan] * COUNT, pause=[np.nan] * COUNT)
    assert nobody.sure == pytest.approx(1 / COUNT)


def test_chances_add_up_to_one_and_signs_end_where_the_weights_were_fitted():
    rule = RULES.who_stopped
    signs = np.zeros((3, SIGNS))
    signs[1, 7] = rule.most_silent
    assert chances_of(signs).sum() == pytest.approx(1.0)
    assert int(np.argmax(chances_of(signs))) == 1


@pytest.mark.parametrize(("talks", "words", "sign"), [(False, True, 8), (False, False, 9), (True, True, 10)])
def test_words_count_by_whether_the_transport_talks_with_every_message(talks, words, sign):
    state = replace(at_rest(), talks=talks, words=words, heard_ns=LAST - MS * np.array([0, 200, 0, 0]))
    state = replace(state, addressed_ns=state.heard_ns)
    signs = signs_of_stop(state, unknown_order(), np.zeros(COUNT), PERIOD)
    assert signs[0, sign] > signs[1, sign] == 0.0
    assert all((signs[:, other] == 0.0).all() for other in {8, 9, 10} - {sign})


def test_the_one_whose_missing_message_was_first_in_the_steps_before_is_likelier():
    first = MS * np.array([[30.0, 40.0], [0.0, 0.0], [10.0, 12.0], [np.inf, np.inf]])
    signs = signs_of_stop(at_rest(), MissingOrder(first, first), np.zeros(COUNT), PERIOD)
    assert signs[:, 3].tolist() == [0.0, 1.0, 0.0, 0.0]
    assert signs[1, 4] == 0.0 < signs[2, 4] < signs[0, 4] < signs[3, 4]
    assert int(np.argmax(chances_of(signs))) == 1


def test_nobody_is_to_blame_where_none_was_due_when_all_stopped():
    suspects = stopped(silent=(0.0, 400.0, 0.0, 0.0), sent=[0.0, -5.0, 0.0, 0.0])
    assert suspects.row == 1
    assert suspects.sure >= RULES.who_stopped.named
    assert (suspects.missed, suspects.culprit()) == (False, -1), "its next message was due 25 ms later"
    assert stopped(silent=(0.0, 400.0, 0.0, 0.0), sent=[0.0, -35.0, 0.0, 0.0]).culprit() == 1


def at_rest():
    moments = (np.full(COUNT, float(LAST)) for _ in range(4))
    words = (np.full(COUNT, LAST) for _ in range(2))
    return LastState(LAST, *moments, np.zeros(COUNT), np.zeros(COUNT), *words, 0.0, 0.0, 0.0, exact=True)


def unknown_order():
    return MissingOrder(np.zeros((COUNT, 0)), np.zeros((COUNT, 0)))


def test_a_member_that_never_sent_a_second_message_was_not_silent_for_longer_than_ever():
    silent = np.array([-np.inf, 0.0, 0.0, 0.0])
    assert signs_of_stop(at_rest(), unknown_order(), silent, PERIOD)[0, 7] == RULES.who_stopped.least_silent
