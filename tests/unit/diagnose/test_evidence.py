import numpy as np
import pytest

from llmprism.diagnose.evidence import _are_parts, _median_of_others, gather_evidence
from llmprism.diagnose.rules import RULES
from llmprism.model import Events, Group, Job, JobLayout, JobState, Layout, PairKind, PairRoles, Steps, Timeline
from unit.builders import MS, Flow, transfer_table

STEP = 100 * MS


def measured(flows, groups=(), steps=4, setup=False, kind=PairKind.DP):
    transfers = transfer_table(flows)
    names = transfers.addresses
    start = np.arange(steps, dtype=np.int64) * STEP
    marks = np.zeros(steps, dtype=np.bool_)
    marks[0] = setup
    layout = JobLayout(
        Layout(), tuple(Group(PairKind.DP, tuple(names.index(m) for m in group)) for group in groups), (),
        PairRoles.empty(), np.full(transfers.start_ns.size, kind, dtype=np.int8),
    )  # fmt: skip
    job = Job("job", tuple(range(len(names))), (), 1.0, transfers)
    timeline = Timeline(
        Steps(start, start + STEP, marks), np.zeros((len(names), steps), dtype=np.int64), Events.empty()
    )
    return names, gather_evidence(job, layout, timeline, JobState.RUNNING)


def ring(members, ready_ms, step, size=2_000_000):
    """Each member sends to the next when it is ready."""
    return [
        Flow(src, dst, int((step * 100 + at) * MS), int((step * 100 + at + 5) * MS), size)
        for src, dst, at in zip(members, members[1:] + members[0], ready_ms, strict=True)
    ]


def test_lateness_is_measured_against_the_others_of_the_group():
    flows = [f for step in range(4) for f in ring("abc", [50, 52, 70 if step == 2 else 51], step)]
    names, found = measured(flows, groups=("abc",))
    late = found.lateness_ns / MS
    assert late[names.index("c")].tolist() == [0.0, 0.0, 19.0, 0.0]
    assert late[names.index("a")].tolist() == [-1.5, -1.5, -11.0, -1.5]


def test_of_two_the_later_one_is_late():
    flows = [f for step in range(4) for f in ring("ab", [50, 80], step)]
    _, found = measured(flows, groups=("ab",))
    assert (found.lateness_ns[:, 1:] / MS).tolist() == [[-30.0] * 3, [30.0] * 3]


def test_members_without_a_group_and_steps_without_messages_are_not_measured():
    flows = [f for step in (0, 1, 3) for f in ring("abc", [50, 50, 50], step)]
    _, found = measured(flows, groups=())
    assert np.isnan(found.lateness_ns).all()
    _, found = measured(flows, groups=("abc",))
    assert np.isnan(found.lateness_ns).all(axis=0).tolist() == [False, False, True, False]


def test_heartbeats_are_no_first_message():
    flows = [f for step in range(4) for f in ring("ab", [50, 50], step)]
    beats = [Flow("a", "b", step * STEP + MS, step * STEP + 2 * MS, 300) for step in range(4)]
    _, found = measured(flows + beats, groups=("ab",))
    assert (found.lateness_ns == 0).all()


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [3, 4, 5, 8])
def test_median_of_others(count, ties):
    values = np.random.default_rng(count).normal(size=(count, 6))
    values = np.round(values) if ties else values
    expected = [[np.median(np.delete(values[:, k], row)) for k in range(6)] for row in range(count)]
    np.testing.assert_allclose(_median_of_others(values), expected)


def test_the_rate_is_that_of_one_quantum_pauses_included():
    """Two megabytes at 8 Gb/s, in bursts at line rate: the pauses between the bursts count."""
    flows = [
        Flow("a", "b", step * STEP + k * 250_000, step * STEP + k * 250_000 + 10_000, 250_000)
        for step in range(4)
        for k in range(8)
    ]
    _, found = measured(flows)
    assert found.rate.shape == (1, 4)
    assert np.nanmedian(found.rate) == pytest.approx(8.0, rel=0.35)


def test_a_pair_that_waits_between_fast_messages_is_fast():
    flows = [
        Flow("a", "b", step * STEP + k * 30 * MS, step * STEP + k * 30 * MS + MS, 2_500_000)
        for step in range(4)
        for k in range(3)
    ]
    _, found = measured(flows)
    assert found.rate[0].tolist() == pytest.approx([20.0] * 4)


def test_pairs_of_unknown_kind_have_no_rate():
    _, found = measured([Flow("a", "b", 0, MS, 2_000_000)], kind=PairKind.UNKNOWN)
    assert np.isnan(found.rate).all()


def test_the_set_up_step_is_not_counted_and_the_normal_step_is_the_lower_quartile():
    flows = [f for step in range(4) for f in ring("ab", [50, 50], step)]
    _, found = measured(flows, groups=("ab",), setup=True)
    assert found.counted.tolist() == [False, True, True, True]
    assert found.normal_ns == STEP
    assert found.steps == 4


def test_a_clock_that_beats_to_parts_of_steps_is_none():
    parts = np.array(([10.0] * 8 + [300.0]) * 4)
    assert _are_parts(parts, RULES), "long ones come and go, and take nearly all of the time"


def test_a_fault_that_takes_most_of_the_time_and_checkpoints_do_not_make_steps_parts():
    assert not _are_parts(np.array([10.0] * 12 + [60.0] * 12), RULES), "one stretch"
    assert not _are_parts(np.array(([10.0] * 8 + [50.0]) * 4), RULES), "most of the time passes in usual steps"
    assert not _are_parts(np.zeros(0), RULES)
