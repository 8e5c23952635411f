"""Rings of stages whose closing link carries too little for interleaved stages."""

import numpy as np
import pytest

from llmprism.model import PairKind
from llmprism.parallelism.closing_links import without_light_closings
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.pair_kinds import LinkKinds

DP, PP, OTHER = PairKind.DP, PairKind.PP, PairKind.OTHER


def kinds_of(*rings):
    """The kinds of the links of these rings of stages, given as the bytes that each link carries each way."""
    low, high, sent, member = [], [], [], 0
    for ring in rings:
        low += [member + i for i in range(len(ring))]
        high += [member + (i + 1) % len(ring) for i in range(len(ring))]
        sent += ring
        member += len(ring)
    number = np.arange(len(sent), dtype=np.int32)
    links = Links(np.array(low, dtype=np.int32), np.array(high, dtype=np.int32), 2 * number, 2 * number + 1)
    size = np.repeat(np.array(sent, dtype=np.float64), 2)
    features = PairFeatures(size, np.zeros(size.size), np.full((size.size, 4), 0.25), size)
    none = np.zeros(len(sent), dtype=np.bool_)
    kinds = LinkKinds(np.full(len(sent), PP, dtype=np.int8), np.full(len(sent), 0.9), none, ~none)
    return without_light_closings(links, kinds, features).kind.tolist()


@pytest.mark.parametrize("closing", [10.0, 27.0, 45.0])
def test_a_closing_link_below_half_of_the_others_closes_nothing(closing):
    assert kinds_of([100.0, 100.0, 100.0, closing], [100.0, closing, 100.0]) == [PP, PP, PP, OTHER, PP, OTHER, PP]


@pytest.mark.parametrize("closing", [50.0, 75.0, 300.0])
def test_interleaved_stages_send_half_at_least_over_the_closing_link(closing):
    assert kinds_of([100.0, 100.0, 100.0, closing]) == [PP] * 4


def test_all_rings_have_one_schedule():
    assert kinds_of([100.0, 100.0, 10.0], [100.0, 100.0, 50.0]) == [PP] * 6
