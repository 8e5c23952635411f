"""Pipelines between the same servers run the same way, whatever one of them shows."""

import numpy as np

from llmprism.model import Job, PairKind, StepClock
from llmprism.parallelism.features import links_of, pair_features
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.stage_links import find_pipelines
from unit.builders import build_job, transfer_table


def pipelines_of(places):
    """Three rails of one pipeline, of which the second goes back in time; `places` names the server of an address."""
    job = build_job(pp=3, dp=1, tp=3, setup_bytes=0)
    last = max(record.end_ns for record in job.records)
    first = min(record.start_ns for record in job.records)
    records = [
        r if r.src[-1] != "1" else r._replace(start_ns=first + last - r.end_ns, end_ns=first + last - r.start_ns)
        for r in job.records
    ]
    transfers = transfer_table(records)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    clock = StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)
    names = transfers.addresses
    found = Job("job", tuple(range(len(names))), (), 1.0, transfers, clock=clock, places=tuple(map(places, names)))
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    count = links.low.size
    kinds = LinkKinds(
        np.full(count, PairKind.PP, dtype=np.int8),
        np.ones(count),
        np.zeros(count, dtype=np.bool_),
        np.ones(count, dtype=np.bool_),
    )
    pipes = find_pipelines(found, links, kinds, pair_features(transfers, clock), ())
    return [tuple(names[member][:3] for member in pipeline) for pipeline in pipes.members]


def test_rails_of_the_same_servers_decide_together():
    assert pipelines_of(lambda name: name[:3]) == [("a00", "a01", "a02")] * 3


def test_without_servers_each_decides_for_itself():
    ways = pipelines_of(lambda _: "")
    assert ways.count(("a00", "a01", "a02")) == 2
    assert ways.count(("a02", "a01", "a00")) == 1
