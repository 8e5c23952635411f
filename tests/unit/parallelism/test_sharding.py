import numpy as np
import pytest

from llmprism.model import PairKind, Sharding, StepClock
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


def verdict(flows, steps=20, *, has_pipelines=False, kind=PairKind.DP):
    transfers = transfer_table(flows)
    clock = StepClock(np.arange(steps + 1, dtype=np.int64) * STEP_MS * MS, np.ones(steps, dtype=np.bool_), 1.0)
    kinds = np.full(transfers.pair_count, kind, dtype=np.int8)
    return sharding_of(transfers, kinds, pair_features(transfers, clock), clock, has_pipelines=has_pipelines).sharding


def layers(count):
    """Gathers in the forward pass, gathers and reductions in the backward pass, of `count` equal layers."""
    forward = np.linspace(5, 75, count, endpoint=False)
    backward = np.linspace(80, 220, 2 * count, endpoint=False)
    return [*forward, *backward]


@pytest.mark.parametrize("count", [4, 6, 10])
def test_gathers_in_the_forward_pass_are_full_sharding(count):
    assert verdict(collectives(layers(count))) is Sharding.FSDP


def test_silence_until_the_backward_pass_is_no_full_sharding():
    assert verdict(collectives(np.linspace(120, 220, 8))) is Sharding.NONE


def test_collectives_all_over_the_step_that_are_not_in_threes_are_not_called_full_sharding():
    assert verdict(collectives(np.linspace(5, 235, 7, endpoint=False))) is Sharding.UNKNOWN


def test_pipelines_spread_gradients_over_the_step_and_are_not_called_full_sharding():
    assert verdict(collectives(layers(4)), has_pipelines=True) is not Sharding.FSDP


def test_no_gradient_traffic_no_answer():
    assert verdict(collectives(layers(4)), kind=PairKind.PP) is Sharding.UNKNOWN
    assert verdict([Flow("a", "b", 10**15, 10**15 + 1, 5)]) is Sharding.UNKNOWN


def test_a_replicated_job_is_not_called_sharded():
    job = build_job(pp=1, dp=4)
    transfers = transfer_table(job.records)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    clock = StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)
    kinds = np.full(transfers.pair_count, PairKind.DP, dtype=np.int8)
    features = pair_features(transfers, clock)
    assert sharding_of(transfers, kinds, features, clock, has_pipelines=False).sharding is Sharding.NONE
