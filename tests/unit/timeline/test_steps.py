from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.model import Job, JobLayout, Layout, PairKind, PairRoles, StepClock
from llmprism.timeline.steps import member_ends, steps_of
from unit.builders import MS, Flow, transfer_table

STEP = 100 * MS


def result(flows, boundary_ns, regular=None, kind=PairKind.DP):
    """A job with these flows, all of one kind, and a layout whose clock ticks at these times."""
    transfers = transfer_table(flows)
    members = tuple(range(len(transfers.addresses)))
    boundary = np.array(boundary_ns, dtype=np.int64)
    marks = np.ones(boundary.size - 1, dtype=np.bool_) if regular is None else np.array(regular, dtype=np.bool_)
    kinds = np.full(transfers.start_ns.size, kind, dtype=np.int8)
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), kinds, clock=StepClock(boundary, marks, 1.0))
    return Job("job", members, (), 1.0, transfers), layout


def burst(step_start, lead_ms=60, size=1_000_000, pair="ab"):
    """One message of a step, `lead_ms` after its start."""
    start = int(step_start) + lead_ms * MS
    return Flow(*pair, start, start + 30 * MS, size)


def test_steps_run_from_boundary_to_boundary():
    boundary = np.arange(6) * STEP
    steps = steps_of(*result([burst(b) for b in boundary[:-1]], boundary))
    assert steps.start_ns.tolist() == boundary[:-1].tolist()
    assert steps.end_ns.tolist() == boundary[1:].tolist()
    assert not steps.setup.any()


