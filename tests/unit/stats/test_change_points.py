"""The kernel against the exact recursion of the `changepoint` package, and its invariances."""

from __future__ import annotations

import changepoint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from llmprism.stats.change_points import NormalInverseGamma, change_points, change_probability

HAZARD = 0.01
PRIORS = (NormalInverseGamma(), NormalInverseGamma(0.0, 1.0, 1.0, 1.0), NormalInverseGamma(0.5, 0.3, 2.0, 0.7))


def exact(values: np.ndarray, prior: NormalInverseGamma, lag: int = 0) -> np.ndarray:
    """P(a run begins at t | values up to t + lag) from the package, which skips the first value it is given."""
    law = changepoint.Prior.normal_inv_gamma(prior.mean, 1.0 / prior.strength, prior.shape, prior.scale)
    detector = changepoint.Bocpd(law, 1.0 / HAZARD)
    detector.step(0.0)
    out = np.zeros(values.size)
    for t, value in enumerate(values):
        run_length = detector.step(float(value))
        if t - lag > 0:
            out[t - lag] = run_length[lag + 1] / (1.0 - HAZARD)
    return out


def series(name: str) -> np.ndarray:
    random = np.random.default_rng(1)
    values = {
        "noise": random.normal(0.0, 1.0, 600),
        "steps": np.concatenate([np.append(np.exp(random.normal(0.0, 0.5, 20)), 20.0) for _ in range(28)]),
        "walk": np.cumsum(random.normal(0.0, 0.3, 600)),
        "heavy": random.standard_t(1.5, 600),
        "shifts": np.concatenate([random.normal(mean, 1.0, 50) for mean in random.normal(0.0, 5.0, 12)]),
    }[name]
    return (values - values.mean()) / values.std()


@pytest.mark.parametrize("lag", [0, 3])
@pytest.mark.parametrize("prior", PRIORS, ids=["default", "unit", "skewed"])
@pytest.mark.parametrize("name", ["noise", "steps", "walk", "heavy", "shifts"])
def test_agrees_with_the_exact_recursion(name: str, prior: NormalInverseGamma, lag: int) -> None:
    values = series(name)
    ours = change_probability(values, hazard=HAZARD, lag=lag, prior=prior, standardize=False)
    truth = exact(values, prior, lag)
    np.testing.assert_allclose(ours, truth, atol=0.05)
    # Away from the cut by more than that, every decision is the same.
    clear = np.abs(truth - 0.95) > 0.05
    assert np.array_equal(ours[clear] >= 0.95, truth[clear] >= 0.95)


@settings(max_examples=40, deadline=None)
@given(arrays(np.float64, st.integers(1, 40), elements=st.floats(-5.0, 5.0)))
def test_short_series_lose_nothing_to_pruning(values: np.ndarray) -> None:
    prior = NormalInverseGamma(0.0, 1.0, 1.0, 1.0)
    ours = change_probability(values, hazard=HAZARD, prior=prior, standardize=False)
    np.testing.assert_allclose(ours, exact(values, prior), atol=1e-4)


def test_finds_every_long_pause_between_bursts() -> None:
    random = np.random.default_rng(5)
    gaps = np.concatenate([np.append(random.gamma(4.0, 0.25, 30), 50.0) for _ in range(20)])
    assert np.flatnonzero(change_points(gaps)).tolist() == list(range(30, 620, 31))


def test_lag_tells_an_outlier_from_a_new_regime() -> None:
    random = np.random.default_rng(9)
    values = random.normal(0.0, 1.0, 200)
    values[50] = 30.0
    values[120:] += 20.0
    found = np.flatnonzero(change_points(values, lag=3))
    assert 120 in found
    assert 50 not in found
    assert 50 in np.flatnonzero(change_points(values))


def test_series_cut_by_offsets_do_not_see_each_other() -> None:
    random = np.random.default_rng(2)
    parts = [random.normal(mean, 1.0, size) for mean, size in [(0, 30), (100, 1), (5, 0), (-7, 55)]]
    offsets = np.cumsum([0] + [part.size for part in parts])
    together = change_probability(np.concatenate(parts), offsets)
    apart = np.concatenate([change_probability(part) for part in parts])
    np.testing.assert_array_equal(together, apart)
    assert not together[offsets[:-1][np.diff(offsets) > 0]].any()


finite = st.floats(allow_nan=False, allow_infinity=False, width=64)


@settings(max_examples=150, deadline=None)
@given(arrays(np.float64, st.integers(0, 60), elements=finite), st.integers(0, 70))
def test_any_finite_values_give_probabilities(values: np.ndarray, lag: int) -> None:
    probability = change_probability(values, lag=lag)
    assert probability.shape == values.shape
    assert np.isfinite(probability).all()
    assert ((probability >= 0.0) & (probability <= 1.0 + 1e-9)).all()


@settings(max_examples=60, deadline=None)
@given(
    arrays(np.float64, st.integers(2, 60), elements=st.integers(-1000, 1000).map(float)),
    st.floats(-1e6, 1e6),
    st.sampled_from([1e-6, 1e-3, 3.0, 1e6]),
)
def test_unit_and_origin_do_not_matter(values: np.ndarray, shift: float, factor: float) -> None:
    moved = change_probability(values * factor + shift * factor)
    np.testing.assert_allclose(moved, change_probability(values), atol=1e-4)


@pytest.mark.parametrize("value", [0.0, 1e-320, 0.1, -3e300])
def test_a_constant_series_has_no_change(value: float) -> None:
    assert not change_points(np.full(500, value)).any()


@pytest.mark.parametrize(
    ("values", "arguments"),
    [
        ([1.0, float("nan")], {}),
        ([1.0, float("inf")], {}),
        ([[1.0]], {}),
        ([1.0], {"offsets": [0, 2]}),
        ([1.0], {"offsets": [0, 1, 0, 1]}),
        ([1.0], {"hazard": 0.0}),
        ([1.0], {"lag": -1}),
        ([1.0], {"threshold": 0.0}),
    ],
)
def test_nonsense_is_refused(values: object, arguments: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="must"):
        change_points(values, **arguments)


def test_a_prior_without_spread_is_refused() -> None:
    with pytest.raises(ValueError, match="prior"):
        NormalInverseGamma(scale=0.0)
