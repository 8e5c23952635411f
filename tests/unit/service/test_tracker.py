"""Runs and findings over made-up windows: ids that stay, states, hysteresis."""

from dataclasses import replace
from itertools import pairwise

import pytest

from llmprism.model import FindingKind, FindingPhase, JobState, LiveState
from llmprism.service.looks import Look
from llmprism.service.rules import RULES
from llmprism.service.tracker import TrackerState, track


def test_a_job_is_believed_when_it_has_steps_and_keeps_its_id_when_members_change(watch):
    cluster = watch.cluster
    watch.window(4, [cluster.job(0, 4)])
    assert watch.state.runs == ()
    watch.window(8, [cluster.job(0, 8)])
    assert watch.run().state is LiveState.STARTED
    watch.window(12, [cluster.job(0, 12)])
    assert watch.run().state is LiveState.RUNNING
    watch.window(16, [cluster.job(0, 16, members=range(7), name="job-other")])
    assert [run.id for run in watch.state.runs] == ["job-a"]
    assert len(watch.run().members) == 7


def test_a_slow_stepping_job_is_believed_after_three_windows(watch):
    for end in (4, 8, 12):
        watch.window(end, [watch.cluster.job(0, end, period=46)])
    assert watch.run().state is LiveState.STARTED


def test_steps_are_recorded_once_and_in_order(watch):
    for end in range(8, 200, 4):
        watch.window(end, [watch.cluster.job(end - 60, end)])
    marks = [mark for _, mark in watch.steps]
    assert [mark.index for mark in marks] == list(range(len(marks)))
    assert all(one.end_ns <= other.start_ns for one, other in pairwise(marks))
    assert len(marks) in range(192, 197)


def test_states_of_a_job_that_slows_stalls_and_ends(watch):
    cluster = watch.cluster
    for end in range(8, 100, 4):
        watch.window(end, [cluster.job(end - 60, end)])
    for end in range(100, 120, 4):
        slow = cluster.job(end - 20, end, period=2)
        watch.window(end, [slow])
    assert watch.run().state is LiveState.SLOWED
    for end in range(120, 164, 4):
        watch.window(end, [cluster.job(end - 60, end, silent_s=120, state=JobState.ENDED)])
    assert [state for _, state in watch.transitions] == [
        LiveState.STARTED, LiveState.RUNNING, LiveState.SLOWED, LiveState.RUNNING, LiveState.STALLED, LiveState.ENDED,
    ]  # fmt: skip


def test_the_first_minute_does_not_decide_what_is_usual(watch):
    cluster = watch.cluster
    watch.window(8, [cluster.job(0, 8, period=0.1)])
    for end in range(12, 100, 4):
        watch.window(end, [cluster.job(end - 60, end)])
    assert watch.run().state is LiveState.RUNNING
    assert watch.run().baseline_ns == 1_000_000_000


def test_one_slow_window_is_not_slowed(watch):
    cluster = watch.cluster
    for end in range(8, 100, 4):
        watch.window(end, [cluster.job(end - 60, end)])
    watch.window(100, [cluster.job(80, 100, period=2)])
    watch.window(104, [cluster.job(44, 104)])
    assert LiveState.SLOWED not in [state for _, state in watch.transitions]


def test_a_crash_needs_silence_and_is_reported_within_15_s(watch):
    cluster = watch.cluster
    crash = cluster.finding(30, kind=FindingKind.CRASH)
    result = None
    for end in range(8, 60, 4):
        stopped = end > 30
        job = cluster.job(end - 60, end, silent_s=30, state=JobState.CRASHED if stopped else JobState.RUNNING)
        watch.window(end, [job], [crash] if stopped else [])
        if watch.opened and result is None:
            result = end
    assert result == 36
    assert watch.run().state is LiveState.CRASHED
    assert watch.closed == []