def test_irregular_links_are_no_steps():
    boundary = np.array([0, 1, 2, 5, 6]) * STEP
    steps = steps_of(*result([burst(b) for b in boundary[:-1]], boundary, [True, True, False, True]))
    assert (steps.end_ns // STEP).tolist() == [1, 2, 6]
    assert (steps.start_ns // STEP).tolist() == [0, 1, 5]


def test_a_long_first_step_is_set_up():
    boundary = np.concatenate([[0], 800 * MS + np.arange(6) * STEP])
    flows = [burst(0, 60), Flow("a", "b", 700 * MS, 790 * MS, 1_000_000), *(burst(b) for b in boundary[1:-1])]
    steps = steps_of(*result(flows, boundary))
    assert steps.setup.tolist() == [True, False, False, False, False, False]
    early = steps_of(*result(flows, boundary, [False, True, True, True, True, True]))
    assert not early.setup.any(), "the first step seen is not the first of the job"


def test_the_end_of_the_jobs_own_first_step_is_where_the_second_begins_as_usual():
    """Its optimizer allocates state, which nothing shows."""
    boundary = np.concatenate([[0], 800 * MS + np.arange(6) * STEP])
    flows = [burst(0), burst(boundary[1], 80), *(burst(b) for b in boundary[2:-1])]
    assert steps_of(*result(flows, boundary)).end_ns[0] == boundary[1] + 20 * MS


def test_a_first_step_that_is_no_longer_than_others_may_be_is_not_the_jobs_own():
    length = STEP * np.array([1.5, 0.8, 1.25, 1.0, 0.75, 1.2, 1.0])
    boundary = np.concatenate([[0], np.cumsum(length).astype(np.int64)])
    flows = [burst(0), burst(boundary[1], 80), *(burst(b) for b in boundary[2:-1])]
    assert steps_of(*result(flows, boundary)).end_ns[0] == boundary[1]


def test_a_pause_after_the_first_step_of_a_running_job_moves_nothing():
    boundary = np.array([0, STEP, 5 * STEP, 6 * STEP, 7 * STEP, 8 * STEP])
    starts = [0, 4 * STEP, 5 * STEP, 6 * STEP, 7 * STEP]
    steps = steps_of(*result([burst(s) for s in starts], boundary))
    assert steps.end_ns.tolist() == boundary[1:].tolist()


def test_a_step_that_the_window_cuts_off_has_no_end():
    boundary = np.arange(7) * STEP
    boundary[-1] = 5 * STEP + 80 * MS
    flows = [burst(b) for b in boundary[:-2]]
    cut = [*flows, burst(boundary[-2], lead_ms=50, size=600_000)]
    assert steps_of(*result(cut, boundary)).count == 5
    whole = [*flows, burst(boundary[-2], lead_ms=50)]
    assert steps_of(*result(whole, boundary)).count == 6
    goes_on = [*cut, burst(boundary[-1], lead_ms=60)]
    assert steps_of(*result(goes_on, boundary)).count == 6


def test_a_last_step_that_the_job_ended_with_is_whole():
    """Nobody gathers for a next step, so that it has fewer bytes than the others."""
    boundary = np.arange(7) * STEP
    boundary[-1] = 5 * STEP + 80 * MS
    flows = [*(burst(b) for b in boundary[:-2]), burst(boundary[-2], lead_ms=50, size=600_000)]
    job, layout = result(flows, boundary)
    steps = steps_of(job, replace(layout, clock=replace(layout.clock, complete=True)))
    assert steps.count == 6
    assert steps.job_end_ns == boundary[-1]


def test_a_pause_before_a_step_belongs_to_no_step():
    pause = 900 * MS
    boundary = np.array([0, STEP, 2 * STEP, 3 * STEP + pause, 4 * STEP + pause, 5 * STEP + pause])
    starts = [0, STEP, 2 * STEP + pause, 3 * STEP + pause, 4 * STEP + pause]
    steps = steps_of(*result([burst(s) for s in starts], boundary))
    assert steps.start_ns.tolist() == starts
    assert steps.end_ns.tolist() == boundary[1:].tolist()
    assert (steps.duration_ns == STEP).all()


def test_a_slow_step_is_no_pause():
    """Its first message comes in time; what takes long lies inside the step."""
    boundary = np.array([0, STEP, 2 * STEP, 9 * STEP, 10 * STEP])
    flows = [*(burst(b) for b in boundary[:-1]), Flow("a", "b", 8 * STEP, 9 * STEP, 1_000_000)]
    steps = steps_of(*result(flows, boundary))
    assert steps.start_ns.tolist() == boundary[:-1].tolist()


def test_heartbeats_are_no_activity():
    pause = 900 * MS
    boundary = np.array([0, STEP, 2 * STEP, 3 * STEP + pause, 4 * STEP + pause])
    starts = [0, STEP, 2 * STEP + pause, 3 * STEP + pause]
    beats = [Flow("a", "b", 2 * STEP + k * 40 * MS, 2 * STEP + k * 40 * MS + 1, 200) for k in range(1, 20)]
    steps = steps_of(*result([burst(s) for s in starts] + beats, boundary))
    assert steps.start_ns.tolist() == starts


def test_no_clock_no_steps():
    job, layout = result([burst(0)], [0, STEP], [False])
    assert steps_of(job, layout).count == 0
    assert member_ends(job, layout, steps_of(job, layout)).shape == (2, 0)


def test_a_member_ends_with_its_last_gradient_message_of_the_step():
    boundary = np.arange(4) * STEP
    flows = [
        burst(0, 10, pair="ab"), burst(0, 50, pair="bc"), burst(STEP, 20, pair="ab"), burst(2 * STEP, 30, pair="ca"),
    ]  # fmt: skip
    job, layout = result(flows, boundary)
    ends = member_ends(job, layout, steps_of(job, layout)) // MS
    assert ends.tolist() == [[40, 150, 260], [80, 150, -1], [80, -1, 260]]


def test_messages_of_other_kinds_and_heartbeats_end_no_step():
    job, layout = result([burst(0), burst(STEP)], np.arange(3) * STEP, kind=PairKind.PP)
    assert (member_ends(job, layout, steps_of(job, layout)) == -1).all()
    job, layout = result([burst(0, size=300), burst(STEP, size=300)], np.arange(3) * STEP)
    assert (member_ends(job, layout, steps_of(job, layout)) == -1).all()


@settings(max_examples=80, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=15),
    st.lists(st.booleans(), min_size=15, max_size=15),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 60), st.integers(0, 5_000)), min_size=1, max_size=40),
)
def test_steps_are_in_order_and_do_not_overlap(lengths, regular, messages):
    boundary = np.concatenate([[0], np.cumsum(lengths)]) * 10 * MS
    flows = [Flow("a", "b", start * MS, (start + length) * MS, size) for start, length, size in messages]
    job, layout = result(flows, boundary, regular[: len(lengths)])
    steps = steps_of(job, layout)
    assert sum(regular[: len(lengths)]) - steps.count in (0, 1), "the last may be cut off"
    assert (steps.end_ns >= steps.start_ns).all()
    assert (steps.start_ns[1:] >= steps.end_ns[:-1]).all()
    assert not steps.setup[1:].any()
    assert member_ends(job, layout, steps).shape == (2, steps.count)


@pytest.mark.parametrize("shift", [0, 10**18])
def test_steps_move_with_the_clock(shift):
    boundary = np.arange(6) * STEP + shift
    steps = steps_of(*result([burst(b) for b in boundary[:-1]], boundary))
    assert (steps.start_ns - shift).tolist() == (np.arange(5) * STEP).tolist()


def test_a_long_step_after_the_start_of_the_job_is_not_set_up():
    boundary = np.concatenate([[0, STEP], 900 * MS + np.arange(6) * STEP])
    flows = [burst(0), burst(STEP), Flow("a", "b", 800 * MS, 890 * MS, 1_000_000), *(burst(b) for b in boundary[2:-1])]
    steps = steps_of(*result(flows, boundary, [False, True, True, True, True, True, True]))
    assert steps.duration_ns[0] > 5 * STEP
    assert not steps.setup.any()
