from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from llmprism.stats.disjoint_sets import component_labels

edges = st.integers(1, 40).flatmap(
    lambda count: st.tuples(
        st.just(count), st.lists(st.tuples(st.integers(0, count - 1), st.integers(0, count - 1)), max_size=60)
    )
)


@settings(max_examples=100, deadline=None)
@given(edges)
def test_same_components_as_scipy(graph: tuple[int, list[tuple[int, int]]]) -> None:
    count, pairs = graph
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    labels = component_labels(count, left, right)
    _, expected = connected_components(coo_array((np.ones(left.size), (left, right)), shape=(count, count)), False)
    # Same partition: a label of one side always meets the same label of the other.
    assert len(set(zip(labels.tolist(), expected.tolist(), strict=True))) == len(set(labels.tolist()))
    assert len(set(labels.tolist())) == len(set(expected.tolist()))


@settings(max_examples=50, deadline=None)
@given(edges, st.randoms(use_true_random=False))
def test_order_and_direction_of_edges_do_not_matter(graph: tuple[int, list[tuple[int, int]]], random: object) -> None:
    count, pairs = graph
    shuffled = [pair[::-1] for pair in pairs]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    before = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    after = np.array(shuffled, dtype=np.int64).reshape(-1, 2).T
    np.testing.assert_array_equal(component_labels(count, *before), component_labels(count, *after))


def test_a_long_chain_is_one_component() -> None:
    nodes = np.arange(100_000)
    assert component_labels(nodes.size, nodes[:-1], nodes[1:]).max() == 0


def test_labels_count_up_in_the_order_of_the_lowest_nodes() -> None:
    assert component_labels(5, [4, 2], [0, 3]).tolist() == [0, 1, 2, 2, 0]
    assert component_labels(0, [], []).tolist() == []


@pytest.mark.parametrize(("left", "right"), [([0], [5]), ([-1], [0]), ([0, 1], [0])])
def test_ends_outside_the_graph_are_refused(left: list[int], right: list[int]) -> None:
    with pytest.raises(ValueError, match="end"):
        component_labels(5, left, right)


@settings(max_examples=50, deadline=None)
@given(edges, st.integers(0, 2000))
def test_nodes_without_edges_come_in_their_order_however_many_there_are(
    graph: tuple[int, list[tuple[int, int]]], more: int
) -> None:
    count, pairs = graph
    left, right = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    few, many = component_labels(count, left, right), component_labels(count + more, left, right)
    rest = np.arange(more) + int(few.max(initial=-1)) + 1
    np.testing.assert_array_equal(many, np.concatenate([few, rest]))
