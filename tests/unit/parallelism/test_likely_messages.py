"""Messages of a step by the bytes of all bursts, where neither rests nor places tell them."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.likely_messages import likely_messages, number_price
from unit.builders import MS, Flow, transfer_table

STEPS, PERIOD = 12, 4000
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * PERIOD * MS, np.ones(STEPS, dtype=np.bool_), 1.0)


def likeliest(step, *, stages=4, ring=False):
    """The likeliest number for bursts that are lists of bytes, a rest apart, in each step of a pair."""
    random = np.random.default_rng(5)
    flows = []
    for number in range(STEPS):
        for k, size in enumerate(step(random)):
            begin = (number * PERIOD + 100 + 10 * k) * MS
            flows.append(Flow("a", "b", begin, begin + MS, int(size)))
    found = likely_messages(transfer_table(flows), np.array([0]), CLOCK, stages, ring=ring)
    return found[0][0] if found else None


def joined(random, sizes, share=0.4):
    """Some messages follow each other at once."""
    cuts = np.flatnonzero(random.random(sizes.size) > share)
    return np.add.reduceat(sizes, np.union1d(0, cuts))


@pytest.mark.parametrize("number", [6, 32, 192])
def test_messages_that_were_joined_are_whole_numbers_of_one(number):
    assert likeliest(lambda random: joined(random, 1e5 * random.uniform(0.999, 1.001, number))) == number


def test_messages_of_many_lengths_that_stalls_cut_in_two_are_counted():
    def of_step(random):
        whole = 1e6 * random.uniform(0.8, 1.2, 32)
        cut = random.random(32) < 0.3
        head = whole * random.uniform(0.1, 0.9, 32)
        return np.concatenate([whole[~cut], head[cut], (whole - head)[cut]])

    assert likeliest(of_step) == 32


def test_records_that_were_lost_are_missing_from_the_steps_that_lost_them():
    def of_step(random):
        return np.full(int((random.random(64) > 0.02).sum()), 1e6)

    assert likeliest(of_step) == 64


def test_packets_of_sampled_messages_are_no_messages():
    def of_step(random):
        return 40_960.0 * random.binomial(140, 0.1, 24)

    assert abs(likeliest(of_step) - 24) <= 2


def test_rings_have_a_whole_round_for_every_stage():
    """Of 128 messages 16 stages make 64, 32 or 16 micro-batches; 127 and 129 are no number of theirs."""
    assert likeliest(lambda random: 1e6 * random.uniform(0.8, 1.2, 128), stages=16, ring=True) == 128


def test_nothing_is_said_where_nothing_rests():
    assert likeliest(lambda _: [1e6]) is None


def test_numbers_that_nobody_sets_are_dear():
    assert number_price(64, 4, 1) == number_price(12, 3, 1) == 0.0
    assert number_price(59, 4, 1) > number_price(33, 4, 1) > number_price(24, 4, 1)
