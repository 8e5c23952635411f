from hypothesis import given
from hypothesis import strategies as st

from llmprism.model import Window
from llmprism.service.windows import (
    SECOND,
    JobPace,
    WindowRules,
    affordable_plan,
    due_window,
    hop_of,
    resized,
    started,
    watermark,
)

RULES = WindowRules()


def test_a_window_is_due_when_the_watermark_passes_its_end():
    plan = started(101 * SECOND, RULES)
    assert plan.next_end == 104 * SECOND
    assert due_window(plan, watermark(105 * SECOND, RULES), None, RULES) is None
    assert due_window(plan, watermark(106 * SECOND, RULES), None, RULES) == Window(44 * SECOND, 104 * SECOND)


def test_nothing_is_due_before_the_first_record():
    from llmprism.service.windows import WindowPlan

    assert due_window(WindowPlan(), 10**18, None, RULES) is None


def test_a_gap_is_jumped_over():
    plan = started(100 * SECOND, RULES)
    window = due_window(plan, 5_000 * SECOND, 4_001 * SECOND, RULES)
    assert window is not None
    assert window.end_ns == 4_004 * SECOND


def test_a_job_with_46_s_steps_gets_a_window_that_holds_eight_of_them():
    plan = started(100 * SECOND, RULES)
    done = Window(40 * SECOND, 100 * SECOND)
    for _ in range(6):
        plan = resized(plan, done, [JobPace(0, 0), JobPace(200, SECOND // 4)], RULES)
        done = Window(plan.next_end - plan.length, plan.next_end)
    assert plan.length == RULES.longest
    plan = resized(plan, done, [JobPace(9, int(46.6 * SECOND))], RULES)
    assert 8 * 46.6 * SECOND <= plan.length < RULES.longest
    assert resized(plan, done, [JobPace(200, SECOND)], RULES).length == RULES.length


def test_a_busy_cluster_keeps_short_windows():
    plan = resized(started(100 * SECOND, RULES), Window(40 * SECOND, 100 * SECOND), [JobPace(9, 40 * SECOND)], RULES)
    assert plan.length > RULES.length
    done = Window(40 * SECOND, 100 * SECOND)
    assert affordable_plan(plan, done, 1_000, 6_000_000, RULES) == plan
    busy = affordable_plan(plan, done, 1_500_000, 6_000_000, RULES)
    assert busy.length == RULES.length
    assert busy.next_end == 104 * SECOND
    assert (
        affordable_plan(plan, Window(44 * SECOND, 104 * SECOND), 1_500_000, 6_000_000, RULES).next_end == 112 * SECOND
    )


@given(
    st.lists(st.builds(JobPace, st.integers(0, 1000), st.integers(0, 10**12)), max_size=5),
    st.integers(10**18, 2 * 10**18),
)
def test_ends_rise_and_lengths_stay_in_bounds(paces, first):
    plan = started(first, RULES)
    for _ in range(4):
        window = due_window(plan, 4 * 10**18, None, RULES)
        assert window is not None
        after = resized(plan, window, paces, RULES)
        assert after.next_end > window.end_ns
        assert RULES.length <= after.length <= RULES.longest
        assert after.next_end % hop_of(after.length, RULES) == 0
        plan = after
