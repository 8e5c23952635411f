"""What a cell says by its pair's own past."""

import numpy as np
import pytest

from llmprism.diagnose.own_past import against_own_past
from llmprism.diagnose.rules import RULES

STEPS = 20
SLOW = np.arange(STEPS) >= 14
ALONE = np.array([-1, -1])


def rates(falls, spread=0.0):
    """Two pairs of 10 Gb/s that vary by `spread` (natural logarithm), and fall by these factors in the last steps."""
    noise = np.exp(spread * np.random.default_rng(1).standard_normal((2, STEPS)))
    return 10.0 * noise / np.where(SLOW, np.array(falls)[:, None], 1.0)


def odds_of(falls, spread=0.0, hops=ALONE):
    return against_own_past(rates(falls, spread), ~SLOW, hops).odds


def test_a_pair_that_never_varies_says_much_and_one_that_varies_little_either_way():
    steady, noisy = odds_of([4.0, 1.0], 0.02)[:, SLOW], odds_of([4.0, 1.0], 1.0)[:, SLOW]
    assert steady[0].min() > 3.5, "one cell is nearly enough"
    assert steady[1].max() < -1.0
    assert np.abs(noisy).max() < steady[0].min() / 2


def test_a_fall_to_a_thousandth_is_as_sick_as_one_to_a_quarter():
    assert odds_of([1000.0, 4.0])[:, SLOW].min() > 3.5


def test_what_rose_cannot_tell_nor_what_has_no_past():
    assert np.isnan(odds_of([0.25, 1.0])[0, SLOW]).all()
    few = np.arange(STEPS) < RULES.members.late_steps - 1
    assert np.isnan(against_own_past(rates([4.0, 4.0]), few, ALONE).odds).all()


def test_a_hop_of_a_ring_that_fell_less_than_another_may_wait_for_it():
    together = np.array([0, 0])
    assert odds_of([8.0, 4.0], hops=together)[1, SLOW] == pytest.approx(0.0)
    assert odds_of([8.0, 7.5], hops=together)[1, SLOW].min() > 3.5, "all hops of a slow group fall alike"
    assert odds_of([8.0, 4.0])[1, SLOW].min() > 3.5, "pairs of no ring wait for nobody"
