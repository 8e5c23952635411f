"""A tree of four members is a chain, but both of its ends send first."""

import numpy as np
import pytest

from llmprism.model import Job, PairKind, StepClock
from llmprism.parallelism.chain_trees import without_chain_trees
from llmprism.parallelism.features import links_of, pair_features
from llmprism.parallelism.pair_kinds import LinkKinds
from unit.builders import MS, Flow, build_job, transfer_table

TREE = (("b", "a", 20), ("c", "a", 20), ("d", "b", 10), ("a", "b", 30), ("a", "c", 30), ("b", "d", 40))
"""Who sends to whom in a tree of four, and when: up, then down."""


def kinds_of(flows, ends_ns):
    """What links become that were all taken for a pipeline's."""
    transfers = transfer_table(flows)
    clock = StepClock(np.array(ends_ns, dtype=np.int64), np.ones(len(ends_ns) - 1, dtype=np.bool_), 1.0)
    links = links_of(transfers, np.ones(transfers.pair_count, dtype=np.bool_))
    every = np.ones(links.low.size, dtype=np.bool_)
    judged = LinkKinds(np.full(every.size, PairKind.PP, dtype=np.int8), 0.9 * every, ~every, every)
    job = Job("job", tuple(range(len(transfers.addresses))), (), 1.0, transfers, clock=clock)
    return set(without_chain_trees(job, links, judged, pair_features(transfers, clock)).kind.tolist())


def tree(members="abcd", buckets=1):
    """Twelve steps of 200 ms, each with the gradients of these members at its end."""
    return [
        Flow(src, dst, (step * 200 + 40 * bucket + at) * MS, (step * 200 + 40 * bucket + at + 5) * MS, 1_000_000)
        for step in range(12)
        for bucket in range(buckets)
        for src, dst, at in TREE
        if src in members and dst in members
    ]


ENDS = [step * 200 * MS for step in range(13)]


@pytest.mark.parametrize("members", ["abcd", "abc"])
@pytest.mark.parametrize("buckets", [1, 3])
def test_links_that_lead_to_a_root_are_those_of_a_tree(members, buckets):
    assert kinds_of(tree(members, buckets), ENDS) == {PairKind.DP}


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize("pp", [2, 3, 4, 5])
@pytest.mark.parametrize("micro_batches", [2, 8])
def test_pipelines_stay_pipelines(order, pp, micro_batches):
    job = build_job(pp=pp, dp=1, micro_batches=micro_batches, order=order)
    assert kinds_of(job.records, job.step_ends_ns) == {PairKind.PP}


def test_longer_chains_are_no_trees():
    flows = tree() + [
        Flow(src, dst, (step * 200 + at) * MS, (step * 200 + at + 5) * MS, 1_000_000)
        for step in range(12)
        for src, dst, at in (("e", "d", 0), ("d", "e", 50))
    ]
    assert kinds_of(flows, ENDS) == {PairKind.PP}
