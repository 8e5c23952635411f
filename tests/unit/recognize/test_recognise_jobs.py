"""Jobs from small tables made by hand."""

import random
from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Nic, Server, Topology, Window
from llmprism.model.flows import AssembledFlows, InputCounts
from llmprism.pipeline.local import LocalCluster
from llmprism.recognize.recognise_jobs import draft_clusters, draft_jobs, join_clusters
from support.stages import recognize
from unit.builders import MS, SECOND, Flow, build_job, chatter, cut_in_pieces, flow_table, transfer_table


def members_of(recognition):
    return {frozenset(job.transfers.addresses[member] for member in job.members) for job in recognition.jobs}


def both(*jobs):
    """The records and the common topology of several jobs."""
    return [r for job in jobs for r in job.records], Topology(tuple(s for job in jobs for s in job.topology.servers))


@pytest.mark.parametrize(
    "shape",
    [
        {},
        {"pp": 1, "dp": 2},
        {"pp": 2, "dp": 1},
        {"pp": 1, "dp": 4},
        {"pp": 4, "dp": 1},
        {"pp": 2, "dp": 2, "tp": 2},
        {"pp": 1, "dp": 2, "tp": 4},
        {"pp": 2, "dp": 1, "tp": 4},
    ],
)
@pytest.mark.parametrize("with_topology", [True, False])
def test_one_job_of_any_layout(shape, with_topology):
    job = build_job(**shape)
    records = cut_in_pieces(job.records) + chatter(job.members, job.shape.start_ns, job.step_ends_ns[-1])
    found = recognize(transfer_table(records), job.topology if with_topology else None)
    assert members_of(found) == {job.members}
    (result,) = found.jobs
    assert result.clock is not None
    assert result.bulk is not None
    sizes = np.add.reduceat(result.transfers.bytes, result.transfers.pair_offsets[:-1])
    assert (sizes[result.bulk] > 1_000_000).all()
    assert (sizes[~result.bulk] < 1_000_000).all()
    assert result.servers == (tuple(sorted(s.name for s in job.topology.servers)) if with_topology else ())


def test_two_jobs_side_by_side_stay_two_although_monitoring_meshes_them():
    one, two = build_job(seed=1), build_job(seed=2, name="b", first_server=10, forward_ms=11.0)
    records, topology = both(one, two)
    mesh = chatter(one.members | two.members, one.shape.start_ns, one.step_ends_ns[-1], every_ns=200 * MS, size=9_000)
    assert members_of(recognize(transfer_table(records + mesh), topology)) == {one.members, two.members}
    assert members_of(recognize(transfer_table(records + mesh))) == {one.members, two.members}


def test_two_jobs_that_share_their_servers_half_and_half_stay_two():
    """Each server gives its first NIC to one job and its second to the other; the jobs have one configuration."""
    one, two = build_job(seed=1, steps=40, name="a"), build_job(seed=2, steps=40, name="b")
    records, _ = both(one, two)
    shared = Topology(
        tuple(
            Server(s.name, (Nic(s.nics[0].address, 0), Nic(t.nics[0].address, 1)))
            for s, t in zip(one.topology.servers, two.topology.servers, strict=True)
        )
    )
    assert members_of(recognize(transfer_table(records), shared)) == {one.members, two.members}


def test_a_storage_server_glues_nothing():
    one, two = build_job(seed=1), build_job(seed=2, name="b", first_server=10, forward_ms=11.0)
    records, topology = both(one, two)
    reads = [
        Flow("storage", member, one.shape.start_ns + k * SECOND, one.shape.start_ns + k * SECOND + 50 * MS, 60_000_000)
        for k in range(3)
        for member in sorted(one.members | two.members)
    ]
    found = recognize(transfer_table(records + reads), topology)
    assert members_of(found) == {one.members, two.members}
    assert dict(found.unused) == {"outside_jobs": len(reads)}


def one_after_the_other(first_server):
    one = build_job(seed=1)
    two = build_job(pp=1, dp=2, seed=2, start_ns=one.step_ends_ns[-1] + 30 * SECOND, first_server=first_server)
    found = recognize(transfer_table(one.records + two.records))
    return one, two, found


