import numpy as np
import pytest

from llmprism.model import Sharding, StepClock
from llmprism.parallelism.features import pair_features
from llmprism.parallelism.sharding import sharding_of
from unit.builders import MS, Flow, build_job, transfer_table

STEP_MS = 240


def collectives(places_ms, steps=20, size=1_000_000, members="abcd"):
    """A ring in which every pair sends one equal message at each of these times of the step."""
    return [
        Flow(src, members[(i + 1) % len(members)], start, start + 2 * MS, size)
        for step in range(steps)
        for place in places_ms
        for i, src in enumerate(members)
        for start in [int((step * STEP_MS + place) * MS)]
    ]


def judged(flows, steps=20, *, has_pipelines=False, gradients=True):
    transfers = transfer_table(flows)
    clock = StepClock(np.arange(steps + 1, dtype=np.int64) * STEP_MS * MS, np.ones(steps, dtype=np.bool_), 1.0)
    pairs = np.arange(transfers.pair_count if gradients else 0)
    return sharding_of(transfers, pairs, pair_features(transfers, clock), clock, has_pipelines=has_pipelines)


def verdict(flows, **kwargs):
    return judged(flows, **kwargs).sharding


def layers(count):
    """Gathers in the forward pass, gathers and reductions in the backward pass, of `count` equal layers."""
    forward = np.linspace(5, 75, count, endpoint=False)
    backward = np.linspace(80, 220, 2 * count, endpoint=False)
    return [*forward, *backward]


@pytest.mark.parametrize("count", [4, 6, 10])
def test_gathers_in_the_forward_pass_are_full_sharding(count):
    assert verdict(collectives(layers(count))) is Sharding.FSDP


@pytest.mark.parametrize("count", [4, 10])
def test_a_collective_that_pauses_inside_is_one(count):
    """After two fifths of its bytes, while the next chunk is copied: not at half, where two would meet."""
    parts = [
        part
        for flow in collectives(layers(count))
        for part in (
            flow._replace(end_ns=flow.start_ns + MS, bytes=400_000),
            flow._replace(start_ns=flow.start_ns + 3 * MS, end_ns=flow.start_ns + 4 * MS, bytes=600_000),
        )
    ]
    found = judged(parts)
    assert (found.sharding, found.collectives) == (Sharding.FSDP, 3 * count)


def test_buckets_after_a_silent_forward_pass_are_no_layers_although_a_fault_fills_it_in_some_steps():
    """Eight buckets in the second half of the step; in a fifth of the steps they are late, and run into the next."""
    usual = collectives([120 + 14 * bucket for bucket in range(8)], steps=16)
    late = [
        flow._replace(start_ns=flow.start_ns + 16 * STEP_MS * MS, end_ns=flow.end_ns + 16 * STEP_MS * MS)
        for flow in collectives([5 + 29 * bucket for bucket in range(8)], steps=4)
    ]
    assert verdict(usual + late) is Sharding.NONE


def turning_first(layers_count):
    """One step as a clock that ticks at the turning point sees it: backward in twos, optimizer, forward one by one."""
    twos = [20.0 + layer * 26.0 + pause for layer in range(layers_count - 1) for pause in (0.0, 4.0)]
    backward = [*twos, 20.0 + (layers_count - 1) * 26.0]
    end = backward[-1]
    return [*backward, *(end + 15.0 + 13.0 * np.arange(layers_count))]


def test_a_clock_that_ticks_at_the_turning_point_is_moved_to_where_the_forward_pass_begins():
    layers_count = 6
    found = judged(collectives(turning_first(layers_count)))
    assert found.sharding is Sharding.FSDP
    assert found.shift == pytest.approx((2 * layers_count - 1) / (3 * layers_count - 1))


def test_a_clock_that_ticks_at_the_end_of_the_step_stays():
    forward = 5.0 + 9.0 * np.arange(6)
    backward = [forward[-1] + 30.0]
    for layer in range(5):
        backward += [backward[0] + 2.5 + layer * 18.0, backward[0] + 20.0 + layer * 18.0]
    assert judged(collectives([*forward, *backward])).shift == 0.0


def test_silence_until_the_backward_pass_is_no_full_sharding():
    assert verdict(collectives(np.linspace(120, 220, 8))) is Sharding.NONE


def test_collectives_all_over_the_step_that_are_not_in_threes_are_not_called_full_sharding():
    assert verdict(collectives(np.linspace(5, 235, 7, endpoint=False))) is Sharding.UNKNOWN


@pytest.mark.parametrize("seed", range(5))
def test_equal_buckets_with_pauses_of_any_length_are_not_called_full_sharding_for_their_number(seed):
    pauses = 2.0 + np.random.default_rng(seed).permutation(np.linspace(1.0, 9.0, 30))
    assert verdict(collectives(5.0 + np.cumsum(pauses))) is Sharding.UNKNOWN


def test_pipelines_spread_gradients_over_the_step_and_are_not_called_full_sharding():
    assert verdict(collectives(layers(4)), has_pipelines=True) is not Sharding.FSDP


def test_no_gradient_traffic_no_answer():
    assert verdict(collectives(layers(4)), gradients=False) is Sharding.UNKNOWN
    assert verdict([Flow("a", "b", 10**15, 10**15 + 1, 5)]) is Sharding.UNKNOWN


def test_a_replicated_job_is_not_called_sharded():
    job = build_job(pp=1, dp=4)
    transfers = transfer_table(job.records)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    clock = StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)
    every = np.arange(transfers.pair_count)
    features = pair_features(transfers, clock)
    assert sharding_of(transfers, every, features, clock, has_pipelines=False).sharding is Sharding.NONE


def test_a_pause_at_half_with_buckets_before_and_none_after_is_a_sharded_optimizer():
    buckets, gathered = [100.0, 120.0, 140.0], [160.0, 162.1, 164.2]
    assert verdict(collectives([*buckets, *gathered])) is Sharding.ZERO


def test_equal_buckets_all_through_are_no_sharded_optimizer():
    assert verdict(collectives([100.0, 120.0, 140.0, 160.0])) is Sharding.NONE


def test_two_equal_buckets_do_not_tell():
    assert verdict(collectives([120.0, 150.0])) is Sharding.UNKNOWN
