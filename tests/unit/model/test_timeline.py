"""Which step holds a moment: at its borders, in the pauses and with no steps at all."""

from __future__ import annotations

import numpy as np

from llmprism.model.clock import StepClock
from llmprism.model.timeline import Steps

TWO_TOUCHING_AND_ONE_LATER = Steps(np.array([10, 20, 50]), np.array([20, 30, 60]), np.zeros(3, dtype=np.bool_))


def test_a_moment_between_two_steps_that_touch_is_the_later_ones() -> None:
    assert TWO_TOUCHING_AND_ONE_LATER.at(np.array([9, 10, 20, 29, 30, 49, 50, 60])).tolist() == [
        -1, 0, 1, 1, -1, -1, 2, -1
    ]  # fmt: skip


def test_where_something_ended_the_moment_is_the_earlier_ones() -> None:
    assert TWO_TOUCHING_AND_ONE_LATER.up_to(np.array([20, 30, 40, 60])).tolist() == [0, 1, -1, 2]


def test_without_steps_no_moment_is_in_one() -> None:
    assert Steps.empty().at(np.array([1, 2])).tolist() == [-1, -1]


def test_a_clock_knows_no_step_before_its_first_and_after_its_last_boundary() -> None:
    clock = StepClock(np.array([10, 20, 30]), np.array([True, True]), 1.0)
    assert clock.step_at(np.array([9, 10, 19, 20, 30])).tolist() == [-1, 0, 0, 1, -1]
