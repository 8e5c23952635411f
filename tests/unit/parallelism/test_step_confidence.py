import pytest

from llmprism.model.layout import Layout, Sharding
from llmprism.parallelism.step_confidence import SUREST, steps_confidence

EVEN = {"clock": 6.6, "pipelines": 1.0}


def test_even_steps_of_pipelines_are_as_sure_as_it_gets():
    assert steps_confidence(Layout(sharding=Sharding.NONE), EVEN) == pytest.approx(SUREST, abs=0.05)


@pytest.mark.parametrize(
    "worse", [{"irregular_steps": 0.1}, {"varied_bytes": 0.3}, {"open_micro_batches": 1.0}, {"clock": 0.1}]
)
def test_what_does_not_repeat_makes_steps_less_sure(worse):
    layout = Layout(sharding=Sharding.NONE)
    assert steps_confidence(layout, {**EVEN, **worse}) < steps_confidence(layout, EVEN)


def test_sharded_steps_are_less_sure():
    evidence = {"clock": 3.0}
    whole, sharded = (steps_confidence(Layout(sharding=one), evidence) for one in (Sharding.NONE, Sharding.FSDP))
    assert sharded < whole - 0.1


def test_one_bad_term_alone_does_not_make_it_certain_to_be_wrong():
    assert steps_confidence(Layout(sharding=Sharding.NONE), {**EVEN, "irregular_steps": 1.0}) > 0.01
