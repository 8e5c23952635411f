"""All-to-all meshes, told from rings, pipelines and trees; rings that run over their links."""

from itertools import combinations, pairwise, product

import numpy as np
import pytest

from llmprism.stats.meshes import EXCESS, MIN_PEERS, MeshPairs, _common, _common_by_arrays, mesh_pairs, mesh_rows

MS = 1_000_000


def ring(members):
    return list(pairwise([*members, members[0]]))


def both_ways(links):
    return [*links, *((b, a) for a, b in links)]


def between(*servers):
    """Everyone to everyone on another server."""
    return [link for one, other in combinations(servers, 2) for link in both_ways(list(product(one, other)))]


def found(pairs, extra=None, seed=None):
    """The meshes as sets of members, and the pairs that carry more; each pair carries 100 bytes unless told."""
    size = np.full(len(pairs), 100.0)
    if seed is not None:
        rng = np.random.default_rng(seed)
        tokens, popular = rng.uniform(0.5, 2, 64), rng.uniform(0.5, 2, 64)
        size = np.array([100.0 * tokens[a] * popular[b] * rng.uniform(0.98, 1.02) for a, b in pairs])
    size = np.array([carried + (extra or {}).get(pair, 0.0) for pair, carried in zip(pairs, size, strict=True)])
    src, dst = (np.array(ends, dtype=np.int64) for ends in zip(*pairs, strict=True))
    result = mesh_pairs(src, dst, size)
    meshes = [set(src[result.mesh == m]) | set(dst[result.mesh == m]) for m in range(result.mesh.max() + 1)]
    return meshes, {pairs[i] for i in np.flatnonzero(result.surplus)}


@pytest.mark.parametrize("size", [MIN_PEERS + 1, 8, 16])
def test_everyone_to_everyone_is_a_mesh(size):
    assert found(both_ways(list(combinations(range(size), 2)))) == ([set(range(size))], set())


@pytest.mark.parametrize(("servers", "members"), [(2, 4), (2, 8), (4, 2), (4, 8)])
def test_members_of_a_server_need_no_links_among_each_other(servers, members):
    job = [range(s * members, (s + 1) * members) for s in range(servers)]
    assert found(between(*job))[0] == [set(range(servers * members))]


