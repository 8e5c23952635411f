"""The same run is news in a quiet job and chance in one that jitters, or among many members."""

import numpy as np

from llmprism.diagnose.chance import log_expected_members, log_expected_runs


def run_of_four(members=8, steps=40, share=0.0):
    flagged = np.random.default_rng(3).random((members, steps)) < share
    flagged[0, 10:14] = True
    return log_expected_runs(flagged, np.ones_like(flagged), 10, 14, 4)


def test_four_in_a_row_in_a_quiet_job_are_no_chance():
    assert run_of_four() < np.log(1e-3)


def test_where_every_third_is_flagged_they_are():
    assert run_of_four(share=0.3) > 0.0


def test_more_members_make_more_comparisons():
    assert run_of_four(members=400, share=0.1) > run_of_four(members=4, share=0.1)


def test_a_run_with_a_hole_weighs_less():
    flagged = np.zeros((8, 40), dtype=np.bool_)
    known = np.ones_like(flagged)
    assert log_expected_runs(flagged, known, 10, 14, 3) > log_expected_runs(flagged, known, 10, 14, 4)


def test_hits_in_steps_of_twice_the_length_weigh_twice():
    flagged = np.zeros((8, 40), dtype=np.bool_)
    known = np.ones_like(flagged)
    once, twice = (log_expected_runs(flagged, known, 10, 12, 2, count) for count in (0, 2))
    assert twice - once == 2 * np.log(1.0 / (8 * 38 + 2.0))


def late_in_all_of_four(members=12, others=0.0, width=1):
    """Four long steps, in all of which the first member is late, with those of its group, and others now and then."""
    steps = np.zeros(40, dtype=np.bool_)
    steps[[3, 11, 20, 31]] = True
    flagged = np.random.default_rng(5).random((members, 40)) < others
    own = np.arange(members) < width
    flagged[own] = steps
    return log_expected_members(flagged, np.ones_like(flagged), own, steps)


def test_one_that_is_late_in_every_long_step_is_no_chance_where_nobody_else_is():
    assert late_in_all_of_four() < np.log(1e-3)


def test_one_is_by_chance_where_long_steps_wait_for_anybody():
    assert late_in_all_of_four(others=0.5) > np.log(0.1)
    assert late_in_all_of_four(members=400, others=0.3) > late_in_all_of_four(members=12, others=0.3)


def test_members_that_move_as_one_count_as_one():
    assert late_in_all_of_four(width=4) < late_in_all_of_four(width=1)
