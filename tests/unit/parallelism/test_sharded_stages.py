"""Sharded stages: the first one ends a step between what it scatters and what it gathers for the next one."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.sharded_stages import first_gather_clock, longest_rest_clock
from llmprism.parallelism.stage_links import Pipelines
from unit.builders import MS, Flow, transfer_table

STEPS, STEP, MB = 10, 200, 1_000_000
END = 150
"""Milliseconds: two micro-batches, each gathered for before its passes. The last gradient comes at 90 ms, what the
last backward pass scatters is sent from 140 ms on, and the next step gathers from 152 ms on."""


def step(number, keeps, optimizer=2, scattered=True):
    """Two stages of two replicas: a and b, c and d."""
    at = number * STEP

    def both(begin, length, size):
        return [Flow(x, y, (at + begin) * MS, (at + begin + length) * MS, size) for x, y in ("ab", "ba")]

    links = [(("ac", "bd"), 0), (("ac", "bd"), 30), (("ca", "db"), 60), (("ca", "db"), 90)]
    flows = [Flow(*pair, (at + t) * MS, (at + t + 2) * MS, MB) for pairs, t in links for pair in pairs]
    flows += [] if keeps else both(5, 8, 8 * MB) + both(65, 8, 8 * MB)
    flows += both(140, END - 140, 8 * MB) if scattered else []
    return flows + (both(END + optimizer, 8, 8 * MB) if scattered else [])


def job(keeps=False, optimizer=2, stopped=False):
    flows = [flow for number in range(STEPS) for flow in step(number, keeps, optimizer)]
    flows += step(STEPS, keeps, scattered=False) if stopped else []
    table = transfer_table(flows)
    names = table.addresses
    pairs = [names[a] + names[b] for a, b in zip(table.pair_src, table.pair_dst, strict=True)]
    forward = [(pairs.index("ac"), pairs.index("ca")), (pairs.index("bd"), pairs.index("db"))]
    pipes = Pipelines(((0, 2), (1, 3)), forward, forward, [], rings=False)
    return table, pipes, np.array([pair in ("ab", "ba") for pair in pairs])


def clock_at(place, steps=STEPS):
    ticks = (np.arange(steps, dtype=np.int64) * STEP + place) * MS
    return StepClock(ticks, np.ones(steps - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("keeps", [False, True])
def test_the_step_ends_before_what_the_first_forward_pass_gathers(keeps):
    """Not in its longest silence, in which the last backward pass is computed."""
    table, pipes, shards = job(keeps)
    links = np.isin(np.arange(table.pair_count), np.array(pipes.forward).ravel())
    longest = longest_rest_clock(table, links, shards, clock_at(END + 20))
    assert ((longest.boundary_ns // MS) % STEP == 92).all()
    found = first_gather_clock(table, pipes, shards, 2, clock_at(END + 20))
    assert (found.boundary_ns // MS).tolist()[:-1] == [number * STEP + END for number in range(STEPS - 1)]


def test_where_gathers_follow_at_once_bytes_say_when():
    table, pipes, shards = job(optimizer=0)
    found = first_gather_clock(table, pipes, shards, 2, clock_at(END + 20))
    assert (np.abs(found.boundary_ns[:-1] // MS % STEP - END) <= 1).all()


def test_a_single_micro_batch_tells_nothing():
    table, pipes, shards = job()
    clock = clock_at(END + 20)
    assert first_gather_clock(table, pipes, shards, 1, clock) is clock


def test_a_job_that_stops_in_its_last_backward_pass_has_not_ended_that_step():
    table, pipes, shards = job(stopped=True)
    clock = StepClock(np.append(clock_at(END).boundary_ns, (STEPS * STEP + 92) * MS), np.ones(STEPS, np.bool_), 1.0)
    found = first_gather_clock(table, pipes, shards, 2, clock)
    assert found.boundary_ns.size == STEPS
