from __future__ import annotations

import numpy as np
import pytest

from llmprism.verdict.log_clock import fit_clock, host_clocks, resolution_ns
from verdict_builders import SECOND, job_view, rank_view, step_ends, steps_of

HOUR = 3600 * SECOND


@pytest.mark.parametrize("offset_s", [0, 3, -7, 3600, -8 * 3600, 5 * 3600 + 1800])
@pytest.mark.parametrize("printed", [True, False], ids=["printed durations", "times alone"])
def test_the_offset_and_the_step_of_every_iteration_are_found(offset_s: int, printed: bool) -> None:
    ends = step_ends(60, jitter=0.3, step_s=2.0)
    view = job_view([rank_view(0, ends[5:50], first=105, offset_ns=offset_s * SECOND, printed=printed)])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    assert fit.shift == -100
    assert abs(fit.offset_ns - offset_s * SECOND) < 0.2 * SECOND


def test_equal_steps_are_laid_over_each_other_with_the_smaller_offset() -> None:
    ends = step_ends(60, jitter=0.0, step_s=5.0)
    fit = fit_clock(job_view([rank_view(0, ends, offset_ns=SECOND)]), steps_of(ends))
    assert fit is not None
    assert fit.shift == -1
    assert abs(fit.offset_ns - SECOND) <= SECOND // 2  # equal steps of whole seconds never show where in the second


def test_every_third_step_may_end_an_iteration() -> None:
    ends = step_ends(90)
    fit = fit_clock(job_view([rank_view(0, ends[2::3])]), steps_of(ends))
    assert fit is not None
    assert fit.stride == 3
    assert fit.step_of(np.array([1, 2])).tolist() == [2, 5]
    assert fit.same_run


def test_another_run_of_the_same_pace_is_not_the_same_run() -> None:
    ends = step_ends(60)
    other = fit_clock(job_view([rank_view(0, step_ends(60, seed=9))]), steps_of(ends))
    same = fit_clock(job_view([rank_view(0, ends)]), steps_of(ends))
    assert same is not None
    assert other is not None
    assert same.same_run
    assert same.trusted
    assert not other.same_run


def test_a_clock_far_off_is_trusted_only_for_the_same_run() -> None:
    ends = step_ends(60)
    far = 700 * SECOND
    same = fit_clock(job_view([rank_view(0, ends, offset_ns=far)]), steps_of(ends))
    other = fit_clock(job_view([rank_view(0, step_ends(60, seed=9), offset_ns=far)]), steps_of(ends))
    assert same is not None
    assert other is not None
    assert same.trusted
    assert not other.trusted


def test_too_little_in_common_is_no_clock() -> None:
    ends = step_ends(40)
    assert fit_clock(job_view([rank_view(0, ends[:4])]), steps_of(ends)) is None
    assert fit_clock(job_view([rank_view(0, ends)]), steps_of(ends[:3])) is None


def test_every_host_has_its_own_offset() -> None:
    ends = step_ends(60, jitter=0.3)
    view = job_view([rank_view(0, ends), rank_view(1, ends), rank_view(2, ends, offset_ns=4 * SECOND)])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    clocks = host_clocks(view, steps_of(ends), fit, ("a", "a", "b"))
    assert [clock.host for clock in clocks] == ["a", "b"]
    assert abs(clocks[0].offset_ns) < 0.2 * SECOND
    assert abs(clocks[1].offset_ns - 4 * SECOND) < 0.2 * SECOND
    assert clocks[1].error_ns < SECOND


def test_a_host_without_iterations_is_said_to_have_none() -> None:
    ends = step_ends(40)
    silent = rank_view(1, ends)
    silent = type(silent)(1, None, (), 3, 0, None, *(np.zeros(0, dtype=np.int64),) * 2, np.zeros(0))
    view = job_view([rank_view(0, ends), silent])
    fit = fit_clock(view, steps_of(ends))
    assert fit is not None
    assert [clock.steps for clock in host_clocks(view, steps_of(ends), fit, ("a", "b"))] == [40, 0]


def test_resolution_of_times() -> None:
    assert resolution_ns(np.array([0, 5 * SECOND])) == SECOND
    assert resolution_ns(np.array([5 * SECOND + 1_000_000])) == 1_000_000
    assert resolution_ns(np.array([7])) == 1


def test_a_minute_of_flows_is_found_in_the_log_of_a_long_run() -> None:
    ends = step_ends(20_000, jitter=0.05)
    fit = fit_clock(job_view([rank_view(0, ends, printed=False)]), steps_of(ends[9_000:9_120]))
    assert fit is not None
    assert abs(fit.shift + 9_001) <= 2  # whole seconds of half-second steps
    assert abs(fit.offset_ns) < SECOND
    printed = fit_clock(job_view([rank_view(0, ends)]), steps_of(ends[9_000:9_120]))
    assert printed is not None
    assert printed.shift == -9_001
