import numpy as np

from llmprism.model import Group, PairKind
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_kinds import LinkKinds
from llmprism.parallelism.structure import data_parallel_groups, in_two, pipeline_paths

DP, PP = PairKind.DP, PairKind.PP


def graph(pairs):
    """Directed pairs (src, dst, kind, bytes) as links, kinds and features."""
    amount = np.array([float(size) for *_, size in pairs])
    features = PairFeatures(amount, np.zeros(amount.size), np.zeros((amount.size, 1)), amount)
    found = {}
    for index, (src, dst, kind, _) in enumerate(pairs):
        link = found.setdefault((min(src, dst), max(src, dst)), [kind, -1, -1])
        link[1 if src < dst else 2] = index
    low, high = zip(*found, strict=True)
    kind, there, back = zip(*found.values(), strict=True)
    size = np.append(amount, 0.0)
    lesser = np.minimum(size[list(there)], size[list(back)])
    greater = np.maximum(size[list(there)], size[list(back)])
    links = Links(*(np.array(column, dtype=np.int32) for column in (low, high, there, back)))
    kinds = LinkKinds(
        np.array(kind, dtype=np.int8), np.ones(len(kind)), lesser < 0.3 * greater, np.ones(len(kind), dtype=np.bool_)
    )
    return links, kinds, features


def groups(*pairs):
    return [(group.members, group.ring) for group in data_parallel_groups(*graph(pairs))]


def paths(*pairs):
    return pipeline_paths(*graph([(a, b, PP, size) for x, y, size in pairs for a, b in ((x, y), (y, x))]))


def test_a_ring_is_listed_in_its_order_from_its_lowest_member():
    ring = [(4, 1, DP, 9), (1, 7, DP, 9), (7, 3, DP, 9), (3, 4, DP, 9)]
    assert groups(*ring) == [((1, 7, 3, 4), True)]


def test_the_trickle_back_does_not_turn_the_ring():
    ring = [(0, 1, DP, 100), (1, 2, DP, 100), (2, 0, DP, 100), (1, 0, DP, 5), (2, 1, DP, 5), (0, 2, DP, 5)]
    assert groups(*ring) == [((0, 1, 2), True)]


def test_a_group_without_a_ring_is_in_the_order_of_its_members():
    mesh = [(a, b, DP, 9) for a in (2, 5, 8) for b in (2, 5, 8) if a != b]
    assert groups(*mesh) == [((2, 5, 8), False)]


def test_groups_come_in_the_order_of_their_lowest_members_and_pipelines_are_none():
    assert groups((8, 9, DP, 1), (9, 8, DP, 1), (0, 5, DP, 1), (5, 0, DP, 1), (0, 8, PP, 1)) == [
        ((0, 5), False),
        ((8, 9), False),
    ]
    assert groups((0, 1, PP, 1)) == []


def test_a_broken_ring_is_no_ring():
    assert groups((0, 1, DP, 9), (1, 2, DP, 9), (2, 3, DP, 9)) == [((0, 1, 2, 3), False)]


def test_paths_run_from_end_to_end():
    found, rings = paths((3, 1, 5), (1, 4, 5), (7, 8, 5))
    assert set(found) == {(3, 1, 4), (7, 8)}
    assert not rings


def test_an_interleaved_pipeline_is_cut_where_it_carries_least():
    found, rings = paths((0, 1, 9), (1, 2, 9), (2, 3, 9), (0, 3, 7))
    assert rings
    assert found in (((0, 1, 2, 3),), ((3, 2, 1, 0),))


def test_a_ring_cut_elsewhere():
    found, rings = paths((0, 1, 9), (1, 2, 7), (2, 3, 9), (0, 3, 9))
    assert rings
    assert found in (((2, 3, 0, 1),), ((1, 0, 3, 2),))


def test_a_fork_is_no_pipeline():
    found, _ = paths((0, 1, 5), (1, 2, 5), (1, 3, 5), (7, 8, 5))
    assert found == ((7, 8),)


def test_no_pipelines():
    assert pipeline_paths(*graph([(0, 1, DP, 1)])) == ((), False)


def test_a_member_of_two_groups_is_noticed():
    pair, three = Group(DP, (0, 1)), Group(DP, (1, 2, 3))
    assert in_two((pair, three))
    assert not in_two((pair,))
