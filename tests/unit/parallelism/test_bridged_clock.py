"""A clock goes on by time where bytes do not tell."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.bridged_clock import bridged_clock
from llmprism.stats.silences import Silences

STEP = 100_000_000
BYTES = 50_000_000
STEPS = 30


def silences(lost=(), factor=1.0):
    """A long silence at the end of every step and three short ones within; some steps have less bytes, or more."""
    begin, length, sent, total = [], [], [], 0
    for step in range(STEPS):
        amount = BYTES * (factor if step in lost else 1.0)
        for part in range(4):
            total += amount / 4
            begin.append(step * STEP + part * 20_000_000 + 15_000_000)
            length.append(25_000_000 if part == 3 else 5_000_000)
            sent.append(int(total))
    return Silences(*(np.array(values, dtype=np.int64) for values in (begin, length, sent)))


def ends(steps):
    return np.array([step * STEP + 75_000_000 for step in steps], dtype=np.int64)


def clock(steps, jitter=0):
    ticks = ends(steps) + np.random.default_rng(1).integers(-jitter, jitter + 1, len(steps))
    return StepClock(ticks, np.diff(steps) == 1, 1.0)


SEEN = [*range(3, 9), *range(15, 26)]


def test_a_hole_of_whole_steps_is_cut_at_the_silences_that_end_them():
    found = bridged_clock(clock(SEEN), silences(lost=range(9, 15), factor=0.8))
    assert found is not None
    np.testing.assert_array_equal(found.boundary_ns, ends(range(STEPS)))
    assert found.regular.all()


@pytest.mark.parametrize("factor", [0.1, 2.0])
def test_other_amounts_are_no_steps(factor):
    """Nothing was sent, or something else was."""
    found = bridged_clock(clock(SEEN), silences(lost=range(9, 15), factor=factor))
    assert found is not None  # before the first and behind the last tick it goes on
    assert found.steps == STEPS - 1 - 7


def test_a_clock_without_holes_stays_as_it_is():
    assert bridged_clock(clock(list(range(STEPS))), silences()) is None


def test_one_or_two_steps_at_the_edges_are_set_up_or_cut():
    assert bridged_clock(clock(list(range(2, STEPS - 2))), silences()) is None


def test_steps_that_are_uneven_in_time_are_not_counted_on():
    assert bridged_clock(clock(SEEN, jitter=20_000_000), silences()) is None


def test_a_hole_that_is_no_whole_number_of_steps_stays():
    ticks = ends(SEEN)
    ticks[6:] += 40_000_000
    moved = StepClock(ticks, np.diff(SEEN) == 1, 1.0)
    found = bridged_clock(moved, silences())
    assert found is None or not found.regular.all()
