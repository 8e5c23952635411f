"""Runs and findings over made-up windows: ids that stay, states, hysteresis."""

from dataclasses import replace
from itertools import pairwise

import pytest

from llmprism.model import FindingKind, FindingPhase, JobState, LiveState
from llmprism.service.codec import decode_state, encode_state
from llmprism.service.looks import Look
from llmprism.service.rules import RULES
from llmprism.service.tracker import TrackerState, track
from llmprism.service.windows import WindowPlan


class Watch:
    """Feeds windows of 60 s every 4 s and remembers everything that was told."""

    def __init__(self, cluster):
        self.cluster = cluster
        self.state = TrackerState()
        self.transitions, self.opened, self.closed, self.steps = [], [], [], []

    def window(self, end, jobs, findings=(), longer=()):
        looks = [Look(self.cluster.report(end - 60, end, jobs, findings), RULES.windows.length), *longer]
        state, changes = track(self.state, looks, RULES)
        again, _ = track(decode_state(encode_state(self.state, WindowPlan()))[0], looks, RULES)
        assert again == state, "a state that was saved and read goes on alike"
        self.state = state
        self.transitions += [(move.run, move.new) for move in changes.transitions]
        self.opened += changes.opened
        self.closed += changes.closed
        self.steps += changes.steps
        return changes

    def run(self, name="job-a"):
        return next(run for run in self.state.runs if run.id == name)

    def tracked(self):
        (tracked,) = self.state.findings
        return tracked


@pytest.fixture
def watch(cluster):
    return Watch(cluster)


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


def test_a_crash_needs_silence_and_is_told_within_15_s(watch):
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


def test_a_hang_that_resumes_is_the_same_run(watch):
    cluster = watch.cluster
    for end in (20, 24, 28):
        watch.window(end, [cluster.job(0, end)])
    hang = cluster.finding(28, kind=FindingKind.HANG)
    for end in (36, 40):
        watch.window(end, [cluster.job(0, end, silent_s=28, state=JobState.HUNG)], [hang])
    assert watch.run().state is LiveState.HUNG
    for end in (48, 52):
        watch.window(end, [cluster.job(0, end)])
        assert watch.run().state is LiveState.RUNNING
    assert len(watch.closed) == 1


def test_a_job_taken_for_crashed_that_goes_on_in_its_step_is_the_same_run(watch):
    cluster = watch.cluster
    for end in (20, 24, 28):
        watch.window(end, [cluster.job(0, end)])
    crash = cluster.finding(28, kind=FindingKind.CRASH)
    for end in (36, 40):
        watch.window(end, [cluster.job(0, end, silent_s=28, state=JobState.CRASHED)], [crash])
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


def test_a_run_that_leaves_the_windows_ends(watch):
    cluster = watch.cluster
    for end in (16, 20, 24):
        watch.window(end, [cluster.job(0, end)], [cluster.finding(8)])
    for end in range(28, 100, 4):
        watch.window(end, [])
    assert watch.run().state is LiveState.ENDED
    assert watch.tracked().phase is FindingPhase.CLOSED if watch.state.findings else len(watch.closed) == 1


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


def test_what_ended_long_ago_and_was_never_seen_is_no_finding(watch):
    cluster = watch.cluster
    for end in range(8, 120, 4):
        watch.window(end, [cluster.job(end - 60, end)], [cluster.finding(30, 33)] if end >= 80 else [])
    assert watch.opened == []


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
