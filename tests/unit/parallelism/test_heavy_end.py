import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.heavy_end import heavy_end
from unit.builders import MS, Flow, transfer_table

LAYERS, STEPS = 8, 12


def sharded(*, reduce=2, optimizer_ms=9, forward_ms=6, backward_ms=8):
    """A pair of sharded training: a gather per layer forward, a gather with a reduction backward; ends of its steps."""
    flows, ends, now = [], [], 0
    for _ in range(STEPS):
        for layer in range(2 * LAYERS):
            size = 1 if layer < LAYERS else 1 + reduce
            flows.append(Flow("a", "b", now, now + size * MS, size * 1_000_000))
            now += (size + (forward_ms if layer < LAYERS else backward_ms)) * MS
        ends.append(flows[-1].end_ns)
        now = ends[-1] + optimizer_ms * MS
    return transfer_table(flows), np.array(ends, dtype=np.int64)


@pytest.mark.parametrize("place", [3, 6, 9])
def test_the_end_is_where_heavy_bursts_give_way_to_light_ones(place):
    transfers, _ = sharded()
    ticks = transfers.end_ns[place :: 2 * LAYERS]
    clock = StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)
    found = heavy_end(transfers, np.ones(1, dtype=np.bool_), clock)
    assert found is not None
    sent = np.cumsum(transfers.bytes) / (LAYERS * 4 * 1_000_000)
    expected = (sent[2 * LAYERS - 1] - sent[place]) % 1.0
    assert abs((found.shift - expected + 0.5) % 1.0 - 0.5) <= 0.02


def test_a_pause_that_stands_out_ends_the_step_by_itself():
    transfers, ends = sharded(optimizer_ms=60)
    clock = StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)
    assert heavy_end(transfers, np.ones(1, dtype=np.bool_), clock) is None


def test_even_bursts_say_nothing():
    transfers, ends = sharded(reduce=0, forward_ms=6, backward_ms=6, optimizer_ms=6)
    clock = StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)
    assert heavy_end(transfers, np.ones(1, dtype=np.bool_), clock) is None


def test_the_longest_pause_may_lie_between_two_passes_that_are_accumulated():
    """Two passes; the first reduces nothing, so between them nothing is sent for longer than anywhere else."""
    flows, now, middle = [], 0, []
    for _ in range(STEPS):
        for layer in range(4 * LAYERS):
            size = 3 if layer >= 3 * LAYERS else 1
            flows.append(Flow("a", "b", now, now + size * MS, size * 1_000_000))
            now += (size + 8) * MS
            if layer == 2 * LAYERS - 1:
                middle.append(flows[-1].end_ns)
                now += 16 * MS
    ticks = np.array(middle, dtype=np.int64)
    clock = StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)
    found = heavy_end(transfer_table(flows), np.ones(1, dtype=np.bool_), clock)
    assert found is not None
    assert found.shift == pytest.approx(4 / 6, abs=0.02)


def test_buckets_of_replicated_training_leave_too_few_pauses():
    """Three in each step, the first of them the largest, as it happens; each in two parts."""
    flows, ends = [], []
    for step in range(STEPS):
        for begin, size in ((60, 20), (125, 9), (190, 12)):
            for part in range(2):
                start = (200 * step + begin + part * (size // 2 + 2)) * MS
                flows.append(Flow("a", "b", start, start + size * MS // 2, size * 1_000_000))
        ends.append(flows[-1].end_ns)
    clock = StepClock(np.array(ends), np.ones(STEPS - 1, dtype=np.bool_), 1.0)
    assert heavy_end(transfer_table(flows), np.ones(1, dtype=np.bool_), clock) is None


def test_a_light_burst_before_a_clearly_longer_pause_ends_the_step():
    """The network fills the passes, so bursts are alike; the optimizer cuts one of them in two."""
    flows, ends, now = [], [], 0
    for _ in range(STEPS):
        for size in (6, 20, 16, 16, 18, 10):
            flows.append(Flow("a", "b", now, now + size * MS, size * 1_000_000))
            now += (size + 10) * MS
        ends.append(flows[-1].end_ns)
        now += 5 * MS
    ticks = np.array(ends, dtype=np.int64)
    clock = StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)
    found = heavy_end(transfer_table(flows), np.ones(1, dtype=np.bool_), clock)
    assert found is not None
    assert abs((found.shift + 0.5) % 1.0 - 0.5) <= 0.02
