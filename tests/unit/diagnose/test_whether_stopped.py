"""How likely it is that a job broke off, by signs that need no clock."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.ending import Ending
from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.whether_stopped import chance_of_a_stop, signs_of_whether
from llmprism.diagnose.who_stopped import Suspects
from llmprism.model import Job, JobState
from unit.builders import MS, SECOND, Flow, transfer_table

LAST = 100 * SECOND
COUNT = 4
RUNNING = Ending(JobState.RUNNING, 20, LAST - SECOND, LAST, None, 10 * SECOND, LAST, float(SECOND))
NOBODY = Suspects(0, 0.25, (), missed=False)
NAMES = "abcd"
WORDS = [
    Flow(a, b, step * SECOND, step * SECOND + MS, 60) for step in range(20) for a in NAMES for b in NAMES if a != b
]

STILL = LastState(
    last_ns=LAST, sent_ns=np.full(COUNT, float(LAST)), pause_ns=np.full(COUNT, 20.0 * MS), spread_ns=np.zeros(COUNT),
    longest_ns=np.full(COUNT, 20.0 * MS), lag=np.zeros(COUNT), lag_spread=np.zeros(COUNT),
    heard_ns=np.full(COUNT, LAST), addressed_ns=np.full(COUNT, LAST), rest_ns=0.0, most_rest_ns=0.0,
    longest_rest_ns=50.0 * MS, exact=True, apart=1.0, usually_apart=1.0,
)  # fmt: skip
"""All stop in the same moment, as far apart as ever, and nobody is heard any more."""


def chance(state=STILL, running=RUNNING, suspects=NOBODY, words=(), singled_out=False):
    job = Job(
        "job", tuple(range(COUNT)), (), 1.0, transfer_table([*words, *(Flow(a, "a", 0, MS, 10**6) for a in "bcd")])
    )
    return chance_of_a_stop(signs_of_whether(running, job, state, suspects, singled_out=singled_out))


def heard_again(*rows, addressed=()):
    at = [LAST + SECOND if row in rows else LAST for row in range(COUNT)]
    to = [LAST + SECOND if row in addressed else LAST for row in range(COUNT)]
    return replace(STILL, heard_ns=np.array(at), addressed_ns=np.array(to), by_chance=0.0)


def test_a_job_whose_words_all_end_with_its_last_message_has_rather_ended():
    assert chance(words=WORDS) < chance() - 0.3
    assert chance(heard_again(1, 2), words=WORDS) == pytest.approx(chance()), "some are heard"


def test_members_that_stand_together_were_not_stopped_anywhere():
    assert chance(replace(STILL, apart=0.0)) < chance() < chance(replace(STILL, apart=3.0))
    lockstep = replace(STILL, usually_apart=0.1)
    assert chance(replace(lockstep, apart=0.0)) == chance(replace(lockstep, apart=3.0)), "they always do"


def test_one_that_was_missed_makes_a_stop_likely():
    assert chance(suspects=Suspects(1, 0.9, (), missed=True), words=WORDS) > RULES.whether_stopped.broken
    assert chance(suspects=Suspects(1, 0.9, (), missed=False), words=WORDS) < RULES.whether_stopped.broken


def test_words_single_out_the_only_one_that_is_silent_and_not_written_to():
    assert chance(heard_again(1, 2, 3)) == pytest.approx(chance(singled_out=True))
    assert chance(heard_again(1, 2, 3, addressed=(0,))) == pytest.approx(chance())
    assert chance(heard_again(2, 3)) == pytest.approx(chance())


def test_the_longer_the_silence_the_less_the_next_message_is_only_late():
    assert chance(running=replace(RUNNING, silence_ns=SECOND)) < chance()
