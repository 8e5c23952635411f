"""Messages of a link, counted by its pauses."""

import numpy as np
import pytest

from llmprism.kernel import always_compiled, always_interpreted
from llmprism.parallelism.features import Links, PairFeatures
from llmprism.parallelism.link_evidence import _by_width, _closed, _long_pauses, _narrowest
from llmprism.parallelism.rules import RULES


def pauses(pieces, batches, steps):
    """Logarithms of the pauses of steps of `batches` messages in `pieces` pieces, with a long rest after each step."""
    one_message = [1e4] * (pieces - 1)
    one_step = [*one_message, 1e6] * (batches - 1) + one_message
    return np.log2(np.array([*one_step, 1e9] * (steps - 1) + one_step))


@pytest.mark.parametrize("batches", [4, 32])
def test_pieces_of_a_message_are_counted_once(batches):
    assert 1 + _long_pauses(pauses(8, batches, 10), 10, RULES) == pytest.approx(10 * batches, abs=1)


def test_the_rests_between_steps_do_not_make_one_message_of_each_step():
    """Whole messages, whose pauses are a thousandth of the rest between steps."""
    assert 1 + _long_pauses(pauses(1, 32, 10), 10, RULES) == 320


def hops(profiles):
    """A closed ring of two-way links whose directions have these profiles over the step."""
    count = len(profiles)
    low, high = np.arange(count), (np.arange(count) + 1) % count
    low, high = np.minimum(low, high).astype(np.int32), np.maximum(low, high).astype(np.int32)
    pair = np.arange(count, dtype=np.int32)
    profile = np.array(profiles, dtype=np.float64)
    features = PairFeatures(np.ones(count), np.zeros(count), profile, np.ones(count))
    return Links(low, high, pair, pair), features


def test_a_ring_is_closed_where_all_hops_are_busy_at_the_same_times():
    none, one_sort = np.zeros(4, dtype=np.bool_), np.zeros(4, dtype=np.int64)
    together, passing, embeddings = [0, 0, 0.5, 0.5], [0.4, 0.3, 0.2, 0.1], [0, 0, 0, 1]
    links, features = hops([together] * 4)
    assert _closed(links, one_sort, none, features, RULES).all()
    links, features = hops([passing] * 3 + [embeddings])
    assert not _closed(links, one_sort, none, features, RULES).any()


def test_links_that_fill_far_less_of_the_step_are_another_sort():
    sort = _by_width(np.array([0, 0, 0, 1]), np.array([0.7, 0.1, 0.55, 0.1]), RULES)
    assert sort[0] == sort[2]
    assert len({sort[0], sort[1], sort[3]}) == 3


@pytest.mark.parametrize("seed", range(3))
def test_the_narrowest_part_is_the_same_by_halving_and_by_trying_all(seed):
    rng = np.random.default_rng(seed)
    profile = rng.random((50, 40)) * (rng.random((50, 40)) < 0.2 * (1 + seed))
    profile[0] = 0.0
    with always_compiled():
        halving = _narrowest(profile, 0.9)
    with always_interpreted():
        assert halving.tolist() == _narrowest(profile, 0.9).tolist()
    assert halving.min() < 30
