"""Contexts that share servers, told from tensor parallelism across servers by the NICs that their hops use."""

import numpy as np
import pytest

from llmprism.model import Job, PairKind
from llmprism.parallelism.context_lanes import context_lanes
from unit.builders import MS, Flow, transfer_table


def rings(hops, placed=True):
    """Rings of hops between NICs named server.number; each as the set of its members' names."""
    transfers = transfer_table([Flow(src, dst, 0, MS, 100_000) for src, dst in hops])
    names = transfers.addresses
    places = tuple(name.split(".")[0] if placed else "" for name in names)
    job = Job("job", tuple(range(len(names))), (), 1.0, transfers, places=places)
    found = context_lanes(job, np.ones(transfers.pair_count, dtype=np.bool_))
    assert {group.kind for group in found} <= {PairKind.CP}
    return {frozenset(names[member] for member in group.members) for group in found}


def lanes(count, tensor):
    """Two ranks per server, `tensor` lanes each: the second rank of a server sends to the first of the next."""
    servers = "abcd"[:count]
    return [
        (f"{here}.{tensor + t}", f"{there}.{t}")
        for here, there in zip(servers, servers[1:] + servers[:1], strict=True)
        for t in range(tensor)
    ]


@pytest.mark.parametrize("servers", [2, 4])
@pytest.mark.parametrize("tensor", [2, 4, 12])
def test_lanes_of_contexts_are_joined_inside_the_servers(servers, tensor):
    expected = {frozenset(f"{s}.{k}" for s in "abcd"[:servers] for k in (t, tensor + t)) for t in range(tensor)}
    assert rings(lanes(servers, tensor)) == expected


def test_a_tensor_group_leaves_by_one_nic_or_by_all_it_arrives_at():
    assert rings([("a.7", "b.0"), ("b.7", "a.0")]) == set()
    assert rings([(f"{a}.{k}", f"{b}.{k}") for k in range(8) for a, b in ("ab", "ba")]) == set()


def test_without_servers_or_pairs_nothing_is_decided():
    assert rings(lanes(2, 4), placed=False) == set()
    assert rings([]) == set()
