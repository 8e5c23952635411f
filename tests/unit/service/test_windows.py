from hypothesis import given
from hypothesis import strategies as st

from llmprism.model import Window
from llmprism.service.windows import (
    SECOND,
    Cost,
    WindowPlan,
    WindowRules,
    affordable_hop,
    affords,
    check_ends,
    due_window,
    following,
    look_due,
    reach_for,
    reach_longer,
    started,
    usual_cost,
    watermark,
)

RULES = WindowRules()


def test_a_window_is_due_when_the_watermark_passes_its_end():
    plan = started(101 * SECOND, RULES)
    assert plan.next_end == 104 * SECOND
    assert due_window(plan, watermark(105 * SECOND, RULES), None, RULES) is None
    assert due_window(plan, watermark(106 * SECOND, RULES), None, RULES) == Window(44 * SECOND, 104 * SECOND)


def test_nothing_is_due_before_the_first_record():
    assert due_window(WindowPlan(), 10**18, None, RULES) is None


def test_a_gap_is_jumped_over():
    plan = started(100 * SECOND, RULES)
    window = due_window(plan, 5_000 * SECOND, 4_001 * SECOND, RULES)
    assert window is not None
    assert window.end_ns == 4_004 * SECOND


def test_a_job_with_46_s_steps_gets_looks_that_hold_eight_of_them():
    assert reach_for(int(46.6 * SECOND), RULES) == 480 * SECOND
    assert reach_for(SECOND, RULES) == RULES.length
    assert reach_for(3_600 * SECOND, RULES) == RULES.longest
    assert reach_longer(0, RULES) == 2 * RULES.length
    assert reach_longer(RULES.longest, RULES) == RULES.longest


@given(st.integers(0, 10_000), st.sampled_from([60, 120, 240, 480, 960]))
def test_a_longer_look_is_made_less_often(first, reach):
    """Whatever the ends of the windows are, also when some are left out: once per hop of its own."""
    made, last = 0, first * 4 * SECOND
    for number in range(1, 241):
        end = last + 4 * SECOND
        made += look_due(reach * SECOND, WindowPlan(end, last), end, RULES)
        last = end
        assert made in (number * 60 // reach, number * 60 // reach + 1)


def test_a_machine_that_is_too_slow_makes_fewer_windows():
    done = Window(40 * SECOND, 100 * SECOND)
    mark = 101 * SECOND
    assert following(done, mark, 10**8, RULES) == WindowPlan(104 * SECOND, 100 * SECOND, mark)
    assert following(Window(44 * SECOND, 104 * SECOND), mark, 3 * SECOND, RULES).next_end == 120 * SECOND


def test_the_next_window_is_a_whole_hop_away_wherever_the_last_one_ended():
    for end in range(100, 160, 4):
        plan = following(Window((end - 60) * SECOND, end * SECOND), end * SECOND, 9 * SECOND, RULES)
        assert plan.next_end == (end + 32) * SECOND


def test_what_a_window_takes_is_the_lesser_of_two_for_as_many_records():
    assert usual_cost(Cost(9 * SECOND, 10**6), None) == 0, "the first one of a process compiles"
    assert usual_cost(Cost(9 * SECOND, 10**6), Cost(5 * SECOND, 10**6)) == 5 * SECOND
    assert usual_cost(Cost(5 * SECOND, 10**6), Cost(9 * SECOND, 10**6)) == 5 * SECOND
    assert usual_cost(Cost(9 * SECOND, 10**6), Cost(SECOND, 1_000)) == 9 * SECOND, "a thousand records say nothing"
    assert usual_cost(Cost(5 * SECOND, 0), Cost(SECOND, 10**6)) == SECOND


def test_work_that_nobody_waits_for_keeps_to_its_share_of_the_time():
    assert affords(SECOND, 4 * SECOND, RULES)
    assert not affords(9 * SECOND, 28 * SECOND, RULES)
    assert affords(9 * SECOND, 32 * SECOND, RULES)


def test_a_fast_machine_keeps_the_hop_whatever_the_number_of_records():
    assert affordable_hop(0, SECOND, RULES) == RULES.hop


def test_many_windows_due_at_once_are_fewer_and_still_overlap():
    assert affordable_hop(300 * SECOND, SECOND // 10, RULES) == RULES.hop, "cheap windows are all made"
    hop = affordable_hop(300 * SECOND, 5 * SECOND, RULES)
    assert RULES.hop < hop <= 0.75 * RULES.length


def test_dear_windows_keep_to_their_budget_per_record():
    """A window of a million records that takes a second may be made once per 46 s (1.3 s per million), not once per
    4 s; one that takes half a second is nothing to save at."""
    assert affordable_hop(0, SECOND, RULES, 1_000_000) == 44 * SECOND
    assert affordable_hop(0, SECOND // 2, RULES, 1_000_000) == RULES.hop
    assert affordable_hop(0, SECOND, RULES, 100_000) == RULES.hop, "too few to be worth it"
    assert affordable_hop(0, SECOND, RULES, 20_000_000) == RULES.hop, "cheap for so many records"


def test_windows_of_a_job_with_long_steps_overlap_by_four_of_them():
    hop = affordable_hop(300 * SECOND, 9 * SECOND, RULES, step_ns=8 * SECOND)
    assert RULES.length - hop >= 4 * 8 * SECOND
    assert hop < affordable_hop(300 * SECOND, 9 * SECOND, RULES, step_ns=SECOND)


def test_windows_begin_also_with_a_record_of_1970():
    assert started(0, RULES).next_end > 0


@given(st.integers(0, 10**12), st.integers(0, 10**11), st.integers(10**18, 2 * 10**18))
def test_ends_rise(behind, took, first):
    plan = started(first, RULES)
    for _ in range(4):
        window = due_window(plan, 4 * 10**18, None, RULES)
        assert window is not None
        after = following(window, window.end_ns + behind, took, RULES)
        assert after.next_end > window.end_ns
        assert after.next_end % RULES.hop == 0
        plan = after


def test_activity_is_checked_between_windows_that_are_made_seldom():
    plan = WindowPlan(128 * SECOND, 100 * SECOND, 101 * SECOND)
    assert check_ends(plan, 103 * SECOND, RULES) == 0
    assert check_ends(plan, 109 * SECOND, RULES) == 108 * SECOND
    assert check_ends(plan, 200 * SECOND, RULES) == 124 * SECOND
    assert check_ends(WindowPlan(104 * SECOND, 100 * SECOND), 103 * SECOND, RULES) == 0
