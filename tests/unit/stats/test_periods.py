from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from llmprism.stats.periods import estimate_period, lag_contrast


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("missing", [0.0, 0.2, 0.4])
@pytest.mark.parametrize("period", [0.15, 1.4, 46.6])
def test_finds_the_period_with_jitter_and_missing_events(period: float, missing: float, seed: int) -> None:
    random = np.random.default_rng(seed)
    times = 1e6 + np.arange(50) * period + random.normal(0.0, 0.02 * period, 50)
    found = estimate_period(times[random.random(50) >= missing])
    assert found.period == pytest.approx(period, rel=0.01)
    assert found.strength > 0.7


@pytest.mark.parametrize("seed", range(5))
def test_wandering_steps_have_their_mean_as_period(seed: int) -> None:
    random = np.random.default_rng(seed)
    lengths = random.normal(1.0, 0.02, 80)
    found = estimate_period(np.cumsum(lengths))
    assert found.period == pytest.approx(lengths.mean(), rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_bursts_count_as_wholes(seed: int) -> None:
    """Forty records in the last fifth of each step: their spacing is not the period."""
    random = np.random.default_rng(seed)
    times = np.concatenate([step * 0.5 + random.uniform(0.4, 0.5, 40) for step in range(60)])
    weights = random.uniform(1.0, 3.0, times.size)
    found = estimate_period(times, weights, shortest=0.01)
    assert found.period == pytest.approx(0.5, rel=0.01)


@pytest.mark.parametrize("seed", range(5))
def test_a_long_silence_does_not_hide_the_period(seed: int) -> None:
    """Set-up, then nothing for as long as all the steps together, then steps."""
    random = np.random.default_rng(seed)
    steps = 40.0 + np.concatenate([step * 0.5 + random.uniform(0.3, 0.5, 40) for step in range(60)])
    found = estimate_period(np.concatenate([random.uniform(0.0, 2.0, 100), steps]), shortest=0.02)
    assert found.period == pytest.approx(0.5, rel=0.01)


def test_heavy_events_outweigh_light_noise() -> None:
    random = np.random.default_rng(4)
    noise = random.uniform(0.0, 60.0, 400)
    times = np.concatenate([np.arange(60) * 1.0, noise])
    weights = np.concatenate([np.full(60, 1e6), np.full(400, 300.0)])
    assert estimate_period(times, weights, shortest=0.05).period == pytest.approx(1.0, rel=0.005)


def test_shortest_excludes_what_is_inside_a_step() -> None:
    """Four micro-batches 0.1 apart in every step of 1.0."""
    times = (np.arange(40)[:, None] * 1.0 + np.arange(4) * 0.1).ravel()
    assert estimate_period(times).period == pytest.approx(0.1, rel=0.02)
    assert estimate_period(times, shortest=0.4).period == pytest.approx(1.0, rel=0.02)


@pytest.mark.parametrize("seed", range(5))
def test_random_events_have_no_strong_period(seed: int) -> None:
    times = np.random.default_rng(seed).uniform(0.0, 100.0, 2000)
    assert estimate_period(times, shortest=0.5).strength < 0.2


@pytest.mark.parametrize("times", [[], [1.0], [1.0, 1.0, 1.0, 1.0, 1.0], [0.0, 1.0, 2.0]])
def test_too_little_says_nothing(times: list[float]) -> None:
    found = estimate_period(times)
    assert not found.found
    assert found.strength == 0.0


def test_contrast_is_high_at_the_period_and_low_between() -> None:
    times = np.arange(100) * 2.0
    at_period, between, beyond, never = lag_contrast(times, [2.0, 3.0, 1000.0, 0.0])
    assert at_period > 7.0
    assert between < 0.1
    assert beyond == never == 0.0


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.integers(0, 50), elements=st.floats(-1e15, 1e15)),
    st.none() | st.floats(1e-6, 1e6),
)
def test_any_events_give_an_answer(times: np.ndarray, shortest: float | None) -> None:
    found = estimate_period(times, shortest=shortest)
    assert 0.0 <= found.strength <= 1.0
    assert not found.found or found.period > 0.0


@pytest.mark.parametrize("arguments", [{"weights": [-1.0]}, {"weights": [1.0, 2.0]}, {"tolerance": 0.7}])
def test_nonsense_is_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        estimate_period([1.0], **arguments)
