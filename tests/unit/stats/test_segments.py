"""Stretches of evidence, against all ways to cut a short series."""

from itertools import product

import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.stats.segments import best_stretches


def worth(scores, mask, price):
    begins = sum(1 for i, inside in enumerate(mask) if inside and (i == 0 or not mask[i - 1]))
    return sum(score for score, inside in zip(scores, mask, strict=True) if inside) - price * begins


@pytest.mark.parametrize("seed", range(8))
def test_no_other_cut_is_worth_more(seed):
    scores = np.random.default_rng(seed).normal(0.0, 3.0, 9)
    found = best_stretches(scores, 2.0)
    mask = [any(first <= i < after for first, after, _ in found) for i in range(scores.size)]
    best = max(worth(scores.tolist(), cut, 2.0) for cut in product((False, True), repeat=scores.size))
    assert worth(scores.tolist(), mask, 2.0) == pytest.approx(best)
    assert sum(total for *_, total in found) == pytest.approx(
        sum(s for s, inside in zip(scores, mask, strict=True) if inside)
    )


def test_nothing_speaks_for_it():
    assert best_stretches(np.array([-1.0, 0.5, -1.0]), 2.0) == []
    assert best_stretches(np.zeros(0), 2.0) == []


@pytest.mark.parametrize("seed", range(4))
def test_compiled_and_interpreted_they_are_the_same(seed):
    scores = np.random.default_rng(seed).normal(0.0, 3.0, 200)
    with always_interpreted():
        found = best_stretches(scores, 5.0)
    assert all(total == sum(scores[first:after].tolist()) for first, after, total in found)
    with always_compiled():
        assert best_stretches(scores, 5.0) == found != []
