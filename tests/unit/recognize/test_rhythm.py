"""Rails of one job start their messages together; two jobs do not, however alike they are."""

import numpy as np
import pytest

from llmprism.recognize.rhythm import rhythm
from unit.builders import MS, Flow, transfer_table

STEP_NS = 400 * MS


def series(name, seed, *, delay_ms=0.0, own_jitter_ms=0.2, steps=60, collectives=20):
    """Collectives at ragged times that only `seed` decides, each rail late by a little of its own."""
    pace, own = np.random.default_rng(seed), np.random.default_rng(hash(name) % 1000)
    start = np.cumsum(pace.exponential(STEP_NS / collectives, steps * collectives)) + delay_ms * MS
    start = start + own.uniform(0, own_jitter_ms * MS, start.size)
    return [Flow(f"{name}1", f"{name}2", int(s), int(s) + MS, 5_000_000) for s in start]


def compared(flows):
    transfers = transfer_table(flows)
    source = [transfers.addresses[src][0] for src in transfers.pair_src]
    one = np.array([i for i, name in enumerate(source) if name == "a"], dtype=np.int32)
    other = np.array([i for i, name in enumerate(source) if name == "b"], dtype=np.int32)
    return rhythm(transfers, one, other, STEP_NS)


def test_two_rails_that_start_together_have_one_rhythm():
    assert compared(series("a", 1) + series("b", 1)) > 0.6


def test_two_jobs_have_none():
    assert compared(series("a", 1) + series("b", 2)) < 0.1


def test_the_same_pattern_later_is_another_job():
    assert compared(series("a", 1) + series("b", 1, delay_ms=90)) == 0.0


def test_two_steps_are_enough_where_they_hold_many_messages():
    assert compared(series("a", 1, steps=2) + series("b", 1, steps=2)) > 0.6


@pytest.mark.parametrize(("steps", "collectives"), [(0, 20), (1, 2)])
def test_too_little_says_nothing(steps, collectives):
    assert compared(series("a", 1) + series("b", 1, steps=steps, collectives=collectives)) == 0.0