def test_rings_pipelines_and_trees_are_none():
    across = [(4 * r + c, 4 * r + (c + 1) % 4) for r in range(4) for c in range(4)]
    down = [(4 * r + c, (4 * r + 4) % 16 + c) for r in range(4) for c in range(4)]
    torus = across + down
    tree = both_ways([(i, (i - 1) // 2) for i in range(1, 15)])
    cube = both_ways([(a, a ^ bit) for a in range(16) for bit in (1, 2, 4, 8) if a < a ^ bit])
    for graph in (
        ring(range(8)),
        both_ways(torus),
        tree,
        cube,
        [*ring(range(4)), *both_ways([(i, i + 4) for i in range(4)])],
    ):
        assert found(graph) == ([], set())


def test_a_clique_of_one_way_rings_is_no_mesh():
    """Several channels of a collective may join everyone to everyone, each one way."""
    assert found(ring(range(7)) + ring([0, 2, 4, 6, 1, 3, 5]) + ring([0, 3, 6, 2, 5, 1, 4])) == ([], set())


def test_each_mesh_is_one_of_its_own_and_the_pipelines_between_them_are_no_part_of_any():
    one, other = between(range(4), range(4, 8)), between(range(8, 12), range(12, 16))
    stages = both_ways([(a, a + 8) for a in range(8)])
    assert found(one + other + stages)[0] == [set(range(8)), set(range(8, 16))]


@pytest.mark.parametrize("seed", range(5))
def test_a_ring_over_the_links_of_a_mesh_shows_however_uneven_the_mesh_is(seed):
    mesh = between(range(8), range(8, 16))
    hops = both_ways([(a, a + 8) for a in range(8)])
    assert found(mesh, dict.fromkeys(hops, 100.0), seed)[1] == set(hops)
    assert found(mesh, None, seed)[1] == set()


def test_little_more_or_more_on_a_few_pairs_that_lead_nowhere_is_no_ring():
    mesh = both_ways(list(combinations(range(8), 2)))
    assert found(mesh, dict.fromkeys(ring(range(8)), 100.0 * (EXCESS - 1.01)))[1] == set()
    assert found(mesh, dict.fromkeys(ring(range(8)), 100.0 * (EXCESS - 0.99)))[1] == set(ring(range(8)))
    assert found(mesh, {(0, 1): 100.0, (2, 3): 100.0})[1] == set()


def test_rings_in_several_orders_over_most_pairs_of_an_even_mesh_all_show():
    mesh = both_ways(list(combinations(range(4), 2)))
    hops = ring(range(4)) + ring([0, 3, 2, 1]) + ring([0, 2, 1, 3])
    extra = {pair: 200.0 * hops.count(pair) for pair in set(hops)}
    assert found(mesh, extra) == ([set(range(4))], set(hops))


def test_a_ring_that_carries_hundreds_of_times_what_the_mesh_does_hides_no_mesh():
    mesh = both_ways(list(combinations(range(4), 2)))
    assert found(mesh, dict.fromkeys(ring(range(4)), 20_000.0)) == ([set(range(4))], set(ring(range(4))))
    trickle = {pair: 2_000_000.0 if pair in ring(range(4)) else 0.0 for pair in both_ways(ring(range(4)))}
    assert found(both_ways(ring(range(4))), trickle) == ([], set())


def test_a_ring_may_go_on_outside_the_mesh():
    """Two meshes, and rings through both: only every second hop is a link of a mesh."""
    meshes = between(range(4), range(4, 8)) + between(range(8, 12), range(12, 16))
    inside = {(a, a + 4) for a in (*range(4), *range(8, 12))}
    outside = [(a + 4, (a + 8) % 16) for a in (*range(4), *range(8, 12))]
    assert found(meshes + outside, dict.fromkeys(inside, 100.0))[1] == inside


def test_transfers_of_the_ring_are_those_that_nobody_else_sends_with():
    """One sender, three peers: all-to-alls at 0, 10, 20 ... ms; to the first also larger ones at 4 and 10 ms."""
    rows = [(peer, k * 10 * MS + peer * MS // 10, 100_000) for peer in range(3) for k in range(8)]
    rows += [(0, k * 10 * MS + at * MS, size) for k in range(8) for at, size in ((4, 90_000), (10, 400_000))]
    rows.sort()
    src = np.zeros(3, dtype=np.int64)
    peer, start, size = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    pairs = type(mesh_pairs(src, src + 1, np.ones(3)))(np.zeros(3, dtype=np.int64), np.array([True, False, False]))
    result = mesh_rows(pairs, src, np.searchsorted(peer, np.arange(4)), start, start + MS // 100, size)
    assert result.tolist() == [p > 0 or s == 100_000 for p, _, s in rows]


def test_where_all_pairs_of_a_sender_carry_a_ring_those_of_the_others_show_the_bursts():
    """Sender 0 has one pair, which carries a ring besides; the all-to-alls of sender 1 are at 0, 10, 20 ... ms."""
    rows = [(pair, k * 10 * MS, 100_000) for pair in range(2) for k in range(8)]
    rows += [(0, k * 10 * MS + 5 * MS, 100_000) for k in range(8)]
    rows.sort()
    pair, start, size = (np.array(column, dtype=np.int64) for column in zip(*rows, strict=True))
    pairs = MeshPairs(np.zeros(2, dtype=np.int64), np.array([True, False]))
    result = mesh_rows(pairs, np.array([0, 1]), np.searchsorted(pair, np.arange(3)), start, start + MS // 100, size)
    assert result.tolist() == [at % (10 * MS) == 0 for _, at, _ in rows]


def test_bits_in_common_are_counted_alike_in_both_forms():
    rng = np.random.default_rng(1)
    a, b = rng.integers(0, 2**64, (2, 5), dtype=np.uint64)
    assert (
        _common.python(a, b)
        == _common_by_arrays(a, b)
        == sum((int(x) & int(y)).bit_count() for x, y in zip(a, b, strict=True))
    )


def test_no_pairs_no_meshes():
    none = np.zeros(0, dtype=np.int64)
    result = mesh_pairs(none, none, np.zeros(0))
    assert (result.mesh.size, result.surplus.size, result.pure.size) == (0, 0, 0)
