"""Expert-parallel groups from the meshes of a job's links."""

from itertools import combinations, permutations

import numpy as np

from llmprism.model import PairKind
from llmprism.parallelism.features import links_of
from llmprism.parallelism.meshes import find_meshes
from unit.builders import MS, Flow, transfer_table

NAMES = "abcd"


def job(*extra):
    """Ten all-to-alls of four members, 20 ms apart, and what else they send."""
    flows = [
        Flow(a, b, k * 20 * MS + i * MS // 10, k * 20 * MS + i * MS // 10 + MS // 20, 100_000)
        for k in range(10)
        for i, (a, b) in enumerate(permutations(NAMES, 2))
    ]
    transfers = transfer_table(flows + list(extra))
    bulk = np.ones(transfers.pair_count, dtype=np.bool_)
    return transfers, find_meshes(transfers, bulk, links_of(transfers, bulk))


def test_a_mesh_is_a_group_of_experts():
    _, meshes = job()
    assert [(group.kind, group.members) for group in meshes.groups] == [(PairKind.EP, (0, 1, 2, 3))]
    assert meshes.inside.all()
    assert meshes.pairs.all()
    assert meshes.rows.all()
    assert not meshes.more.any()


def test_a_ring_over_the_mesh_keeps_its_links_pairs_and_transfers():
    hops = ["ab", "bc", "cd", "da"]
    ring = [Flow(a, b, k * 20 * MS + 10 * MS, k * 20 * MS + 12 * MS, 500_000) for k in range(10) for a, b in hops]
    transfers, meshes = job(*ring)
    assert meshes.more.sum() == len(hops)
    assert meshes.inside.sum() == len(list(combinations(NAMES, 2)))
    assert (transfers.bytes[~meshes.rows] == 500_000).all()
    assert (~meshes.rows).sum() == len(ring)


def test_a_ring_alone_has_no_mesh():
    transfers = transfer_table([Flow(a, b, 0, MS, 100_000) for a, b in ("ab", "bc", "cd", "da")])
    bulk = np.ones(transfers.pair_count, dtype=np.bool_)
    meshes = find_meshes(transfers, bulk, links_of(transfers, bulk))
    assert meshes.groups == ()
    assert not np.concatenate([meshes.inside, meshes.pairs, meshes.rows]).any()
