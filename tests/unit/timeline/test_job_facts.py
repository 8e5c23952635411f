"""Facts of small jobs whose truth is known by construction."""

from __future__ import annotations

import numpy as np
import pytest

from llmprism.model import (
    Group,
    Job,
    JobLayout,
    Layout,
    PairKind,
    PairRoles,
    Schedule,
    Sharding,
    Steps,
    Synchronisation,
)
from llmprism.parallelism import identify_layout
from llmprism.timeline import reconstruct_timeline
from llmprism.timeline.job_facts import job_facts
from support.stages import recognize
from unit.builders import EPOCH, MS, SECOND, Flow, build_job, transfer_table

STEPS = 12


def facts_of(records):
    (job,) = recognize(transfer_table(records)).jobs
    return reconstruct_timeline(job, identify_layout(job), with_events=False).facts


def ring_bytes(buffer: int, members: int) -> int:
    """What one member of a ring all-reduce of this buffer sends."""
    return 2 * (members - 1) * buffer // members


def synchronised(
    bursts, names=("a", "b", "c", "d"), places=(), hops=None, layout=None, unnamed_bytes=0
):  # fmt: skip
    """Facts of one ring: in every step of one second each hop carries bursts of (begin in ms, length in ms, bytes)."""
    hops = hops or list(zip(names, [*names[1:], names[0]], strict=True))
    flows = [
        Flow(src, dst, EPOCH + step * SECOND + begin * MS, EPOCH + step * SECOND + (begin + length) * MS, size)
        for step in range(STEPS)
        for src, dst in hops
        for begin, length, size in bursts
    ]
    table = transfer_table(flows)
    kinds = np.full(table.bytes.size, PairKind.DP, dtype=np.int8)
    if unnamed_bytes:
        kinds[table.bytes == unnamed_bytes] = PairKind.OTHER
    members = tuple(range(len(table.addresses)))
    group = Group(PairKind.DP, members, ring=True)
    chosen = layout or Layout(tp=1, pp=1, dp=len(names), sharding=Sharding.UNKNOWN)
    start = EPOCH + np.arange(STEPS, dtype=np.int64) * SECOND
    steps = Steps(start, start + SECOND, np.zeros(STEPS, dtype=np.bool_))
    job = Job("j", members, (), 1.0, table, places=places)
    return job_facts(job, JobLayout(chosen, (group,), (), PairRoles.empty(), kinds, 1.0), steps)


@pytest.mark.parametrize("replicas", [2, 4])
def test_an_all_reduce_gives_the_gradient_bytes_and_both_sizes(replicas):
    facts = facts_of(build_job(pp=2, dp=replicas).records)
    assert facts.sent_bytes_per_gpu == pytest.approx([ring_bytes(24_000_000, replicas)] * 2, rel=0.01)
    assert [size.gradient_element_bytes for size in facts.sizes] == [2, 4]
    assert facts.size.gradient_bytes_per_gpu == pytest.approx([24_000_000] * 2, rel=0.01)
    assert [size.parameters for size in facts.sizes] == pytest.approx([24_000_000, 12_000_000], rel=0.01)
    assert facts.size.confidence <= 0.5  # bytes do not say which


def test_the_bubble_of_a_pipeline_is_that_of_its_schedule():
    facts = facts_of(build_job(pp=4, dp=2, micro_batches=8, optimizer_ms=5.0, jitter=0.0).records)
    assert facts.pipeline_bubble == pytest.approx(3 / 11, abs=0.05)


def test_gradients_are_sent_at_the_rate_of_the_network():
    assert facts_of(build_job(pp=2, dp=2, rate_gbps=20.0).records).bus_bandwidth_gbps == pytest.approx(20.0, rel=0.15)


