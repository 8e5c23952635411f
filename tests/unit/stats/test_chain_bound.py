"""The bound on dominant chains, and the forms of the loop that finds them."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.stats.byte_steps import GRID, _dominates, _next_dominant, _SilenceSeries
from llmprism.stats.chain_bound import (
    _enough_by_arrays,
    _longest_by_arrays,
    enough_links,
    last_as_long,
    longest_alone,
    next_as_long,
)
from llmprism.stats.chains import _at_least_by_arrays, _link_by_arrays, at_least, link
from llmprism.stats.silences import Silences
from support.stages import find_steps


def _silences(seed: int, steps: int, per_step: int, noise: float) -> Silences:
    """Steps of equal bytes with some silences inside; `noise` mixes long and short ones."""
    rng = np.random.default_rng(seed)
    inside = np.sort(rng.integers(1, 1_000, (steps, per_step)), axis=1) * 1_000
    inside[:, -1] = 1_000_000
    before = (inside + 1_000_000 * np.arange(steps)[:, None]).ravel()
    length = rng.integers(1_000, 20_000, before.size)
    length[per_step - 1 :: per_step] += rng.integers(0, 200_000, steps)
    length = np.where(rng.random(before.size) < noise, rng.integers(1, 300_000, before.size), length)
    return Silences(np.cumsum(length) + before, length, before)


SERIES = st.builds(_silences, st.integers(0, 10**6), st.integers(2, 30), st.integers(1, 12), st.floats(0.0, 0.5))


@settings(max_examples=60, deadline=None)
@given(SERIES, st.floats(1.5, 60.0), st.sampled_from((0.004, 0.02, 0.08, 0.24)))
def test_no_dominant_spacing_is_called_hopeless(silences: Silences, steps: float, tolerance: float) -> None:
    series = _SilenceSeries(silences)
    known = series.position, series.weight, series.ordered
    first, most = series.total / steps, 3 * silences.count
    spacing = first
    while series.total / spacing <= most and not _dominates.compiled(*known, series.total, spacing, tolerance):
        spacing /= GRID
    expected = spacing if series.total / spacing <= most else 0.0
    assert _next_dominant.compiled(*known, *series.rivals, first, tolerance, most) == expected
    with always_interpreted():
        assert series.next_dominant(first, tolerance, most) == expected


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40))
def test_the_next_and_the_last_as_long_are_found(lengths: list[int]) -> None:
    weight, count = np.array(lengths, dtype=np.float64), len(lengths)
    following = [next((j for j in range(i + 1, count) if lengths[j] >= lengths[i]), count) for i in range(count)]
    preceding = [next((j for j in range(i - 1, -1, -1) if lengths[j] >= lengths[i]), -1) for i in range(count)]
    assert next_as_long(weight).tolist() == following
    assert last_as_long(weight).tolist() == preceding


@given(st.lists(st.integers(0, 9), min_size=1, max_size=40), st.integers(0, 9))
def test_the_longest_silences_know_each_other_as_before(lengths: list[int], least: int) -> None:
    weight, place = np.array(lengths, dtype=np.float64), np.arange(len(lengths), dtype=np.float64)
    chosen = weight >= least
    expected = place[chosen], weight[chosen], next_as_long(weight[chosen]), last_as_long(weight[chosen])
    given_ = place, weight, next_as_long(weight), last_as_long(weight), float(least)
    for form in (longest_alone.python, _longest_by_arrays):
        assert [one.tolist() for one in form(*given_)] == [one.tolist() for one in expected]


@settings(max_examples=60, deadline=None)
@given(SERIES, st.floats(1.5, 60.0), st.sampled_from((0.004, 0.02, 0.08, 0.24)))
def test_both_forms_of_the_loop_find_the_same_chain(silences: Silences, steps: float, tolerance: float) -> None:
    series = _SilenceSeries(silences)
    spacing, cap = series.total / steps, float(np.median(series.weight))
    arguments = (series.position, series.weight, spacing, tolerance, cap)
    np.testing.assert_array_equal(_link_by_arrays(*arguments), link.compiled(*arguments))
    np.testing.assert_array_equal(
        _at_least_by_arrays(series.position, series.weight, cap), at_least.python(series.position, series.weight, cap)
    )


def test_links_are_counted_until_there_are_enough() -> None:
    """Six equal steps of three silences: six links at most, none where each is followed by one as long."""
    position = np.arange(1.0, 20.0)
    weight = np.where(np.arange(19) % 3 == 0, 9.0, 1.0)
    for form in (enough_links.python, _enough_by_arrays):
        for lengths, most in ((weight, 6), (np.ones(19), 0)):
            known = position, lengths, next_as_long(lengths), last_as_long(lengths), 1.0, 3.0, 3.0, 0.02, 0.03
            assert [form(*known, float(enough)) for enough in range(1, 9)] == [n <= most for n in range(1, 9)]


@settings(max_examples=15, deadline=None)
@given(SERIES)
def test_the_bound_changes_no_answer(silences: Silences) -> None:
    with always_interpreted():
        with_bound = find_steps(silences)
    with always_compiled():
        without = find_steps(silences)
    assert (with_bound is None) == (without is None)
    if with_bound is not None and without is not None:
        np.testing.assert_array_equal(with_bound.boundaries, without.boundaries)
        assert with_bound.bytes_per_step == without.bytes_per_step
        assert with_bound.dominance == without.dominance
