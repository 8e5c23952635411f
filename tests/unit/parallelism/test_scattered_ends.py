"""Ends of steps that are less even than the clock they were found by are none."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.step_ends import scatters

STEP = 1_000_000


def clock_at(places):
    """A tick in each step, at these places of it."""
    ticks = ((np.arange(len(places)) + np.array(places)) * STEP).astype(np.int64)
    return StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


JITTER = [0.01 * (k % 3) for k in range(40)]
TURNS = [0.45 if k // 5 % 2 else 0.0 for k in range(40)]


@pytest.mark.parametrize(
    ("ends", "clock", "expected"),
    [
        (np.array(JITTER) + TURNS, JITTER, True),  # ends and turns by turns
        (JITTER, np.array(JITTER) + TURNS, False),  # the clock was misplaced, the ends are even
        (np.array(JITTER) + 0.3, JITTER, False),  # another place, the same in all steps
        ([0.45 if k % 13 == 5 else 0.0 for k in range(40)], JITTER, False),  # single ones
    ],
)
def test_ends_scatter_where_they_are_less_even_than_the_clock(ends, clock, expected):
    assert scatters(clock_at(ends), clock_at(clock)) is expected


def test_ends_of_the_set_up_tell_nothing():
    """A clock that was misplaced since an evaluation; ends that are even, but for long ones before its first step."""
    clock = clock_at([0.0] * 20 + [0.35] * 4)
    even = clock_at([0.3] * 24)
    with_set_up = np.concatenate([np.array([-6.6, -3.4, -0.9]) * STEP, even.boundary_ns]).astype(np.int64)
    ends = StepClock(with_set_up, np.ones(with_set_up.size - 1, dtype=np.bool_), 1.0)
    assert not scatters(ends, clock)