def test_an_address_that_serves_one_job_after_the_other_is_in_both():
    one, two, found = one_after_the_other(first_server=3)  # on a03r0 and a04r0
    assert len(one.members & two.members) == 1
    assert members_of(found) == {one.members, two.members}
    for job in found.jobs:
        starts = job.transfers.start_ns
        assert (starts < two.shape.start_ns).all() or (starts >= two.shape.start_ns).all(), "each its own time"


def test_a_pair_that_serves_one_job_after_the_other_is_in_both():
    one, two, found = one_after_the_other(first_server=0)  # on a00r0 and a01r0, which talked before
    assert two.members < one.members
    assert members_of(found) == {one.members, two.members}


def test_chatter_alone_is_no_job():
    found = recognize(transfer_table(chatter("abcd", 0, 60 * SECOND)))
    assert found.jobs == ()
    assert dict(found.unused) == {"control_chatter": 60 * 12}


def test_nothing_has_no_jobs():
    assert recognize(transfer_table([])).jobs == ()


def test_traffic_without_steps_is_a_job_of_little_confidence():
    flows = [Flow("a", "b", 0, 60 * SECOND, 10**9), Flow("b", "a", 0, 60 * SECOND, 10**9)]
    (job,) = recognize(transfer_table(flows)).jobs
    assert job.clock is None
    assert job.confidence <= 0.3


def confidence_with(dominance):
    """That in the members of a job whose steps show as clearly."""
    transfers = transfer_table(build_job(pp=1, dp=4).records)
    window = Window(int(transfers.start_ns.min()), int(transfers.end_ns.max()))
    flows = AssembledFlows(transfers, InputCounts(transfers.start_ns.size, transfers.start_ns.size), window)
    cluster = LocalCluster(flows, window, with_events=False)
    draft = draft_clusters(cluster.graph, cluster.graph.segments, None)
    clocks = [
        tuple(replace(one, clock=replace(one.clock, dominance=dominance)) for one in candidates)
        for candidates in cluster.clocks(draft)
    ]
    joined = join_clusters(draft, clocks, None)
    (job,) = draft_jobs(draft, joined, cluster.rails(draft, joined.questions), None)
    return job.confidence


def test_steps_that_do_not_show_clearly_leave_a_little_doubt_about_the_members():
    assert 0.8 * confidence_with(1.0) < confidence_with(0.5) < 0.99 * confidence_with(1.0)


def test_ids_depend_on_the_members_only():
    job = build_job()
    shuffled = list(job.records)
    random.Random(0).shuffle(shuffled)
    other_time = build_job(seed=9, start_ns=job.shape.start_ns + 3600 * SECOND, steps=14)
    ids = {
        result.id
        for records in (job.records, shuffled, other_time.records, cut_in_pieces(job.records))
        for result in recognize(transfer_table(records)).jobs
    }
    assert len(ids) == 1
    assert ids != {result.id for result in recognize(transfer_table(build_job(first_server=4).records)).jobs}


def test_every_record_is_in_a_job_or_counted_as_unused():
    job = build_job()
    records = job.records + chatter({"x", "y"}, job.shape.start_ns, job.step_ends_ns[-1])
    table = flow_table(records)
    found = recognize(transfer_table(records))
    used = sum(int(result.transfers.records.sum()) for result in found.jobs)
    assert used + sum(count for _, count in found.unused) == table.counts.used


@pytest.mark.parametrize("size", [10**7, 10**10])
def test_a_checkpoint_neither_hides_a_job_nor_cuts_it_at_the_pauses_of_its_steps(size):
    job = build_job(pp=1, dp=4, steps=16, optimizer_ms=3000.0)
    middle = job.step_ends_ns[8]
    written = [Flow(member, "10.250.0.1", middle, middle + 5 * MS, size) for member in sorted(job.members)]
    assert members_of(recognize(transfer_table(job.records + written), job.topology)) == {job.members}
    assert len(recognize(transfer_table(job.records + written), job.topology).jobs) == 1
