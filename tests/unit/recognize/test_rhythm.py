"""Rails of one job start their messages together; two jobs do not, however alike they are."""

import numpy as np
import pytest

from llmprism.recognize import rhythm
from llmprism.recognize.rhythm import rhythm_bits
from llmprism.recognize.rules import RULES
from unit.builders import MS, Flow, transfer_table

STEP_NS = 400 * MS


def series(name, seed, *, delay_ms=0.0, own_jitter_ms=0.2, steps=60, collectives=20):
    """Collectives at ragged times that only `seed` decides, each rail late by a little of its own."""
    pace, own = np.random.default_rng(seed), np.random.default_rng(ord(name))
    start = np.cumsum(pace.exponential(STEP_NS / collectives, steps * collectives)) + delay_ms * MS
    start = start + own.uniform(0, own_jitter_ms * MS, start.size)
    return [Flow(f"{name}1", f"{name}2", int(s), int(s) + MS, 5_000_000) for s in start]


def compared(flows):
    transfers = transfer_table(flows)
    source = [transfers.addresses[src][0] for src in transfers.pair_src]
    one = np.array([i for i, name in enumerate(source) if name == "a"], dtype=np.int32)
    other = np.array([i for i, name in enumerate(source) if name == "b"], dtype=np.int32)
    return rhythm_bits(transfers, one, other, STEP_NS)


def test_two_rails_that_start_together_are_one_job():
    assert compared(series("a", 1) + series("b", 1)) > 20.0


@pytest.mark.parametrize("seed", range(2, 12))
def test_two_jobs_are_not(seed):
    assert compared(series("a", 1) + series("b", seed)) < 0.0


def test_stages_that_follow_each_other_at_a_constant_distance_are_one_job():
    assert compared(series("a", 1) + series("b", 1, delay_ms=90)) > 10.0


def test_two_jobs_that_start_together_and_grow_together_are_two():
    """Both send four times as much in their first seconds: any two jobs that are started by one hand."""
    flows = [
        flow
        for name, seed in (("a", 1), ("b", 2))
        for flow in series(name, seed) + series(name, seed + 50, steps=15) + series(name, seed + 70, steps=15)
    ]
    assert compared(flows) < 0.0


def test_one_message_of_both_in_a_quiet_time_is_no_event():
    """Both have long been done when both write a last time, at the same moment."""
    flows = [
        flow
        for name, seed in (("a", 1), ("b", 2))
        for flow in series(name, seed, steps=15, collectives=100)
        + [Flow(f"{name}1", f"{name}2", s * MS, (s + 1) * MS, 5_000_000) for s in (15_000, 24_000)]
    ]
    assert compared(flows) < 0.0


def steady(name, offset_ms, seed, steps=60):
    """A step of 400 ms with four messages in its first half, the same in every step but for a millisecond."""
    random = np.random.default_rng(seed)
    start = [400 * k + 50 * i + offset_ms + random.uniform(0, 1) for k in range(steps) for i in range(4)]
    return [Flow(f"{name}1", f"{name}2", int(s * MS), int(s * MS) + MS, 5_000_000) for s in start]


def test_where_steps_never_vary_only_sending_at_the_same_moments_speaks_for_one_job():
    together, apart = compared(steady("a", 0, 1) + steady("b", 0, 2)), compared(steady("a", 0, 1) + steady("b", 130, 2))
    assert together > 2.0
    assert apart < together - 3.0


@pytest.mark.parametrize(("steps", "collectives"), [(0, 20), (1, 2)])
def test_too_little_says_nothing(steps, collectives):
    assert compared(series("a", 1) + series("b", 1, steps=steps, collectives=collectives)) == 0.0


def paced(name, period_ms, seed, steps, faint=()):
    """Steps of a period that varies by half a percent, and besides a few messages at given times."""
    random = np.random.default_rng(seed)
    ends = np.cumsum(period_ms * random.uniform(0.995, 1.005, steps))
    start = np.concatenate([ends + i for i in range(4)] + [np.asarray(faint)])
    return [Flow(f"{name}1", f"{name}2", int(s * MS), int(s * MS) + MS, 5_000_000) for s in np.sort(start)]


def test_two_clear_periods_are_two_jobs_whatever_their_messages_have_in_common():
    """Both send a little whenever the processor that they share is free."""
    together = np.random.default_rng(7).uniform(0, 30_000, 60)
    one = paced("a", 300, 1, 100, together)
    assert compared(one + paced("b", 410, 2, 73, together)) == -RULES.one_answer_bits
    assert compared(one + paced("b", 300, 1, 100, together)) > 20.0


@pytest.mark.parametrize("seed", range(30))
def test_compiled_counts_are_those_of_arrays_to_the_bit(seed):
    random = np.random.default_rng(seed)
    slots, slot_ns = int(random.integers(8, 300)), int(random.integers(1, 50))
    start = random.integers(0, 2 * slots * slot_ns, int(random.integers(0, 400)))
    start = np.repeat(start, random.integers(1, 1 + seed % 4 + 1, start.size))
    arguments = start, int(random.integers(-10, 300)), slot_ns, slots, int(random.integers(1, slots))
    for compiled, by_arrays in zip(
        rhythm._with_usual.python(*arguments), rhythm._with_usual_by_arrays(*arguments), strict=True
    ):
        assert compiled.tobytes() == by_arrays.tobytes()


def test_starts_of_messages_are_found_alike_in_a_loop_and_by_arrays():
    offsets, start = np.array([0, 3, 3, 7]), np.arange(7)
    size, pairs = np.array([5, 2_000, 3_000, 4_000, 1, 1_000, 999]), np.array([0, 2, 1])
    arguments = offsets, start, size, pairs, 1_000
    assert rhythm._message_starts.python(*arguments).tolist() == [1, 2, 3, 5]
    assert rhythm._message_starts_by_arrays(*arguments).tolist() == [1, 2, 3, 5]
