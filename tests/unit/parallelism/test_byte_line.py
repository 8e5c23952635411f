import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.byte_line import on_byte_line, with_missing_ticks
from llmprism.parallelism.phase import message_silences
from unit.builders import MS, Flow, transfer_table

MESSAGES, MB = 10, 1_000_000


def job(steps, extra=()):
    """One pair that sends ten messages a step, in some steps one more: its silences, and the flows of each step."""
    flows, now = [], 0
    for step in range(steps):
        flows.append([])
        for _ in range(MESSAGES + (step in extra)):
            flows[-1].append(Flow("a", "b", now, now + 6 * MS, MB))
            now += 10 * MS
    table = transfer_table([flow for step in flows for flow in step])
    return message_silences(table, table.pair_bytes > 0), flows


def clock_at(flows, misplaced):
    """Ticks at the ends of the steps, some so many messages into the next one."""
    ticks = [
        flows[step][-1].end_ns if step not in misplaced else flows[step + 1][misplaced[step] - 1].end_ns
        for step in range(len(flows))
    ]
    return StepClock(np.array(ticks, dtype=np.int64), np.ones(len(ticks) - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("misplaced", [{8: 3}, {8: 3, 9: 3, 10: 3, 11: 3}, {8: 1}])
def test_ticks_that_took_bytes_of_the_next_step_go_back(misplaced):
    silences, flows = job(20)
    found = on_byte_line(silences, clock_at(flows, misplaced))
    assert found.boundary_ns.tolist() == clock_at(flows, {}).boundary_ns.tolist()


def test_bytes_that_are_sent_besides_move_no_tick():
    silences, flows = job(20, extra=(8,))
    clock = clock_at(flows, {})
    assert on_byte_line(silences, clock).boundary_ns.tolist() == clock.boundary_ns.tolist()


def test_ticks_at_either_end_stay():
    """What was sent before the first one and after the last one is not known to be steps."""
    silences, flows = job(20)
    clock = clock_at(flows[:-1], {0: 4, 17: 3})
    assert on_byte_line(silences, clock).boundary_ns[[0, -1]].tolist() == clock.boundary_ns[[0, -1]].tolist()


def test_ticks_that_all_wander_stay():
    silences, flows = job(40)
    wandering = {step: 1 + step * 7 % 5 for step in range(38)}
    clock = clock_at(flows[:-1], wandering)
    assert on_byte_line(silences, clock).boundary_ns.tolist() == clock.boundary_ns.tolist()


@pytest.mark.parametrize("missing", [(8,), (8, 9), (4, 11)])
def test_a_step_with_the_bytes_of_several_is_several(missing):
    silences, flows = job(20)
    whole = clock_at(flows, {})
    kept = np.delete(np.arange(20), missing)
    found = with_missing_ticks(silences, StepClock(whole.boundary_ns[kept], np.ones(kept.size - 1, np.bool_), 1.0))
    assert found.boundary_ns.tolist() == whole.boundary_ns.tolist()
    assert found.regular.all()


@pytest.mark.parametrize("dropped", [1, 18])
def test_the_first_and_the_last_step_may_hold_anything(dropped):
    silences, flows = job(20)
    ticks = np.delete(clock_at(flows, {}).boundary_ns, dropped)
    clock = StepClock(ticks, np.ones(ticks.size - 1, np.bool_), 1.0)
    assert with_missing_ticks(silences, clock) is clock


def test_a_step_that_holds_half_as_much_again_is_one():
    silences, flows = job(20, extra=())
    ticks = np.array([step[-1].end_ns for step in flows], dtype=np.int64)
    ticks[8] = flows[8][4].end_ns
    clock = StepClock(ticks, np.ones(19, np.bool_), 1.0)
    assert with_missing_ticks(silences, clock) is clock
