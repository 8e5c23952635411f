from __future__ import annotations

import numpy as np

from llmprism.verdict.fingerprint import order_support, step_differences
from llmprism.verdict.log_clock import fit_clock
from verdict_builders import SECOND, job_view, rank_view, step_ends, steps_of


def four_members() -> tuple[np.ndarray, np.ndarray]:
    """Common ends, and those of four members of which two and two end together."""
    ends = step_ends(60)
    random = np.random.default_rng(3)
    own = np.repeat(random.integers(0, SECOND // 100, (2, 60)), 2, axis=0)
    return ends, ends + own


def test_the_right_order_is_supported_and_a_wrong_one_is_not() -> None:
    ends, members = four_members()
    view = job_view([rank_view(rank, members[rank]) for rank in range(4)])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    apart = step_differences(view.ranks, members, fit)
    assert apart is not None
    right = order_support(apart, np.array([0, 1, 2, 3]))
    assert right > 1.5
    assert order_support(apart, np.array([1, 0, 3, 2])) == right  # members that end together cannot be told apart
    assert order_support(apart, np.array([2, 3, 0, 1])) < -1.5


def test_members_that_end_together_support_nobody() -> None:
    ends = step_ends(60)
    view = job_view([rank_view(rank, ends) for rank in range(4)])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    apart = step_differences(view.ranks, np.tile(ends, (4, 1)), fit)
    assert apart is not None
    assert order_support(apart, np.arange(4)) == 0.0


def test_ends_that_were_not_seen_are_not_compared() -> None:
    ends = step_ends(60)
    view = job_view([rank_view(rank, ends) for rank in range(2)])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    assert step_differences(view.ranks, np.full((2, 60), -1), fit) is None
