import numpy as np
import pytest

from llmprism.stats.byte_periods import fundamental_spacings, repeating_lags
from llmprism.stats.silences import Silences


def series(pauses, steps, jitter=0.1, seed=1):
    """Steps of equal messages with these pauses after them, as silences in byte-space."""
    random = np.random.default_rng(seed)
    length = (np.tile(pauses, steps) * random.lognormal(0.0, jitter, steps * len(pauses)) * 1e6).astype(np.int64)
    before = np.arange(1, length.size + 1, dtype=np.int64) * 1_000_000
    return Silences(np.cumsum(length), length, before)


@pytest.mark.parametrize("steps", [6, 40, 150])
def test_silences_that_repeat_tell_the_bytes_of_a_step_though_none_stands_out(steps):
    spacings = fundamental_spacings(series([1, 2, 4, 3, 1, 5, 5], steps))
    assert any(spacing == pytest.approx(7e6, rel=0.02) for spacing in spacings)


def test_layers_are_listed_before_the_step_and_its_multiples_are_not():
    spacings = fundamental_spacings(series([2, 1] * 8 + [2, 9], 30))
    assert spacings == sorted(spacings)
    assert any(spacing == pytest.approx(18e6, rel=0.02) for spacing in spacings)
    assert not any(spacing == pytest.approx(36e6, rel=0.02) for spacing in spacings)


def test_nothing_repeats_in_too_few_silences():
    assert fundamental_spacings(series([1], 3)) == []


def test_lags_of_a_series_of_durations():
    values = np.tile([1.0, 1.1, 0.9, 3.0], 12) + np.random.default_rng(2).normal(0, 0.02, 48)
    assert 4 in repeating_lags(values, 16)
    assert repeating_lags(np.ones(20), 5) == []
