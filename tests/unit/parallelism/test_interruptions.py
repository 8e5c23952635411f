import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.interruptions import after_interruptions
from unit.builders import MS, Flow, transfer_table

STEP, MESSAGES, MB = 100 * MS, 10, 1_000_000


def job(steps, pauses):
    """One pair that sends ten messages a step, with longer pauses after some (step, message); the ends of its steps."""
    flows, ends, now = [], [], 0
    for step in range(steps):
        for message in range(MESSAGES):
            flows.append(Flow("a", "b", now, now + 6 * MS, MB))
            now += 10 * MS
            if message == MESSAGES - 1:
                ends.append(flows[-1].end_ns)
            now += pauses.get((step, message), 0)
    return transfer_table(flows), flows, np.array(ends, dtype=np.int64)


def clock_at(ticks):
    ticks = np.array(ticks, dtype=np.int64)
    return StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


def ends_of(flows, message):
    return [flow.end_ns for flow in flows[message::MESSAGES]]


def test_ticks_in_the_next_step_go_back_before_the_pause():
    """They were taken for the end of the first message of the next step."""
    transfers, flows, ends = job(20, {(4, 9): 2 * STEP, (9, 9): 2 * STEP, (14, 9): 2 * STEP})
    before = clock_at(ends_of(flows, 0)[1:])
    found = after_interruptions(transfers, before)
    moved = np.flatnonzero(found.boundary_ns != before.boundary_ns).tolist()
    assert moved == [4, 9, 14]
    assert found.boundary_ns[moved].tolist() == ends[moved].tolist()


def test_all_ticks_move_where_every_pause_is_at_another_place():
    transfers, flows, ends = job(20, {(4, 9): 2 * STEP, (9, 9): STEP, (14, 9): 3 * STEP})
    found = after_interruptions(transfers, clock_at(ends_of(flows, 4)))
    assert np.isin(found.boundary_ns, ends).all()
    assert found.boundary_ns.size >= 18


def test_two_pauses_at_another_place_do_not_overrule_the_ticks():
    transfers, flows, _ = job(20, {(4, 9): 2 * STEP, (9, 9): STEP})
    clock = clock_at(ends_of(flows, 4))
    assert after_interruptions(transfers, clock).boundary_ns.tolist() == clock.boundary_ns.tolist()


def test_stalls_at_places_that_do_not_agree_say_nothing():
    transfers, _, ends = job(20, {(4, 1): 2 * STEP, (8, 3): STEP, (12, 5): STEP, (16, 7): STEP})
    assert after_interruptions(transfers, clock_at(ends)).boundary_ns.tolist() == ends.tolist()


def test_a_fault_of_several_steps_in_a_row_says_nothing():
    transfers, _, ends = job(30, {(step, 4): STEP for step in range(10, 16)})
    assert after_interruptions(transfers, clock_at(ends)).boundary_ns.tolist() == ends.tolist()


def test_a_job_without_interruptions_keeps_its_clock():
    transfers, flows, _ = job(20, {})
    clock = clock_at(ends_of(flows, 3))
    assert after_interruptions(transfers, clock) is clock


def test_pauses_that_vary_from_step_to_step_interrupt_nothing():
    pauses = {(step, 9): (10 + 20 * (step % 3)) * MS for step in range(20)} | {(s, 9): 70 * MS for s in (4, 9, 14)}
    transfers, flows, _ = job(20, pauses)
    clock = clock_at(ends_of(flows, 4))
    assert after_interruptions(transfers, clock).boundary_ns.tolist() == clock.boundary_ns.tolist()
