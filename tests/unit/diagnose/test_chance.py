"""The same run is news in a quiet job and chance in one that jitters, or among many members."""

import numpy as np

from llmprism.diagnose.chance import log_expected_runs


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
