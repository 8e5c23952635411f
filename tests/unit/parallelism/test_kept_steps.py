"""Steps that a moved clock jumps over, and which of them it gets back from the clock before it."""

import numpy as np
import pytest

from llmprism.model.clock import StepClock
from llmprism.parallelism.kept_steps import with_kept_steps

STEP = 1_000_000


def clock(ticks, irregular=()):
    regular = np.ones(len(ticks) - 1, dtype=np.bool_)
    regular[list(irregular)] = False
    return StepClock(np.array(ticks, dtype=np.int64), regular, 1.0)


def evaluated():
    """Ticks of ten steps, the fifth of which holds an evaluation."""
    return np.cumsum([0, 1, 1, 1, 1, 1.4, 1, 1, 1, 1, 1]) * STEP


@pytest.mark.parametrize("place", [-0.3, 0.04, 0.45])
def test_steps_that_the_clock_before_has_are_put_back_at_the_usual_place(place):
    ticks = evaluated()
    ends = ticks + place * STEP
    kept = with_kept_steps(clock(np.delete(ends, 5), irregular=[4]), clock(ticks))
    assert kept.boundary_ns.tolist() == ends.astype(np.int64).tolist()
    assert kept.regular.all()


def test_a_hole_of_the_clock_before_stays_a_hole():
    ticks = evaluated()
    moved = clock(np.delete(ticks, 5) + 40_000, irregular=[4])
    kept = with_kept_steps(moved, clock(ticks, irregular=[4]))
    assert kept.boundary_ns.tolist() == moved.boundary_ns.tolist()
    assert kept.regular.tolist() == moved.regular.tolist()


def test_one_long_step_is_not_divided():
    ticks = np.array([0, 1, 2, 9, 10, 11]) * STEP
    moved = clock(ticks + 40_000, irregular=[2])
    assert not with_kept_steps(moved, clock(ticks)).regular[2]


def test_ticks_that_left_the_usual_place_are_no_guide():
    ticks = evaluated()
    ends = ticks + 0.04 * STEP
    ends[6] += 0.4 * STEP
    moved = clock(np.delete(ends, 5), irregular=[4])
    assert with_kept_steps(moved, clock(ticks)).boundary_ns.size == moved.boundary_ns.size


def test_ends_at_many_phases_are_left_alone():
    ticks = evaluated()
    ends = ticks + np.resize([0.0, 0.2, 0.4], ticks.size) * STEP
    moved = clock(np.delete(ends, 5), irregular=[4])
    assert with_kept_steps(moved, clock(ticks)) is moved