def test_a_crashed_job_that_trains_again_is_a_new_run_and_closes_the_crash(watch):
    cluster = watch.cluster
    for end in (20, 24, 28):
        watch.window(end, [cluster.job(0, end)])
    crash = cluster.finding(28, kind=FindingKind.CRASH)
    for end in (32, 36, 40):
        watch.window(end, [cluster.job(0, end, silent_s=28, state=JobState.CRASHED)], [crash])
    for end in (60, 64, 68):
        watch.window(end, [cluster.job(50, end)])
    again = watch.run("job-a.2")
    assert again.restart_of == "job-a"
    assert again.state is LiveState.RUNNING
    assert (again.id, LiveState.RESTARTED) in watch.transitions
    assert len(watch.opened) == len(watch.closed) == 1


def stopped_at_28(watch, kind, state):
    """A job of one-second steps that falls silent at 28 s, and windows up to 40 s that say how."""
    cluster = watch.cluster
    for end in (20, 24, 28):
        watch.window(end, [cluster.job(0, end)])
    for end in (36, 40):
        watch.window(end, [cluster.job(0, end, silent_s=28, state=state)], [cluster.finding(28, kind=kind)])


def test_a_hang_that_resumes_is_the_same_run(watch):
    cluster = watch.cluster
    stopped_at_28(watch, FindingKind.HANG, JobState.HUNG)
    assert watch.run().state is LiveState.HUNG
    for end in (48, 52):
        watch.window(end, [cluster.job(0, end)])
        assert watch.run().state is LiveState.RUNNING
    assert len(watch.closed) == 1


def test_a_job_taken_for_crashed_that_goes_on_in_its_step_is_the_same_run(watch):
    cluster = watch.cluster
    stopped_at_28(watch, FindingKind.CRASH, JobState.CRASHED)
    assert watch.run().state is LiveState.CRASHED
    stall = cluster.finding(28, end_s=41, kind=FindingKind.STALL)
    watch.window(44, [cluster.job(0, 42, period=14)], [stall])
    assert watch.run().state is LiveState.RUNNING, "also before its next step"
    for end in (48, 52, 56):
        watch.window(end, [cluster.job(0, end)], [stall])
        assert watch.run().state is LiveState.RUNNING
    assert [run.id for run in watch.state.runs] == ["job-a"]
    assert len(watch.opened) == len(watch.closed) == 1
    assert watch.tracked().finding.kind is FindingKind.STALL
    assert watch.tracked().finding.end_ns == stall.end_ns


@pytest.mark.parametrize("window_s", [44, 47])
def test_the_first_messages_after_a_crash_are_not_the_step_going_on(watch, window_s):
    """What was sent before the crash and the beginning of the next step can make one whole step. The window may end
    long after the last message that its source has delivered."""
    cluster = watch.cluster
    stopped_at_28(watch, FindingKind.CRASH, JobState.CRASHED)
    stall = cluster.finding(28, end_s=43.8, kind=FindingKind.STALL)
    watch.window(window_s, [cluster.job(0, 44, period=22)], [stall])
    assert watch.run().state is LiveState.CRASHED
    for end in (52, 56, 60, 64):
        watch.window(end, [cluster.job(44, end)], [])
    assert watch.run("job-a.2").restart_of == "job-a"
    assert (watch.tracked().finding.kind, watch.tracked().phase) == (FindingKind.CRASH, FindingPhase.CLOSED)
    assert len(watch.opened) == len(watch.closed) == 1


def test_a_run_that_leaves_the_windows_ends(watch):
    cluster = watch.cluster
    for end in (16, 20, 24):
        watch.window(end, [cluster.job(0, end)], [cluster.finding(8)])
    for end in range(28, 100, 4):
        watch.window(end, [])
    assert watch.run().state is LiveState.ENDED
    assert watch.tracked().phase is FindingPhase.CLOSED if watch.state.findings else len(watch.closed) == 1


def test_a_run_without_clear_steps_may_pause_for_longer(watch):
    """A step of 46 s shows nothing for most of it."""
    for end in (4, 8, 12):
        watch.window(end, [watch.cluster.job(0, end, period=46)])
    for end in range(16, 200, 4):
        watch.window(end, [])
    assert watch.run().state.alive
    for end in range(200, 280, 4):
        watch.window(end, [])
    assert watch.run().state is LiveState.ENDED