def test_a_silence_at_two_thirds_of_the_bytes_is_the_optimizer_of_a_sharded_one():
    parameters = 10_000_000
    scatter, gather = 4 * parameters * 3 // 4, 2 * parameters * 3 // 4
    facts = synchronised([(600, 100, scatter), (800, 50, gather)])
    assert facts.size.synchronisation == Synchronisation.SHARDED_OPTIMIZER
    assert facts.size.parameters_per_gpu == pytest.approx([parameters], rel=1e-3)
    assert facts.size.confidence > 0.8
    assert facts.exposed_communication == pytest.approx(0.25, abs=0.01)


def test_three_equal_buckets_are_no_sharded_optimizer():
    facts = synchronised([(begin, 50, 10_000_000) for begin in (600, 700, 800)])
    assert {size.synchronisation for size in facts.sizes} == {Synchronisation.ALL_REDUCE}


def test_what_is_sent_under_the_backward_pass_is_not_exposed():
    facts = synchronised([(200, 50, 20_000_000), (500, 50, 7_000_000), (800, 100, 9_000_000)])
    assert facts.exposed_communication == pytest.approx(0.1, abs=0.01)


def test_sharded_parameters_are_gathered_twice_and_their_waiting_is_not_known():
    layout = Layout(tp=1, pp=1, dp=4, sharding=Sharding.FSDP)
    facts = synchronised([(100, 50, 3 * 8_000_000)], layout=layout)
    assert [size.parameters_per_gpu[0] for size in facts.sizes] == pytest.approx(
        [4e6, 16e6 / 3, 8e6 / 3, 8e6], rel=1e-3
    )
    assert facts.exposed_communication is None


def test_members_of_a_server_that_hide_their_ring_are_one_sender():
    """Two servers of two: two channels, each through one NIC of either server, carry half of the buffer each."""
    hops = [("a", "c"), ("c", "a"), ("b", "d"), ("d", "b")]
    half = ring_bytes(40_000_000, 4) // 2
    facts = synchronised([(600, 100, half)], hops=hops, places=("s0", "s0", "s1", "s1"))
    assert facts.size.gradient_bytes_per_gpu == pytest.approx([40_000_000], rel=1e-3)


def test_a_ring_that_shows_whole_is_not_put_together_by_servers():
    facts = synchronised([(600, 100, ring_bytes(40_000_000, 4))], places=("s0", "s1", "s0", "s1"))
    assert facts.size.gradient_bytes_per_gpu == pytest.approx([40_000_000], rel=1e-3)


def test_the_members_of_a_tree_send_what_a_ring_would_together():
    edges = [("a", "b"), ("b", "a"), ("b", "c"), ("c", "b"), ("b", "d"), ("d", "b")]
    facts = synchronised([(600, 100, 40_000_000)], hops=edges)
    assert facts.size.gradient_bytes_per_gpu == pytest.approx([40_000_000], rel=1e-3)


def test_traffic_that_nobody_could_name_leaves_the_size_open():
    bursts = [(600, 100, 20_000_000), (800, 50, 5_000_000)]
    assert synchronised(bursts).sizes
    assert synchronised(bursts, unnamed_bytes=5_000_000).sizes == ()


def test_experts_that_one_gpu_holds_leave_the_size_open():
    layout = Layout(tp=1, pp=1, dp=4, ep=4)
    facts = synchronised([(600, 100, 20_000_000)], layout=layout)
    assert facts.sizes == ()
    assert facts.sent_bytes_per_gpu is not None


def test_without_gradients_or_a_known_schedule_nothing_is_said():
    table = transfer_table([Flow("a", "b", EPOCH, EPOCH + MS, 10**6)])
    kinds = np.full(1, PairKind.UNKNOWN, dtype=np.int8)
    layout = JobLayout(Layout(schedule=Schedule.UNKNOWN), (), (), PairRoles.empty(), kinds)
    facts = job_facts(Job("j", (0, 1), (), 1.0, table), layout, Steps.empty())
    assert (facts.sent_bytes_per_gpu, facts.sizes, facts.pipeline_bubble, facts.bus_bandwidth_gbps) == (
        None, (), None, None,
    )  # fmt: skip
