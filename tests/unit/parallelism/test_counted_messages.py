"""Messages counted one by one, in units of the usual one."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.counted_messages import counted_messages
from unit.builders import MS, Flow, transfer_table

STEPS, PERIOD = 10, 2000
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * PERIOD * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
RNG = np.random.default_rng(7)


def counts(messages):
    """What is counted for messages that are lists of (begin, end, bytes) in ms per step."""
    flows = [
        Flow("a", "b", (step * PERIOD + begin) * MS, (step * PERIOD + end) * MS, int(size))
        for step in range(STEPS)
        for begin, end, size in messages(step)
    ]
    return list(counted_messages(transfer_table(flows), np.array([0]), CLOCK))


@pytest.mark.parametrize("number", [2, 5, 64])
def test_messages_of_many_lengths_are_counted(number):
    def of_step(_):
        every = 1600 // number
        sizes = 1e6 * RNG.uniform(0.8, 1.2, number)
        return [(100 + every * k, 102 + every * k, size) for k, size in enumerate(sizes)]

    assert counts(of_step)[0] == number


def test_messages_that_follow_each_other_at_once_count_each_and_pieces_once():
    def of_step(step):
        together = [(100, 104, 2e6)] if step % 2 else [(100, 102, 1e6), (150, 152, 1e6)]
        pieces = [(200, 201, 0.4e6), (202, 203, 0.6e6)]
        return [*together, *pieces, *((250 + 50 * k, 252 + 50 * k, 1e6) for k in range(9))]

    assert counts(of_step)[0] == 12


def test_a_long_rest_in_every_step_is_not_that_between_messages():
    """The clock ticks among the passes: gradients are synchronised in the middle of its step."""
    assert counts(lambda _: [(at, at + 1, 1e6) for at in (*range(100, 130, 5), *range(1500, 1530, 5))])[0] == 12


def test_with_two_messages_the_longest_rest_is_the_one_between_them():
    """Both numbers come: seven pieces of either message are as far apart as messages may be."""
    pieces = [(begin + 4 * k, begin + 4 * k + 1, 1e5) for begin in (100, 900) for k in range(7)]
    assert counts(lambda _: pieces) == [14, 2]


def test_steps_that_differ_have_no_number():
    assert counts(lambda step: [(100 + 50 * k, 102 + 50 * k, 1e6) for k in range(4 + step)]) == []


def test_messages_that_a_collector_joined_are_whole_numbers_of_messages():
    """Most bytes pass in bursts of two and three, most bursts are single messages."""
    bursts = [1, 3, 1, 2, 1, 3, 1, 3, 1, 1, 3]
    assert counts(lambda _: [(100 + 80 * k, 105 + 80 * k, n * 1e6) for k, n in enumerate(bursts)])[0] == sum(bursts)


def test_steps_whose_ends_differ_by_a_message_have_the_number_of_their_bytes():
    """The clock ticks among the passes: one step has a message more, another one less."""
    ends = [0, 2, -2, 1, -1, 0, 3, 0, 1, -1]
    assert counts(lambda step: [(100 + 80 * k, 102 + 80 * k, 1e6) for k in range(16 + ends[step])])[0] == 16


def test_a_collective_among_messages_is_no_whole_number_of_them():
    assert counts(lambda _: [(100, 102, 1e6), (400, 402, 1e6), (800, 830, 5.4e6)]) == []