def test_a_run_that_hangs_in_silence_is_over_after_an_hour(watch):
    cluster = watch.cluster
    for end in range(8, 60, 4):
        watch.window(end, [cluster.job(0, end)])
    for end in range(60, 80, 4):
        watch.window(end, [cluster.job(0, end, silent_s=60, state=JobState.HUNG)])
    assert watch.run().state is LiveState.HUNG
    for end in (200, 1_000, 3_500):
        watch.window(end, [])
        assert watch.run().state is LiveState.HUNG, "it may be looked into"
    watch.window(3_700, [])
    assert watch.transitions[-1][1] is LiveState.ENDED


def test_parts_of_a_run_that_is_not_seen_as_a_whole_any_more_are_jobs(watch):
    cluster = watch.cluster
    for end in range(8, 40, 4):
        watch.window(end, [cluster.job(0, end, members=range(16))])
    ids = []
    for end in range(40, 240, 4):
        halves = ((range(8), "job-p"), (range(8, 16), "job-q"))
        watch.window(end, [cluster.job(end - 60, end, members=members, name=name) for members, name in halves])
        ids.append({run.id for run in watch.state.runs if run.state.alive})
    assert ids[10] == {"job-a"}, "for two windows they may be its parts"
    assert ids[-1] == {"job-a", "job-q"}, "then one of them is a job of its own"


def test_the_tracker_is_pure(watch):
    cluster = watch.cluster
    report = cluster.report(0, 20, [cluster.job(0, 20)], [cluster.finding(8)])
    state = TrackerState()
    assert track(state, [Look(report, RULES.windows.length)], RULES) == track(
        state, [Look(replace(report), RULES.windows.length)], RULES
    )
    assert state == TrackerState()


