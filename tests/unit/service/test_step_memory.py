"""What the windows of the last minutes agree about: the bytes of a run's step."""

from dataclasses import replace

import numpy as np

from llmprism.model.layout import JobLayout, Layout, PairRoles
from llmprism.model.live import LiveState, TrackedRun
from llmprism.service.codec import decode_state, encode_state
from llmprism.service.rules import RULES
from llmprism.service.step_memory import known_step_bytes, may_last, member_key, step_bytes_of, with_vote
from llmprism.service.tracker import TrackerState
from llmprism.service.windows import WindowPlan

S = 1_000_000_000
STEP = 960_000_000


def run_after(votes, hop_s=4):
    """A run after looks, every few seconds, that show steps of so many bytes each."""
    run = TrackedRun("job-1", ("a", "b"), (), LiveState.RUNNING, 0, 0, 0, 0)
    for number, step_bytes in enumerate(votes, 1):
        run = with_vote(run, step_bytes, number * hop_s * S)
        run = replace(run, whole_ns=number * hop_s * S)
    return run


def test_known_after_a_window_of_agreeing_looks():
    assert known_step_bytes(run_after([STEP] * 14)) == 0
    assert known_step_bytes(run_after([STEP] * 15)) == STEP
    assert known_step_bytes(run_after([STEP, STEP * 101 // 100] * 8)) == STEP


def test_some_windows_that_take_several_steps_for_one_change_nothing():
    assert known_step_bytes(run_after([STEP] * 20 + [2 * STEP] * 15)) == STEP


def test_a_job_that_changes_its_work_has_another_step_after_some_minutes():
    half = RULES.runs.step_kept_ns // (2 * 4 * S)
    assert known_step_bytes(run_after([STEP] * 200 + [5 * STEP] * (2 * half))) == 5 * STEP


def test_other_members_begin_anew():
    run = run_after([STEP] * 30)
    assert known_step_bytes(with_vote(run, 2 * STEP, 124 * S, known=False)) == 0


def test_looks_without_steps_do_not_vote():
    assert run_after([0] * 30).step_votes == ()


def test_votes_survive_a_restart():
    state = TrackerState(runs=(run_after([STEP] * 20 + [2 * STEP] * 3),))
    assert decode_state(encode_state(state, WindowPlan()))[0] == state


def test_handed_out_by_members_of_the_living():
    run = run_after([STEP] * 20)
    ended = replace(run, id="job-2", members=("c", "d"), state=LiveState.ENDED)
    assert step_bytes_of([run, ended]) == {member_key(["b", "a"]): STEP}


def test_a_layout_lasts_only_where_the_looks_agree():
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), np.zeros(0, dtype=np.int8), step_bytes=STEP)
    undisputed, disputed = run_after([STEP] * 5), run_after([STEP, 3 * STEP] * 5)
    assert step_bytes_of([undisputed]) == {}
    assert set(step_bytes_of([disputed]).values()) == {0}
    assert may_last(layout, None)
    assert not may_last(layout, 0)
    assert may_last(layout, STEP * 101 // 100)
    assert not may_last(layout, 2 * STEP)
