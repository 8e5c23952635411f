from __future__ import annotations

import numpy as np
import pytest

from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.model import EventKind, Job, JobLayout, Layout, PairKind, PairRoles
from llmprism.timeline.published_timeline import timeline_paper

ACTIVATION = 4_194_304


def job_and_layout(flows) -> tuple[Job, JobLayout]:
    """The layout a perfect stage before would give: activations are PP, everything else DP."""
    job = Job("job", tuple(range(len(flows.addresses))), (), 1.0, records_as_transfers(flows))
    kinds = np.where(flows.bytes == ACTIVATION, PairKind.PP, PairKind.DP).astype(np.int8)
    return job, JobLayout(Layout(), (), (), PairRoles.empty(), kinds)


@pytest.fixture
def timeline(flow_table, clean_job):
    truth = clean_job()
    flows = flow_table(truth.records)
    job, layout = job_and_layout(flows)
    return truth, flows, job, timeline_paper(job, layout)


def test_steps_end_with_the_dp_bursts(timeline) -> None:
    truth, _, job, found = timeline
    # A change of the very first gap cannot be seen, but these steps hold ten gaps before the first pause.
    assert found.steps.end_ns.tolist() == truth.step_ends_ns
    assert found.member_end_ns.shape == (len(job.members), len(truth.step_ends_ns))
    assert (found.member_end_ns == np.array(truth.step_ends_ns)).all()
    assert not found.steps.setup.any()
    assert found.confidence == 1.0


def test_steps_follow_each_other_without_gap_or_overlap(timeline) -> None:
    _, flows, _, found = timeline
    assert found.steps.start_ns[0] == flows.start_ns.min()
    np.testing.assert_array_equal(found.steps.start_ns[1:], found.steps.end_ns[:-1])


def test_a_gpu_communicates_or_computes_from_first_to_last_flow(timeline) -> None:
    _, _, job, found = timeline
    events = found.events
    for member in job.members:
        mine = events.address == member
        assert (np.diff(events.start_ns[mine]) >= 0).all()
        covered = np.maximum.accumulate(events.end_ns[mine])
        assert (events.start_ns[mine][1:] <= covered[:-1]).all(), "a hole between communication and compute"
        compute = mine & (events.kind == EventKind.COMPUTE)
        talk = mine & (events.kind != EventKind.COMPUTE)
        for start, end in zip(events.start_ns[compute], events.end_ns[compute], strict=True):
            assert not ((events.start_ns[talk] < end) & (events.end_ns[talk] > start)).any()


def test_every_flow_is_an_event_of_both_of_its_ends(timeline) -> None:
    _, flows, _, found = timeline
    kinds = found.events.kind
    activations = int((flows.bytes == ACTIVATION).sum())
    assert int((kinds == EventKind.PP_SEND).sum()) == int((kinds == EventKind.PP_RECV).sum()) == activations
    assert int((kinds == EventKind.DP).sum()) == 2 * (flows.bytes.size - activations)
    assert int(found.events.bytes.sum()) == 2 * int(flows.bytes.sum())


def test_events_name_the_peer(timeline) -> None:
    _, flows, _, found = timeline
    sent = found.events.kind == EventKind.PP_SEND
    pairs = set(zip(found.events.address[sent].tolist(), found.events.peer[sent].tolist(), strict=True))
    activations = flows.bytes[flows.pair_offsets[:-1]] == ACTIVATION
    assert pairs == set(zip(flows.pair_src[activations].tolist(), flows.pair_dst[activations].tolist(), strict=True))
    assert (found.events.peer[found.events.kind == EventKind.COMPUTE] == -1).all()


def test_there_is_no_compute_under_a_long_flow(flow_table) -> None:
    flows = [("a", "b", 0, 100, 1), ("a", "b", 10, 20, 1), ("a", "b", 30, 40, 1), ("a", "b", 150, 160, 1)]
    job, layout = job_and_layout(flow_table(flows))
    events = timeline_paper(job, layout).events
    compute = events.kind == EventKind.COMPUTE
    assert events.start_ns[compute].tolist() == [100, 100]
    assert events.end_ns[compute].tolist() == [150, 150]


def test_members_without_dp_flows_have_no_say_in_the_steps(flow_table, clean_job) -> None:
    """Two members of a ring of two, and four that only pass activations on."""
    truth = clean_job(pp=1, dp=2)
    chain = [record for record in clean_job(pp=4, dp=1, first_server=10).records if record.bytes == ACTIVATION]
    job, layout = job_and_layout(flow_table(truth.records + chain))
    found = timeline_paper(job, layout)
    assert found.steps.end_ns.tolist() == truth.step_ends_ns
    assert (found.member_end_ns[2:] == -1).all()
    assert found.confidence == pytest.approx(2 / 6)


def test_events_know_their_step(timeline) -> None:
    truth, _, _, found = timeline
    dp = found.events.kind == EventKind.DP
    ends = np.array(truth.step_ends_ns)
    np.testing.assert_array_equal(found.events.step[dp], np.searchsorted(ends, found.events.end_ns[dp]))


def test_without_dp_flows_there_are_events_but_no_steps(flow_table, clean_job) -> None:
    job, layout = job_and_layout(flow_table(clean_job(pp=3, dp=1).records))
    found = timeline_paper(job, layout)
    assert found.steps.count == 0
    assert found.member_end_ns.shape == (3, 0)
    assert found.events.count > 0
    assert (found.events.step == -1).all()


def test_a_job_without_flows_has_an_empty_timeline(flow_table) -> None:
    job, layout = job_and_layout(flow_table([]))
    found = timeline_paper(job, layout)
    assert found.steps.count == 0
    assert found.events.count == 0
