"""Words that come with messages, and those that come at any time."""

import numpy as np
import pytest

from llmprism.diagnose.words import come_with_messages
from llmprism.model import Job
from unit.builders import MS, Flow, transfer_table

PERIOD = 400 * MS
STEPS = 8
LAST = STEPS * PERIOD


def job_of(words):
    """In each step `a` and `b` send each other ten messages in the first half, and compute in the second."""
    messages = [
        Flow(one, other, step * PERIOD + n * 20 * MS, step * PERIOD + n * 20 * MS + 4 * MS, 1_000_000)
        for step in range(STEPS)
        for n in range(10)
        for one, other in (("a", "b"), ("b", "a"))
    ]
    return Job("job", (0, 1), (), 1.0, transfer_table([*messages, *words]))


def said_at(moments, source="a", target="b"):
    return [Flow(source, target, int(when), int(when) + 1_000, 60) for when in moments]


ANNOUNCED = said_at([step * PERIOD + n * 20 * MS - 5 * MS for step in range(1, STEPS) for n in range(10)])
AT_ANY_TIME = said_at(np.random.default_rng(3).integers(PERIOD, LAST - PERIOD, 70))


@pytest.mark.parametrize(("words", "together"), [(ANNOUNCED, True), (AT_ANY_TIME, False), ([], False)])
def test_words_that_come_with_messages_are_nearer_to_them_than_chance(words, together):
    assert come_with_messages(job_of(words), 0, LAST) is together


def test_words_to_those_that_one_does_not_train_with_do_not_count():
    """A store is told something before every message, which says nothing about the transport."""
    to_the_store = [flow._replace(src="a", dst="c") for flow in ANNOUNCED]
    assert not come_with_messages(job_of(to_the_store), 0, LAST)
    assert come_with_messages(job_of([*ANNOUNCED, *to_the_store]), 0, LAST)


def test_both_directions_are_one():
    answers = [flow._replace(src="b", dst="a") for flow in ANNOUNCED]
    assert come_with_messages(job_of(answers), 0, LAST)
