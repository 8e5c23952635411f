"""All-to-all meshes, told from rings, pipelines and trees by the peers that the ends of a link share."""

from itertools import combinations, pairwise

import numpy as np
import pytest

from llmprism.model import PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.meshes import EXCESS, MIN_PEERS, find_meshes


def meshes(*groups, extra=(), amounts=None, one_way=()):
    """Meshes in a graph of cliques and further links (low, high); (links inside, links that carry more, groups).

    Each link carries 100 bytes both ways, or what `amounts` says; those of `one_way` only from high to low.
    """
    links = sorted({link for group in groups for link in combinations(sorted(group), 2)} | set(extra))
    low, high = (np.array(ends, dtype=np.int32) for ends in zip(*links, strict=True))
    count = len(links)
    there = np.array([-1 if link in one_way else i for i, link in enumerate(links)], dtype=np.int32)
    back = np.arange(count, 2 * count, dtype=np.int32)
    carried = np.array([(amounts or {}).get(link, 100.0) for link in links])
    step_bytes = np.concatenate([np.full(count, 1.0), carried])
    features = PairFeatures(step_bytes, np.zeros(2 * count), np.zeros((2 * count, 4)), step_bytes)
    found = find_meshes(Links(low, high, there, back), features)
    named = [{links[i] for i in np.flatnonzero(flags)} for flags in (found.inside, found.more)]
    return *named, found.groups


def ring(members):
    return [tuple(sorted(link)) for link in pairwise([*members, members[0]])]


@pytest.mark.parametrize("size", [MIN_PEERS + 1, 8, 16])
def test_everyone_to_everyone_is_a_mesh(size):
    inside, more, (group,) = meshes(range(size))
    assert len(inside) == size * (size - 1) // 2
    assert more == set()
    assert (group.kind, group.members) == (PairKind.EP, tuple(range(size)))


def test_rings_pipelines_and_trees_are_none():
    torus = [tuple(sorted((4 * r + c, 4 * ((r + dr) % 4) + (c + dc) % 4)))
             for r in range(4) for c in range(4) for dr, dc in ((0, 1), (1, 0))]  # fmt: skip
    star = [(0, peer) for peer in range(1, 12)]
    small = list(combinations(range(MIN_PEERS), 2))
    for graph in (ring(range(8)), torus, star, small):
        assert meshes(extra=graph) == (set(), set(), ())


def test_each_mesh_is_a_group_of_its_own_and_the_links_between_them_are_no_part_of_any():
    one, other = range(6), range(6, 12)
    pipelines = [(a, a + 6) for a in one]
    inside, _, groups = meshes(one, other, extra=pipelines)
    assert inside.isdisjoint(pipelines)
    assert [group.members for group in groups] == [tuple(one), tuple(other)]


def test_a_mesh_with_a_few_links_missing_is_still_one():
    everyone = set(combinations(range(8), 2))
    inside, _, (group,) = meshes(extra=everyone - {(0, 1), (2, 3)})
    assert inside == everyone - {(0, 1), (2, 3)}
    assert group.members == tuple(range(8))


@pytest.mark.parametrize("one_way", [True, False])
def test_a_ring_of_gradients_over_links_of_the_mesh_shows_by_what_it_carries(one_way):
    gradients = ring(range(8))
    told = dict.fromkeys(gradients, (EXCESS + 0.1) * 100.0)
    inside, more, groups = meshes(range(8), amounts=told, one_way=gradients if one_way else ())
    assert more == set(gradients)
    assert len(inside) == 28
    assert [len(group.members) for group in groups] == [8]
    assert meshes(range(8), amounts=dict.fromkeys(gradients, (EXCESS - 0.1) * 100.0))[1] == set()


def test_no_links_no_meshes():
    none = np.zeros(0, dtype=np.int32)
    found = find_meshes(Links(none, none, none, none), PairFeatures(*(np.zeros(0),) * 2, np.zeros((0, 4)), np.zeros(0)))
    assert (found.inside.size, found.more.size, found.groups) == (0, 0, ())
