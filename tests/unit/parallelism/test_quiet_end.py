"""Steps whose gradients nobody sees end with the norm, or one backward pass after the last message."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.quiet_end import quiet_ends
from unit.builders import MS, Flow, transfer_table

STEP_MS = 100
STEPS = 16
BATCHES = 2
BACKWARD_MS = 10
SIZE = 4_000_000


def pipelines(count=4):
    """Two stages; the last takes 15 ms for each micro-batch, then all rest until the next step."""
    flows = []
    for step in range(STEPS):
        for p in range(count):
            at = step * STEP_MS
            first, last = f"a{p}", f"b{p}"
            flows += [Flow(first, last, (at + 2 + 5 * m) * MS, (at + 4 + 5 * m) * MS, SIZE) for m in range(BATCHES)]
            flows += [Flow(last, first, (at + 19 + 15 * m) * MS, (at + 21 + 15 * m) * MS, SIZE) for m in range(BATCHES)]
    return flows


def norms(place_ms, count=4, steps=range(STEPS)):
    return [
        Flow(f"a{p}", f"b{p}", (step * STEP_MS + place_ms) * MS, (step * STEP_MS + place_ms) * MS + 20_000, 64)
        for step in steps
        for p in range(count)
    ]


def ends_ms(flows, apart_ms=STEP_MS):
    transfers = transfer_table(flows)
    name = list(transfers.addresses)
    pair = {(name[s], name[d]): i for i, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(pair[f"a{p}", f"b{p}"], pair[f"b{p}", f"a{p}"]) for p in range(4)]
    rests = (np.arange(STEPS, dtype=np.int64) * apart_ms + 36) * MS
    clock = StepClock(rests, np.ones(STEPS - 1, dtype=np.bool_), 1.0)
    moved = quiet_ends(transfers, links, links, BATCHES, clock)
    return (moved.boundary_ns / MS) % apart_ms


def test_without_any_sign_the_step_ends_one_backward_pass_after_the_last_message():
    assert ends_ms(pipelines()) == pytest.approx(36 + BACKWARD_MS, abs=1.0)


def test_the_norm_ends_the_step():
    assert ends_ms(pipelines() + norms(52)) == pytest.approx(52, abs=0.1)


def test_a_norm_that_is_missed_now_and_then_is_taken_to_come_at_its_usual_time():
    seen = [step for step in range(STEPS) if step % 5]
    assert ends_ms(pipelines() + norms(52, steps=seen)) == pytest.approx(52, abs=0.1)


def test_heartbeats_one_by_one_are_no_norm():
    beats = [
        Flow("a0", "b0", (step * STEP_MS + place) * MS, (step * STEP_MS + place) * MS + 9_000, 64)
        for step in range(STEPS)
        for place in (57, 71, 83)
    ]
    assert ends_ms(pipelines() + beats) == pytest.approx(36 + BACKWARD_MS, abs=1.0)


def test_tiny_messages_that_come_with_the_last_message_are_no_norm():
    assert ends_ms(pipelines() + norms(36)) == pytest.approx(36 + BACKWARD_MS, abs=1.0)


def test_messages_at_the_end_of_an_evaluation_are_not_the_norm_of_the_step_before_it():
    """The last step of three rests for twice as long, and its members exchange tiny messages once more in that rest."""
    apart = 3 * STEP_MS // 2

    def in_time(flow):
        step, place = divmod(flow.start_ns, STEP_MS * MS)
        start = step * apart * MS + place
        return flow._replace(start_ns=start, end_ns=start + flow.end_ns - flow.start_ns)

    evaluated = [step for step in range(STEPS) if step % 3 == 2]
    flows = [in_time(flow) for flow in pipelines() + norms(52)]
    flows += [
        Flow(f"a{p}", f"b{p}", (step * apart + 140) * MS, (step * apart + 140) * MS + 20_000, 64)
        for step in evaluated
        for p in range(4)
    ]
    assert ends_ms(flows, apart) == pytest.approx(52, abs=0.1)
