"""The published rule of job recognition: what it gets right, and the two ways in which it is known to fail."""

from __future__ import annotations

import pytest

from llmprism.ingest.records_as_transfers import records_as_transfers
from llmprism.recognize.published_jobs import recognize_paper


def names(job) -> set[str]:
    return {job.transfers.addresses[member] for member in job.members}


def test_rails_of_one_job_are_joined_and_other_jobs_stay_apart(flow_table, clean_job) -> None:
    first, second = clean_job(tp=2, steps=1), clean_job(pp=1, dp=4, steps=1, first_server=4)
    topology = type(first.topology)(first.topology.servers + second.topology.servers)
    jobs = recognize_paper(records_as_transfers(flow_table(first.records + second.records)), topology)
    assert [names(job) for job in jobs] == [
        {record.src for record in first.records},
        {record.src for record in second.records},
    ]
    assert [job.servers for job in jobs] == [
        ("server00", "server01", "server02", "server03"),
        ("server04", "server05", "server06", "server07"),
    ]
    assert [job.transfers.start_ns.size for job in jobs] == [len(first.records), len(second.records)]


def test_without_topology_the_rails_stay_apart(flow_table, clean_job) -> None:
    jobs = recognize_paper(records_as_transfers(flow_table(clean_job(tp=2, steps=1).records)), None)
    assert len(jobs) == 2
    assert all(job.servers == () for job in jobs)


def test_the_id_depends_on_the_members_alone(flow_table, clean_job) -> None:
    ids = set()
    for steps in (1, 3):
        job = clean_job(steps=steps)
        ids |= {found.id for found in recognize_paper(records_as_transfers(flow_table(job.records)), job.topology)}
    assert len(ids) == 1


def test_known_failure_one_stray_flow_glues_two_jobs(flow_table, clean_job) -> None:
    first, second = clean_job(steps=1), clean_job(steps=1, first_server=4)
    stray = [(first.records[0].src, second.records[0].src, 1, 2, 1)]
    jobs = recognize_paper(records_as_transfers(flow_table(first.records + second.records + stray)), None)
    assert len(jobs) == 1


def test_known_failure_two_jobs_that_share_servers_rail_by_rail_are_one(flow_table, clean_job) -> None:
    half_a_step = 500_000_000
    both = clean_job(tp=2, steps=1)
    first = [record for record in both.records if record.src.endswith("r0")]
    second = [
        record._replace(start_ns=record.start_ns + half_a_step, end_ns=record.end_ns + half_a_step)
        for record in both.records
        if record.src.endswith("r1")
    ]
    assert len(recognize_paper(records_as_transfers(flow_table(first + second)), both.topology)) == 1


@pytest.mark.parametrize("with_topology", [True, False])
def test_no_flows_no_jobs(flow_table, clean_job, with_topology: bool) -> None:
    topology = clean_job(steps=1).topology if with_topology else None
    assert recognize_paper(records_as_transfers(flow_table([])), topology) == ()