def test_a_slow_job_is_followed_in_looks_of_its_own(watch):
    """Steps of 46 s: the base window shows one at most; a longer look shows them, and nobody else waits for it."""
    cluster = watch.cluster
    slow, fast = range(8), range(8, 16)
    for end in range(8, 1000, 4):
        base = [cluster.job(end - 60, end, members=fast, name="job-fast")]
        base.append(cluster.job(end - 60, end, period=46, members=slow))
        reach = next((run.reach_ns // 10**9 for run in watch.state.runs if run.id == "job-a"), 0)
        longer = []
        if reach > 60 and end % (reach // 15) < 4:
            report = cluster.report(end - reach, end, [cluster.job(max(0, end - reach), end, period=46)])
            longer = [Look(report, reach * 10**9, frozenset({"job-a"}))]
        watch.window(end, base, longer=longer)
    assert {run.id: run.period_ns for run in watch.state.runs} == {"job-a": 46 * 10**9, "job-fast": 10**9}
    assert watch.run().state is watch.run("job-fast").state is LiveState.RUNNING
    marks = [mark for run, mark in watch.steps if run == "job-a"]
    assert {mark.end_ns - mark.start_ns for mark in marks} == {46 * 10**9}
    assert len(marks) >= 15


def test_pieces_of_a_job_that_stopped_are_no_new_jobs(watch):
    cluster = watch.cluster
    for end in range(8, 60, 4):
        watch.window(end, [cluster.job(0, end)])
    for end in range(60, 120, 4):
        pieces = [
            cluster.job(end - 60, 60, members=range(3), name="job-p"),
            cluster.job(end - 60, 60, members=range(3, 6), name="job-q"),
        ]
        watch.window(end, pieces)
    assert [run.id for run in watch.state.runs] == ["job-a"]


def test_pieces_without_steps_become_one_job_in_a_longer_look(watch):
    cluster = watch.cluster
    for end in (40, 44, 48, 52, 56, 60, 64, 68):
        watch.window(
            end,
            [
                cluster.job(0, end, period=46, members=range(4), name="job-p"),
                cluster.job(0, end, period=46, members=range(4, 16), name="job-q"),
            ],
        )
    assert [run.state for run in watch.state.runs] == [LiveState.STARTED] * 2
    report = cluster.report(0, 480, [cluster.job(0, 480, period=46, members=range(16), name="job-whole")])
    watch.window(480, [], longer=[Look(report, 480 * 10**9, frozenset({"job-p", "job-q"}))])
    assert {run.id: len(run.members) for run in watch.state.runs if run.state.alive} == {"job-q": 16}
    assert watch.run("job-p").state is LiveState.ENDED


def test_an_id_of_long_ago_is_not_given_again(watch):
    report = watch.cluster.report(0, 20, [watch.cluster.job(0, 20)])
    look = Look(report, RULES.windows.length)
    state, _ = track(TrackerState(), [look], RULES, lambda name: name in ("job-a", "job-a.2"))
    assert [run.id for run in state.runs] == ["job-a.3"]


def test_a_hang_that_was_only_a_stall_ends_as_one(watch):
    cluster = watch.cluster
    for end in range(8, 32, 4):
        watch.window(end, [cluster.job(0, end)])
    for end in (36, 40):
        hung = cluster.job(0, end, silent_s=28, state=JobState.HUNG)
        watch.window(end, [hung], [cluster.finding(28, kind=FindingKind.HANG)])
    for end in range(44, 70, 4):
        watch.window(end, [cluster.job(0, end)], [cluster.finding(28, 41, kind=FindingKind.STALL)])
    assert len(watch.opened) == len(watch.closed) == 1
    assert watch.tracked().finding.kind is FindingKind.STALL


def test_a_window_that_shows_a_job_in_halves_does_not_split_it(watch):
    cluster = watch.cluster
    for end in range(8, 40, 4):
        watch.window(end, [cluster.job(0, end, members=range(16))])
    for end in range(40, 64, 4):
        halves = [
            cluster.job(0, end, members=members, name=name)
            for members, name in ((range(8), "job-p"), (range(8, 16), "job-q"))
        ]
        watch.window(end, halves)
        watch.window(end + 2, [cluster.job(0, end + 2, members=range(16))])
    assert [(run.id, len(run.members)) for run in watch.state.runs] == [("job-a", 16)]


def test_halves_of_a_job_that_is_seen_whole_later_leave_one_run(watch):
    """The first windows show each pipeline as a job of its own; later one of them shows up alone once more."""
    cluster = watch.cluster
    for end in (8, 12, 16):
        watch.window(
            end,
            [
                cluster.job(0, end, members=range(8), name="job-p"),
                cluster.job(0, end, members=range(8, 16), name="job-q"),
            ],
        )
    for end in (20, 24, 28, 32):
        watch.window(end, [cluster.job(0, end, members=range(16), name="job-whole")])
    for end in (36, 40):
        watch.window(end, [cluster.job(0, end, members=range(8, 16), name="job-q")])
    alive = [run for run in watch.state.runs if run.state.alive]
    assert [len(run.members) for run in alive] == [16]
    assert len(watch.state.runs) == 2


def test_windows_too_short_for_a_job_show_parts_of_it_that_are_one_run(watch):
    """Steps longer than the window: each window shows another part; the parts overlap, so they are one job."""
    cluster = watch.cluster
    parts = [range(6), range(3, 9), range(9), range(6, 12)]
    for number, end in enumerate(range(20, 220, 4)):
        members = parts[(number // 4) % len(parts)]
        watch.window(end, [cluster.job(end - 60, end, period=46, members=members, name=f"job-{members[0]}")])
    assert [run.id for run in watch.state.runs] == ["job-0"]
    assert len(watch.run("job-0").members) == 12


def test_a_crash_first_seen_in_a_window_made_seldom_is_no_restart(watch):
    """The last look was 56 s ago: that the run has gone on since does not mean that it was started again."""
    cluster = watch.cluster
    for end in (4, 8, 12, 72):
        watch.window(end, [cluster.job(end - 60, end)])
    watch.window(128, [cluster.job(68, 128, silent_s=120.5, state=JobState.CRASHED)])
    assert [(run.id, run.state) for run in watch.state.runs] == [("job-a", LiveState.CRASHED)]
