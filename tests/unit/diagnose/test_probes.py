"""A mesh of pings says nothing about the ranks of a job; a store and watchdogs do."""

import numpy as np

from llmprism.diagnose.probes import without_probes
from llmprism.model.job import Job
from unit.builders import MS, SECOND, Flow, transfer_table

NAMES = [f"10.0.0.{n}" for n in range(1, 9)]
RING = [Flow(a, b, 0, MS, 1_000_000) for a, b in zip(NAMES, [*NAMES[1:], NAMES[0]], strict=True)]


def job_of(flows):
    transfers = transfer_table(flows)
    return Job("job", tuple(range(len(NAMES))), (), 1.0, transfers, bulk=transfers.pair_bytes >= 1_000_000)


def small(pairs, size):
    return [Flow(a, b, size * SECOND, size * SECOND + 1_000, size) for a, b in pairs]


def test_pings_between_all_members_are_left_out_and_other_small_messages_are_not():
    mesh = small([(a, b) for a in NAMES for b in NAMES if a != b], 84)
    store = small([pair for name in NAMES[1:] for pair in ((name, NAMES[0]), (NAMES[0], name))], 31)
    watchdogs = small([(flow.src, flow.dst) for flow in RING], 60)
    job = job_of(RING + mesh + store + watchdogs)
    left = without_probes(job)
    assert np.unique(left.transfers.bytes).tolist() == [31, 60, 1_000_000]
    assert left.transfers.bytes.size == len(RING + store + watchdogs)
    assert left.bulk is not None
    assert left.transfers.pair_bytes[left.bulk].min() >= 1_000_000
    assert left.members == job.members


def test_a_job_without_a_mesh_is_the_same_one():
    for flows in (RING, RING + small([(name, NAMES[0]) for name in NAMES[1:]], 60)):
        job = job_of(flows)
        assert without_probes(job) is job
