import numpy as np
import pytest

from llmprism.model import Group, Job, JobLayout, Layout, PairKind, PairRoles, Sharding
from llmprism.timeline.optimizer_end import last_done, with_optimizer
from unit.builders import MS, Flow, transfer_table

TICKS = np.arange(7) * 100 * MS
REST = np.array([10, 10, 12, 10, 8, 10]) * MS


def layout_of(sharding=Sharding.NONE, pipelines=(), kind=PairKind.DP, groups=True):
    found = (Group(PairKind.DP, (0, 1)), Group(kind, (0, 1))) if groups else ()
    return JobLayout(Layout(sharding=sharding), found, pipelines, PairRoles.empty(), np.zeros(0, dtype=np.int8))


def taken_ms(layout, rest=REST):
    return ((with_optimizer(layout, TICKS, TICKS[:-1] + rest) - TICKS) / MS).tolist()


def test_sharded_parameters_are_gathered_when_the_optimizer_is_done():
    assert taken_ms(layout_of(Sharding.FSDP)) == [10, 10, 12, 10, 8, 10, 10]


def test_a_pause_before_the_gathers_is_not_the_optimizers():
    rest = REST.copy()
    rest[2] = 60 * MS
    assert taken_ms(layout_of(Sharding.FSDP), rest) == [10, 10, 10, 10, 8, 10, 10]


def test_a_rest_as_long_as_a_forward_pass_holds_one():
    taken = taken_ms(layout_of(Sharding.FSDP), 5 * REST)
    assert max(taken) < 10


@pytest.mark.parametrize("layout", [layout_of(pipelines=((0, 1),)), layout_of(kind=PairKind.EP)])
def test_a_layer_or_a_stage_is_computed_before_its_first_message(layout):
    assert taken_ms(layout, REST // 2) == [2.5] * 7
    assert taken_ms(layout, 2 * REST) == pytest.approx([4.5] * 7)  # the optimizer takes no longer for it


def test_a_silent_forward_pass_leaves_the_optimizer_its_usual_share_of_a_step():
    assert taken_ms(layout_of(), 2 * REST) == pytest.approx([2.4] * 7)
    assert taken_ms(layout_of(), 8 * REST) == pytest.approx([4.5] * 7)


@pytest.mark.parametrize("layout", [layout_of(Sharding.ZERO), layout_of(groups=False)])
def test_an_end_that_was_seen_or_estimated_stays(layout):
    assert taken_ms(layout) == [0] * 7


def test_the_last_member_to_gather_ends_the_step():
    sends = [("a", 10), ("b", 13)]
    flows = [Flow(src, "ab"[src == "a"], int(tick) + ms * MS, int(tick) + 80 * MS, 1_000_000) for tick in TICKS[:-1]
             for src, ms in sends]  # fmt: skip
    job = Job("job", (0, 1), (), 1.0, transfer_table(flows))
    first = TICKS[:-1] + 10 * MS
    found = last_done(job, layout_of(Sharding.FSDP), TICKS, first)
    assert found is not None
    assert ((found - TICKS) / MS).tolist() == [13] * 7
    assert last_done(job, layout_of(), TICKS, first) is None
