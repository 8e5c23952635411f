"""Steps of several passes end after the pass that the optimizer follows, wherever their clock ticks."""

import numpy as np
import pytest

from llmprism.model import PairKind, Sharding, StepClock
from llmprism.model.layout import Group
from llmprism.parallelism.rival_clocks import BestClock, parts_of_steps
from llmprism.parallelism.sharded_job import ShardedJob, after_last_pass
from unit.builders import MS, Flow, transfer_table

PASSES, STEPS, LAYERS = 4, 12, 6
STEP_MS = 90 * PASSES + 20


def passes():
    """Passes of 60 ms computation in layers, then reduction and gathering in one burst, which an optimizer of 20 ms
    cuts in two after every fourth pass. The begins of the passes, and when each step ends."""
    flows, ticks, ends, at = [], [], [], 0
    for number in range(PASSES * STEPS):
        ticks.append(at)
        pause = 20 if number % PASSES == PASSES - 1 else 0
        flows += [Flow("a", "b", (at + 10 * k) * MS, (at + 10 * k + 1) * MS, 1_000_000) for k in range(1, LAYERS)]
        flows.append(Flow("a", "b", (at + 60) * MS, (at + 75) * MS, 6_000_000))
        flows.append(Flow("a", "b", (at + 75 + pause) * MS, (at + 90 + pause) * MS, 6_000_000))
        if pause:
            ends.append((at + 75) * MS)
        at += 90 + pause
    return transfer_table(flows), np.array(ticks, dtype=np.int64) * MS, np.array(ends, dtype=np.int64)


def clock_of(ticks):
    return StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


def judged(sharding):
    """A clock of steps that ticks after the second pass, and what the passes say about it."""
    transfers, ticks, ends = passes()
    sharded = ShardedJob(sharding, (Group(PairKind.DP, (0, 1)),), clock_of(ticks[2::PASSES]))
    parts = parts_of_steps(BestClock.of(sharded.clock, clock_of(ticks), 0.1))
    return sharded, after_last_pass(transfers, np.ones(transfers.pair_count, dtype=np.bool_), sharded, parts), ends


def test_the_step_ends_where_the_optimizer_cuts_a_pass():
    _, found, ends = judged(Sharding.FSDP)
    assert found.passes == PASSES
    assert found.clock.boundary_ns == pytest.approx(ends[:-1], abs=MS)


def test_passes_of_replicas_stay_where_they_are():
    sharded, found, _ = judged(Sharding.UNKNOWN)
    assert found is sharded


def test_a_slower_rival_has_no_parts_of_steps():
    _, ticks, _ = passes()
    assert parts_of_steps(BestClock.of(clock_of(ticks), clock_of(ticks[::PASSES]), 0.1)) is None
