"""A dense graph is one all-to-all, several that rings join, or rings in several orders."""

from itertools import combinations, pairwise

import numpy as np

from llmprism.stats.all_to_alls import all_to_all_parts, has_same_peers, rings_are_cheaper


def carried_by(pairs):
    """Links with the bytes of both directions, from directed pairs and their bytes (added up where repeated)."""
    total = {}
    for (a, b), size in pairs:
        total[a, b] = total.get((a, b), 0.0) + size
    links = sorted({tuple(sorted(pair)) for pair in total})
    carried = np.array([[total.get(link, 0.0) for link in links], [total.get(link[::-1], 0.0) for link in links]])
    low, high = (np.array(ends, dtype=np.int64) for ends in zip(*links, strict=True))
    return low, high, carried


def ring(members, size=100.0):
    return [(pair, size) for pair in pairwise([*members, members[0]])]


def everyone(members, size=100.0):
    return [((a, b), size) for one in combinations(members, 2) for a, b in (one, one[::-1])]


def channels(count):
    """Rings as listed and with every second member first, both ways round."""
    orders = [list(range(count)), [*range(0, count, 2), *range(1, count, 2)]]
    return [hop for order in orders for way in (order, order[::-1]) for hop in ring(way)]


def test_rings_in_two_orders_are_dense_but_their_members_have_different_peers():
    low, high, carried = carried_by(channels(8))
    assert not has_same_peers(low, high)
    assert (all_to_all_parts(low, high, carried) == -1).all()


def test_members_of_one_server_have_the_same_peers_and_no_link():
    between = [((a, b), 100.0) for a in range(4) for b in range(4, 8)] + [
        ((b, a), 90.0) for a in range(4) for b in range(4, 8)
    ]
    low, high, carried = carried_by(between)
    assert (all_to_all_parts(low, high, carried) == 0).all()


def test_four_members_in_two_orders_meet_all_of_each_other_in_whole_multiples():
    low, high, carried = carried_by(channels(4))
    assert has_same_peers(low, high)
    assert rings_are_cheaper(low, high, carried)
    low, high, carried = carried_by(everyone(range(4)))
    assert not rings_are_cheaper(low, high, carried)


def test_an_all_to_all_with_a_ring_over_it_is_no_channels_whatever_the_ring_carries():
    for size in (37.0, 100.0, 250.0):
        low, high, carried = carried_by(everyone(range(8)) + ring(range(8), size))
        assert not rings_are_cheaper(low, high, carried), size
    low, high, carried = carried_by(everyone(range(4)) + ring(range(4), 100.0))
    assert not rings_are_cheaper(low, high, carried)


def test_all_to_alls_that_two_way_rings_join_come_apart():
    glue = [hop for way in (range(8), range(7, -1, -1)) for hop in ring(list(way), 700.0)]
    low, high, carried = carried_by(
        everyone(range(4))
        + everyone(range(4, 8))
        + [hop for hop in glue if {3, 4} == set(hop[0]) or {7, 0} == set(hop[0])]
    )
    parts = all_to_all_parts(low, high, carried)
    groups = {frozenset(np.union1d(low[parts == k], high[parts == k]).tolist()) for k in range(parts.max() + 1)}
    assert groups == {frozenset(range(4)), frozenset(range(4, 8))}
