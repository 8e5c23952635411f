"""Members that only the norm of the gradients shows: one tiny message a step."""

import numpy as np
import pytest

from llmprism.model import Nic, Server, Topology
from support.stages import recognize
from unit.builders import MS, Flow, build_job, transfer_table


def with_spare_nics(job, *more):
    """Every server of the job with one more NIC, named after it; and further servers."""
    servers = tuple(
        Server(s.name, (*s.nics, Nic(f"{s.name}-spare", len(s.nics)))) for s in job.topology.servers
    )  # fmt: skip
    return Topology((*servers, *more))


def beats(src, dst, times_ns, size=256):
    return [Flow(src, dst, int(t), int(t) + MS // 10, size) for t in times_ns]


def members_of(records, topology):
    (found,) = recognize(transfer_table(records), topology).jobs
    return {found.transfers.addresses[m] for m in found.members}


@pytest.fixture(scope="module")
def job():
    return build_job(pp=1, dp=4, steps=40)


def test_a_message_in_every_step_makes_a_member(job):
    one, two = (f"{s.name}-spare" for s in job.topology.servers[:2])
    records = job.records + beats(one, two, np.array(job.step_ends_ns) - 2 * MS)
    assert members_of(records, with_spare_nics(job)) == job.members | {one, two}


def test_another_pace_does_not(job):
    one, two = (f"{s.name}-spare" for s in job.topology.servers[:2])
    pace = np.linspace(job.step_ends_ns[0], job.step_ends_ns[-1], 52)
    assert members_of(job.records + beats(one, two, pace), with_spare_nics(job)) == job.members


def test_nor_does_one_that_also_talks_to_somebody_else(job):
    one, two = (f"{s.name}-spare" for s in job.topology.servers[:2])
    ends = np.array(job.step_ends_ns)
    records = job.records + beats(one, two, ends - 2 * MS) + beats(one, "x", ends[:5])
    elsewhere = Server("elsewhere", (Nic("x", 0),))
    assert members_of(records, with_spare_nics(job, elsewhere)) == job.members | {two}


def test_nor_one_that_came_late(job):
    one, two = (f"{s.name}-spare" for s in job.topology.servers[:2])
    records = job.records + beats(one, two, np.array(job.step_ends_ns[20:]) - 2 * MS)
    assert members_of(records, with_spare_nics(job)) == job.members


def test_nor_where_servers_are_not_known(job):
    one, two = (f"{s.name}-spare" for s in job.topology.servers[:2])
    assert members_of(job.records + beats(one, two, job.step_ends_ns), None) == job.members
