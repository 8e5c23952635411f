"""Findings over made-up windows: when they open, what moves their start, when they close."""

from dataclasses import replace

import pytest

from llmprism.model import FindingPhase, LiveState


def test_a_finding_opens_at_its_second_sighting_and_closes_once(watch):
    cluster = watch.cluster
    for end in range(8, 100, 4):
        shown = []
        if end >= 30:
            shown = [cluster.finding(28, end_s=50 if end >= 52 else None)]
        watch.window(end, [cluster.job(end - 60, end)], shown)
        if end == 32:
            assert watch.opened == []
        if end == 36:
            assert len(watch.opened) == 1
    assert len(watch.opened) == len(watch.closed) == 1
    assert watch.tracked().finding.end_ns == cluster.finding(0, 50).end_ns
    assert watch.tracked().reason == "it ended"


def test_one_odd_window_opens_nothing(watch):
    cluster = watch.cluster
    for end in range(8, 60, 4):
        watch.window(end, [cluster.job(end - 60, end)], [cluster.finding(18)] if end in (20, 40) else [])
    assert watch.opened == []


def test_what_is_wrong_more_often_than_right_waits_until_it_is_surer(watch):
    cluster = watch.cluster
    for end in range(8, 60, 4):
        shown = [replace(cluster.finding(18), confidence=0.49 if end < 40 else 0.51)] if end >= 20 else []
        watch.window(end, [cluster.job(end - 60, end)], shown)
        assert len(watch.opened) == (end >= 40)


def few_and_many_steps(watch, many):
    """A job of one-second steps and a finding at 18 s; windows that are not among `many` take four steps for one."""
    cluster = watch.cluster
    for end in range(8, 28, 4):
        job = cluster.job(0, end) if end < 20 or end in many else cluster.job(0, end, period=4)
        watch.window(end, [job], [cluster.finding(18)] if end >= 20 else [])


@pytest.mark.parametrize("many", [(20,), (24,)])
def test_a_window_with_few_steps_of_a_known_job_is_one_of_two_sightings(watch, many):
    few_and_many_steps(watch, many)
    assert watch.tracked().phase is FindingPhase.OPEN


def test_windows_with_few_steps_open_nothing_alone(watch):
    few_and_many_steps(watch, ())
    assert watch.tracked().phase is FindingPhase.PENDING
    assert watch.opened == []


def test_a_finding_that_flickers_does_not_flap(watch):
    cluster = watch.cluster
    for end in range(8, 120, 4):
        shown = [cluster.finding(18)] if 20 <= end < 80 and end % 12 else []
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert len(watch.opened) == len(watch.closed) == 1
    assert watch.tracked().reason == "no longer seen" if watch.state.findings else True


def test_a_fault_longer_than_the_window_keeps_its_start_and_adds_up_its_cost(watch):
    cluster = watch.cluster
    watch.window(20, [cluster.job(0, 20)])
    for end in range(24, 240, 4):
        visible = max(20, end - 60)
        shown = cluster.finding(visible, lost=float(end - visible))
        watch.window(end, [cluster.job(end - 60, end)], [shown])
    assert len(watch.opened) == 1
    tracked = watch.tracked()
    assert tracked.finding.start_ns == cluster.finding(20).start_ns
    assert tracked.finding.lost_gpu_seconds == pytest.approx(236 - 20, rel=0.02)


def test_later_windows_correct_a_start_that_an_early_one_placed_too_early(watch):
    cluster = watch.cluster
    for end in range(8, 48, 4):
        shown = [cluster.finding(27 if end == 32 else 30)] if end >= 32 else []
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert watch.tracked().finding.start_ns == cluster.finding(30).start_ns


def test_another_bout_of_a_fault_does_not_move_its_start(watch):
    cluster = watch.cluster
    for end in range(8, 48, 4):
        shown = [cluster.finding(27, 30) if end < 40 else cluster.finding(38)] if end >= 32 else []
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert watch.tracked().finding.start_ns == cluster.finding(27).start_ns


@pytest.mark.parametrize("later_first", [False, True])
def test_two_bouts_in_one_window_are_one_finding(watch, later_first):
    """A slow NIC that one window shows in two parts, as records that came late can make it."""
    cluster = watch.cluster
    for end in range(8, 120, 4):
        shown = [cluster.finding(31, lost=5.0)] if end >= 36 else []
        if end >= 56:
            shown = [cluster.finding(31, 40, lost=2.0), cluster.finding(46, 61 if end >= 64 else None, lost=3.0)]
        watch.window(end, [cluster.job(end - 60, end)], shown[::-1] if later_first else shown)
    assert len(watch.opened) == len(watch.closed) == 1
    finding = watch.tracked().finding
    assert (finding.start_ns, finding.end_ns) == (cluster.finding(31).start_ns, cluster.finding(0, 61).end_ns)
    assert finding.lost_gpu_seconds == 5.0


def test_a_window_with_little_before_a_fault_does_not_move_its_start(watch):
    cluster = watch.cluster
    for end in range(8, 80, 4):
        shown = [cluster.finding(22 if end < 76 else 30)] if end >= 24 else []
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert watch.tracked().finding.start_ns == cluster.finding(22).start_ns


def test_windows_that_miss_the_end_of_a_closed_finding_open_no_other(watch):
    cluster = watch.cluster
    for end in range(8, 100, 4):
        shown = []
        if end >= 24:
            shown = [cluster.finding(22, end_s=None if end < 60 or end in (72, 76) else 50)]
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert len(watch.opened) == len(watch.closed) == 1


def test_a_fault_that_returns_after_its_close_is_a_new_finding(watch):
    cluster = watch.cluster
    for end in range(8, 140, 4):
        shown = []
        if 24 <= end < 90:
            shown = [cluster.finding(22, end_s=30 if end >= 32 else None)]
        if end >= 90:
            shown = [cluster.finding(88)]
        watch.window(end, [cluster.job(end - 60, end)], shown)
    assert len(watch.opened) == 2
    assert len(watch.closed) == 1


def test_the_first_steps_of_a_job_accuse_nobody(watch):
    cluster = watch.cluster
    for end in (6, 7):
        watch.window(end, [cluster.job(0, end)], [cluster.finding(2)])
    assert watch.run().state is LiveState.RUNNING
    assert watch.state.findings == ()


def test_findings_of_jobs_that_are_not_believed_wait(watch):
    cluster = watch.cluster
    watch.window(4, [cluster.job(0, 4)], [cluster.finding(1)])
    assert watch.state.findings == ()


def test_what_ended_long_ago_and_was_never_seen_is_no_finding(watch):
    cluster = watch.cluster
    for end in range(8, 120, 4):
        watch.window(end, [cluster.job(end - 60, end)], [cluster.finding(30, 33)] if end >= 80 else [])
    assert watch.opened == []
