"""Meanings of sorts of links that compete: what they show, and what the graph could be."""

import numpy as np
import pytest

from llmprism.parallelism.features import Links
from llmprism.parallelism.rival_kinds import choose_collectives

GRADIENTS, PASSES = 0, 1


def ladder(stages, replicas=2):
    """Pipelines of so many stages side by side, and chains of replicas at each stage."""
    at = np.arange(stages * replicas).reshape(stages, replicas)
    passing = [(at[s, r], at[s + 1, r], PASSES) for s in range(stages - 1) for r in range(replicas)]
    reducing = [(at[s, r], at[s, r + 1], GRADIENTS) for s in range(stages) for r in range(replicas - 1)]
    low, high, sort = (np.array(column) for column in zip(*passing, *reducing, strict=True))
    pair = np.arange(low.size, dtype=np.int32)
    return Links(low.astype(np.int32), high.astype(np.int32), pair, pair), sort


def chosen(links, sort, shown, sure=None):
    """Which sorts are collectives, and how far ahead that is, by the log odds that each sort shows."""
    odds = np.array([shown[one] for one in sort])
    sure = np.zeros(sort.size, dtype=np.bool_) if sure is None else sure
    choice = choose_collectives(links, sort, sure, lambda rings: odds)
    collective, margin = choice.collective, choice.margin
    return [bool(collective[sort == one][0]) for one in (GRADIENTS, PASSES)], margin


@pytest.mark.parametrize("stages", [8, 16])
def test_a_chain_of_many_links_is_no_collective_though_it_sends_in_one_burst(stages):
    links, sort = ladder(stages)
    assert chosen(links, sort, {GRADIENTS: 2.0, PASSES: 3.0})[0] == [True, False]


def test_a_tree_of_three_that_takes_turns_is_no_pipeline_where_stages_would_branch():
    links, sort = ladder(4, replicas=3)
    kinds, margin = chosen(links, sort, {GRADIENTS: -2.0, PASSES: -5.0})
    assert kinds == [True, False]
    assert margin[sort == GRADIENTS].max() < 5.0 <= -margin[sort == PASSES].min()


def test_what_the_links_show_decides_where_the_graph_allows_both():
    links, sort = ladder(2)
    assert chosen(links, sort, {GRADIENTS: 2.0, PASSES: -2.0})[0] == [True, False]
    assert chosen(links, sort, {GRADIENTS: -2.0, PASSES: 2.0})[0] == [False, True]
    assert chosen(links, sort, {GRADIENTS: 2.0, PASSES: 2.0})[0] == [True, True]


def test_links_inside_a_ring_are_no_pipelines():
    ring = [(0, 1), (1, 2), (2, 3), (0, 3)]
    inside = [(0, 2), (1, 3)]
    low, high = (np.array(side, dtype=np.int32) for side in zip(*ring, *inside, strict=True))
    sort = np.array([GRADIENTS] * 4 + [PASSES] * 2)
    links = Links(low, high, np.arange(6, dtype=np.int32), np.arange(6, dtype=np.int32))
    assert chosen(links, sort, {GRADIENTS: 4.0, PASSES: -2.0}, sure=sort == GRADIENTS)[0] == [True, True]


def test_rings_of_the_choice_change_what_other_links_show():
    """Passes that look like a burst of gradients, unless the gradients are taken for rings that fill the rest."""
    links, sort = ladder(2)

    def odds(rings):
        as_well = rings[sort == GRADIENTS].all()
        return np.where(sort == GRADIENTS, 1.0, -4.0 if as_well else 3.0)

    collective = choose_collectives(links, sort, np.zeros(sort.size, dtype=np.bool_), odds).collective
    assert not collective[sort == PASSES].any()
    assert collective[sort == GRADIENTS].all()


def test_many_sorts_are_changed_one_at_a_time():
    links, _ = ladder(16)
    passing = np.arange(links.low.size) < 30
    sort = np.where(passing, np.arange(links.low.size) % 10, 10)
    odds = np.where(passing, -3.0, 3.0)
    collective = choose_collectives(links, sort, np.zeros(sort.size, dtype=np.bool_), lambda rings: odds).collective
    assert (collective == ~passing).all()


def test_links_that_no_meaning_explains_fit_nothing_and_others_do():
    """Passes over a triangle with a tail, which is no pipeline; those of a ladder are."""
    links, sort = ladder(4)
    assert choose_collectives(links, sort, sort == GRADIENTS, lambda rings: np.full(sort.size, -9.0)).fits.all()
    low, high = np.array([0, 1, 2, 3, 0], dtype=np.int32), np.array([1, 2, 3, 4, 2], dtype=np.int32)
    branching = Links(low, high, np.arange(5, dtype=np.int32), np.arange(5, dtype=np.int32))
    one_sort = np.zeros(5, dtype=np.int64)
    choice = choose_collectives(branching, one_sort, one_sort > 0, lambda rings: np.full(5, -20.0))
    assert not choice.collective.any()
    assert not choice.fits.any()
