"""Two stages and eight micro-batches, a pass every 10 ms and a step every 200 ms; collectives of two members."""

import numpy as np
import pytest

from llmprism.parallelism.outstanding import outstanding_steps
from unit.builders import MS, Flow, transfer_table

STEPS, BATCHES, STEP_MS = 12, 8, 200


def sent(way, at_ms, size=1_000_000):
    return Flow(way[0], way[1], int(at_ms * MS), int((at_ms + 1) * MS), size)


def clock_of(flows):
    transfers = transfer_table(flows)
    found = outstanding_steps(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    return None if found is None else found.clock


def step(number, ways):
    """A message each way given, evenly over the step."""
    places = STEP_MS / (len(ways) + 1)
    return [sent(way, number * STEP_MS + places * (place + 1)) for place, way in enumerate(ways)]


def test_a_pipeline_has_nothing_outstanding_once_in_a_step():
    ways = ["ab", "ab", *["ba", "ab"] * (BATCHES - 2), "ba", "ba"]
    clock = clock_of([flow for number in range(STEPS) for flow in step(number, ways)])
    assert clock is not None
    assert clock.period_ns == pytest.approx(STEP_MS * MS, rel=0.01)


def test_activations_and_gradients_that_leave_together_are_answered_at_the_end_of_the_step():
    flows = []
    for number in range(STEPS):
        begin = number * STEP_MS
        flows += [sent("ab", begin + 20 * k) for k in range(BATCHES)]
        flows += [sent("ba", begin + 20 * k) for k in range(1, BATCHES + 1)]
    clock = clock_of(flows)
    assert clock is not None
    assert clock.period_ns == pytest.approx(STEP_MS * MS, rel=0.01)


def test_messages_are_counted_where_every_micro_batch_has_a_length_of_its_own():
    rng = np.random.default_rng(1)
    flows = []
    for number in range(STEPS):
        size = rng.integers(750_000, 1_250_000, BATCHES).tolist()
        ways = ["ab", "ab", *["ba", "ab"] * (BATCHES - 2), "ba", "ba"]
        sizes = {way: iter(size) for way in ("ab", "ba")}
        flows += [flow._replace(bytes=next(sizes[flow.src + flow.dst])) for flow in step(number, ways)]
    clock = clock_of(flows)
    assert clock is not None
    assert clock.period_ns == pytest.approx(STEP_MS * MS, rel=0.01)
    assert clock.steps >= STEPS - 2


@pytest.mark.parametrize("late_ms", [0.0, 0.3])
def test_what_two_members_reduce_is_answered_at_once(late_ms):
    flows = [
        sent(way, 200 * number + 20 * k + late_ms * (way == "ba"))
        for number in range(STEPS) for k in range(BATCHES) for way in ("ab", "ba")
    ]  # fmt: skip
    assert clock_of(flows) is None


def test_up_and_down_a_tree_of_two_says_nothing():
    assert clock_of([flow for number in range(STEPS) for flow in step(number, ["ab", "ba"] * 4)]) is None


def test_steps_of_unlike_bytes_are_none():
    rng = np.random.default_rng(3)
    flows = []
    for number in range(STEPS):
        count = int(rng.integers(2, 12))
        flows += step(number, ["ab", "ab", *["ba", "ab"] * count, "ba", "ba"])
    assert clock_of(flows) is None


def batched(number, stalled=()):
    """Activations leave with the gradients of those before; in stalled places a gradient is late."""
    begin = number * STEP_MS
    flows = [sent("ab", begin + 20 * k) for k in range(BATCHES)]
    return flows + [sent("ba", begin + 20 * k + 9.0 * ((number, k) in stalled)) for k in range(1, BATCHES + 1)]


def test_a_stall_in_some_steps_is_no_end_of_a_step():
    stalled = {(1, 3), (4, 6), (5, 2), (8, 5)}
    clock = clock_of([flow for number in range(STEPS) for flow in batched(number, stalled)])
    assert clock is not None
    assert clock.period_ns == pytest.approx(STEP_MS * MS, rel=0.01)


def test_links_that_show_the_step_are_named():
    flows = [flow for number in range(STEPS) for flow in batched(number)]
    collective = [
        sent(way, 200 * number + 20 * k, 3_000_000) for number in range(STEPS) for k in range(8) for way in ("cd", "dc")
    ]
    transfers = transfer_table(flows + collective)
    found = outstanding_steps(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    assert found is not None
    ends = {
        transfers.addresses[transfers.pair_src[pair]] + transfers.addresses[transfers.pair_dst[pair]]
        for pair in found.pairs
    }
    assert ends in ({"ab"}, {"ba"})


def test_chunks_pass_the_highest_level_several_times_in_a_step():
    ways = ["ab", *["ab", "ab", "ba", "ba"] * 4, "ba"]
    clock = clock_of([flow for number in range(STEPS) for flow in step(number, ways)])
    assert clock is not None
    assert clock.period_ns == pytest.approx(STEP_MS * MS, rel=0.01)
