"""Rings in several orders, trees and pipelines by what their links carry."""

from itertools import pairwise

import numpy as np
import pytest

from llmprism.parallelism.channels import Amounts, branching_links, channel_links
from llmprism.parallelism.features import Links


def ring(members, size=10.0):
    return [(a, b, size) for a, b in pairwise([*members, members[0]])]


def both_ways(pairs, size=10.0):
    return [(x, y, size) for a, b in pairs for x, y in ((a, b), (b, a))]


def links_of(hops, error=0.01):
    """Links and their amounts from directed hops, added up where repeated."""
    total = {}
    for a, b, size in hops:
        total[a, b] = total.get((a, b), 0.0) + size
    ends = sorted({(min(pair), max(pair)) for pair in total})
    low, high = (np.array(side, dtype=np.int32) for side in zip(*ends, strict=True))
    count = np.arange(low.size, dtype=np.int32)
    there, back = (np.array([total.get(pair, 0.0) for pair in side]) for side in (ends, [e[::-1] for e in ends]))
    return Links(low, high, count, count), Amounts(there, back, np.full(low.size, error))


@pytest.mark.parametrize("members", [4, 6, 8, 12])
@pytest.mark.parametrize("rings", [3, 4])
def test_rings_in_several_orders_explain_all_links_of_their_group(members, rings):
    listed, skipping = list(range(members)), [*range(0, members, 2), *range(1, members, 2)]
    orders = [listed, listed[::-1], skipping, skipping[::-1]][:rings]
    links, amounts = links_of([hop for order in orders for hop in ring(order)])
    assert channel_links(links, amounts).all()


def test_pipelines_of_unrelated_messages_are_not_part_of_the_rings():
    stages = [[*range(4)], [*range(4, 8)]]
    orders = [order for stage in stages for order in (stage, stage[::-1], [stage[0], stage[2], stage[1], stage[3]])]
    passing = both_ways([(k, k + 4) for k in range(4)], 14.2)
    links, amounts = links_of([hop for order in orders for hop in ring(order)] + passing)
    assert (channel_links(links, amounts) == (links.high - links.low < 4)).all()


def test_a_pipeline_and_one_ring_are_no_channels():
    links, amounts = links_of(ring(range(4)) + both_ways([(k, k + 4) for k in range(4)], 20.0))
    assert not channel_links(links, amounts).any()
    links, amounts = links_of(both_ways([(0, 1), (1, 2), (2, 3)]))
    assert not channel_links(links, amounts).any()
    stages = ring(range(3), 20.0) + ring(range(3, 6), 20.0)
    links, amounts = links_of(stages + both_ways([(k, k + 3) for k in range(3)]))
    assert not channel_links(links, amounts).any()


def test_tensor_peers_that_exchange_twice_what_the_stages_do_are_no_channels():
    passing, peers = both_ways([(0, 2), (1, 3)]), both_ways([(0, 1), (2, 3)], 20.0)
    links, amounts = links_of(passing + peers)
    assert not channel_links(links, amounts).any()


def test_a_ring_of_twice_what_its_neighbours_exchange_is_no_channels():
    links, amounts = links_of(ring(range(6), 20.0) + both_ways([(0, 1), (2, 3), (4, 5)]))
    assert not channel_links(links, amounts).any()


def test_a_tree_branches_and_a_pipeline_does_not():
    tree = both_ways([(i, (i - 1) // 2) for i in range(1, 7)])
    links, amounts = links_of(tree + both_ways([(k, k + 10) for k in range(7)], 33.0))
    one_sort = np.zeros(links.low.size, dtype=np.int64)
    assert (branching_links(links, amounts, one_sort) == (links.high < 10)).all()
    links, amounts = links_of(both_ways([(0, 1), (1, 2), (2, 3)]) + both_ways([(0, 4), (1, 5)], 10.5))
    assert not branching_links(links, amounts, np.zeros(links.low.size, dtype=np.int64)).any()


def test_links_of_another_sort_do_not_branch_though_they_carry_the_same():
    """Two gradient links and two of activations that meet in one member carry the same bytes by chance."""
    links, amounts = links_of(both_ways([(0, 1), (0, 2), (0, 3), (0, 4)]))
    assert branching_links(links, amounts, np.array([0, 0, 0, 0])).all()
    assert not branching_links(links, amounts, np.array([0, 0, 1, 1])).any()
