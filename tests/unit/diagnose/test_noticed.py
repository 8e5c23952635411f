"""Who died, by who noticed it first."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.last_state import LastState
from llmprism.diagnose.noticed import next_to_all_that_noticed
from llmprism.model import Job
from unit.builders import MS, Flow, transfer_table

NAMES = "abcdef"
STEP = 100 * MS
STEPS = 8
LAST = STEPS * STEP


def word(name, at_ms, size=36, to="a"):
    return Flow(name, to, LAST + at_ms * MS, LAST + at_ms * MS + 1000, size)


def stopped(*words, size=lambda step, k: 60):
    """A ring of six that sends once per step, each with a word before; then `words`, after the last message."""
    flows = []
    for step in range(STEPS):
        at = (step + 1) * STEP - MS
        flows += [Flow(name, NAMES[(k + 1) % 6], at, at + MS, 4_000_000) for k, name in enumerate(NAMES)]
        flows += [Flow(name, "a", at - 50 * MS, at - 50 * MS + 1000, size(step, k)) for k, name in enumerate("bcdef")]
    job = Job("job", tuple(range(6)), (), 1.0, transfer_table([*flows, *words]))
    heard = [max([LAST, *(flow.end_ns for flow in words if flow.src == name)]) for name in NAMES]
    known, no = np.zeros(6), np.zeros(6, dtype=np.bool_)
    state = LastState(
        LAST, np.full(6, float(LAST)), known, known, known, known, known, np.array(heard), np.full(6, LAST), 0.0, 0.0,
        0.0, exact=True, announced=no, as_usual=no,
    )  # fmt: skip
    return job, state


def named(*words, **usual):
    row = next_to_all_that_noticed(*stopped(*words, **usual), STEP, LAST + 60 * STEP)
    return NAMES[row] if row >= 0 else None


def test_the_silent_one_between_two_that_notice_has_died():
    assert named(word("d", 20), word("b", 90)) == "c"
    assert named(word("d", 20)) is None, "c or e"


def test_the_header_of_a_message_that_never_follows_is_a_word_too():
    assert named(word("b", 5, 4, to="c"), word("a", 40, to="b")) == "c"


def test_those_that_notice_later_that_the_first_have_left_do_not_count():
    assert named(word("d", 20), word("b", 90), word("f", 120)) == "c"


@pytest.mark.parametrize("size", [lambda step, _: 36 if step == 0 else 60, lambda step, k: 40 + 8 * step + k])
def test_words_of_usual_sizes_or_where_sizes_are_always_new_say_nothing(size):
    assert named(word("d", 20), word("b", 90), size=size) is None


def test_heartbeats_and_what_is_said_much_later_say_nothing():
    beats = [word(name, at) for name in "bd" for at in (20, 1020)]
    assert named(*beats) is None
    assert named(word("d", 20), word("b", 5000)) is None


def test_where_messages_are_announced_words_of_new_sizes_are_not_the_first():
    job, state = stopped(word("d", 20), word("b", 90))
    announced = replace(state, announced=np.array([True, *[False] * 5]))
    assert next_to_all_that_noticed(job, announced, STEP, LAST + 60 * STEP) == -1
