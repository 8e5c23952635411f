"""Bytes that wander from step to step, and how they are put right."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.parallelism.lost_records import loses_records, with_usual_bytes
from unit.builders import Flow, transfer_table

STEP = 100_000_000
STEPS = 40
MESSAGES = 10
RING = ("a", "b", "c", "d")


def ring(*, lost=0.0, evaluates=0, lost_until=STEPS):
    """Ten equal messages of every pair in every step; some are lost up to a step, some steps send one more."""
    random, rows = np.random.default_rng(7), []
    for step in range(STEPS):
        for src, dst in zip(RING, (*RING[1:], RING[0]), strict=True):
            more = 1 if evaluates and step % evaluates == 0 else 0
            for message in range(MESSAGES + more):
                begin = step * STEP + message * 5_000_000
                if step >= lost_until or random.random() >= lost:
                    rows.append(Flow(src, dst, begin, begin + 1_000_000, 1_000_000))
    return Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(rows))


def clock(jitter_ns=0):
    random = np.random.default_rng(3)
    ticks = np.arange(STEPS + 1) * STEP - 20_000_000 + random.integers(-jitter_ns, jitter_ns + 1, STEPS + 1)
    return StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0)


def judged(job, ticks):
    return loses_records(job, np.ones(job.transfers.pair_count, dtype=np.bool_), ticks)


@pytest.mark.parametrize("lost", [0.02, 0.1])
def test_a_collector_that_loses_records_is_known_by_bytes_that_nothing_makes_up_for(lost):
    assert judged(ring(lost=lost), clock())


def test_exact_bytes_are_no_loss():
    assert not judged(ring(), clock())


def test_ticks_that_are_misplaced_are_no_loss():
    """What one step lacks the next one has."""
    assert not judged(ring(), clock(jitter_ns=40_000_000))


def test_steps_that_send_more_are_no_loss():
    assert not judged(ring(evaluates=10), clock())


def test_bytes_that_are_missing_for_a_while_are_no_loss():
    assert not judged(ring(lost=0.1, lost_until=8), clock())


def test_every_pair_gets_its_usual_bytes_in_every_step_and_nothing_outside():
    job, ticks = ring(lost=0.1), clock()
    right = with_usual_bytes(job, ticks)
    transfers = right.transfers
    np.testing.assert_array_equal(transfers.start_ns, job.transfers.start_ns)
    step = ticks.step_at(transfers.start_ns)
    cell = np.bincount(transfers.pair_of_row * STEPS + step, transfers.bytes).reshape(4, STEPS)
    usual = np.median(cell, axis=1)[:, None]
    assert (np.abs(cell / usual - 1.0) < 1e-4).all()


def test_rows_without_bytes_stay_without():
    job = ring(lost=0.1)
    muted = np.arange(job.transfers.bytes.size) % 3 == 0
    transfers = replace(job.transfers, bytes=np.where(muted, 0, job.transfers.bytes))
    right = with_usual_bytes(replace(job, transfers=transfers), clock())
    assert not right.transfers.bytes[muted].any()
    assert right.transfers.bytes[~muted].all()
