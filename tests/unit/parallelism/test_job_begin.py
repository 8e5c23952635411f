import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.interruptions import after_interruptions
from llmprism.parallelism.job_begin import place_by_begin
from llmprism.parallelism.phase import message_silences
from unit.builders import MS, Flow, transfer_table

STEPS, MB = 20, 1_000_000


def replicas(*, handed_out=5, wait_ms=900, allocates_ms=200, waits=None):
    """A pair that hands out so many megabytes, waits for the first step, and sends ten megabytes in each: four, and six
    after the longer pause; its first optimizer allocates. `waits` are others: milliseconds by (step, megabyte)."""
    flows, now, ends, turns = [], 0, [], []
    for _ in range(handed_out):
        flows.append(Flow("a", "b", now, now + 9 * MS, MB))
        now += 10 * MS
    now += wait_ms * MS
    for step in range(STEPS):
        for piece in range(10):
            flows.append(Flow("a", "b", now, now + 9 * MS, MB))
            now += (10 + (waits or {}).get((step, piece), 0)) * MS
            if piece == 3:
                turns.append(flows[-1].end_ns)
                now += 120 * MS
        ends.append(flows[-1].end_ns)
        now += (70 + allocates_ms * (step == 0)) * MS
    return transfer_table(flows), np.array(ends), np.array(turns)


def clock_at(ticks):
    return StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("handed_out", [0, 5, 15])
def test_the_longest_of_the_first_waits_lies_between_steps(handed_out):
    transfers, ends, turns = replicas(handed_out=handed_out)
    found = after_interruptions(transfers, clock_at(turns[1:]))
    assert set(found.boundary_ns.tolist()) <= set(ends.tolist())


def test_a_wait_that_no_hand_out_explains_tells_nothing():
    transfers, _, turns = replicas(handed_out=2)
    assert after_interruptions(transfers, clock_at(turns)).boundary_ns.tolist() == turns.tolist()


def test_ticks_stay_where_a_wait_of_about_that_length_lies():
    transfers, ends, _ = replicas(handed_out=0, allocates_ms=500, waits={(0, 4): 600})
    silences = message_silences(transfers, transfers.pair_bytes > 0)
    assert place_by_begin(silences, clock_at(ends), 200 * MS) is None


def test_pipelines_are_set_up_otherwise():
    transfers, _, turns = replicas()
    found = after_interruptions(transfers, clock_at(turns), has_pipelines=True)
    assert found.boundary_ns.tolist() == turns.tolist()
