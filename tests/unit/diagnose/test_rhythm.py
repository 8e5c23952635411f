"""A clock that ticks at parts of a step, and clocks that do not."""

import numpy as np
import pytest

from llmprism.diagnose.rhythm import _medians_by_place, rhythm_of, with_whole_steps
from llmprism.model import Events, Steps, Timeline

SECOND = 1e9


def timeline(lengths, setup=False):
    end = np.cumsum(np.asarray(lengths) * SECOND).astype(np.int64)
    start = np.concatenate([[0], end])[: end.size]
    marks = np.zeros(end.size, dtype=np.bool_)
    marks[:1] = setup
    return Timeline(Steps(start, end, marks), np.tile(end, (3, 1)), Events.empty())


def noisy(lengths, seed=1, sigma=0.05):
    return np.asarray(lengths) * np.exp(np.random.default_rng(seed).normal(0, sigma, len(lengths)))


@pytest.mark.parametrize("parts", [(1.0, 7.0), (0.3, 0.3, 0.3, 1.1)])
@pytest.mark.parametrize("setup", [False, True])
def test_parts_of_a_step_are_put_together(parts, setup):
    rounds = 12
    whole = with_whole_steps(timeline(noisy(parts * rounds), setup))
    lasts = np.diff(whole.steps.end_ns)[1:] / SECOND
    assert np.median(lasts) == pytest.approx(sum(parts), rel=0.05)
    assert whole.steps.count >= rounds - 1
    assert whole.member_end_ns.shape[1] == whole.steps.count
    assert (whole.member_end_ns[0] == whole.steps.end_ns).all()
    assert (whole.steps.start_ns[1:] >= whole.steps.end_ns[:-1]).all()
    assert whole.steps.setup.sum() == setup


@pytest.mark.parametrize(
    "lengths",
    [
        noisy([1.0] * 30, sigma=0.2),  # jitter
        [1.0] * 12 + [2.0] * 10 + [1.0] * 10,  # a fault that lasts
        noisy([0.215, 0.25] * 15),  # steps that alternate by little
        ([1.0] * 9 + [6.0]) * 3,  # an evaluation every ten steps: too few rounds
        [1.0] * 3,
        [],
    ],
)
def test_what_is_no_rhythm_is_left_as_it_is(lengths):
    before = timeline(lengths)
    assert with_whole_steps(before) is before


def test_a_round_of_two_is_no_round_of_four():
    assert rhythm_of(noisy([1.0, 3.0] * 20) * SECOND) == 2


@pytest.mark.parametrize("rhythm", [1, 2, 3, 7])
@pytest.mark.parametrize("count", [7, 8, 20, 21, 41])
def test_medians_by_place_are_those_of_every_so_manieth_value(rhythm, count):
    values = np.random.default_rng(count).lognormal(size=count)
    expected = [np.median(values[place::rhythm]) for place in range(rhythm)]
    assert _medians_by_place(values, rhythm).tolist() == expected
