import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.stats.quantum import _cosines, equal_parts, scattered_parts


def silences(parts, steps=30, seed=0, *, missing=0.0, noise=0, wobble=0.0005):
    """Places and lengths of the silences between `parts` equal messages, some fused away, short pauses anywhere."""
    random = np.random.default_rng(seed)
    place = np.tile(np.arange(1, parts) / parts, steps) + random.normal(0, wobble, steps * (parts - 1))
    length = random.uniform(5, 15, place.size)
    kept = random.random(place.size) >= missing
    inside = random.random(noise * steps)
    return np.concatenate([place[kept], inside]), np.concatenate([length[kept], random.uniform(0, 1, inside.size)])


@pytest.mark.parametrize("parts", [2, 3, 4, 5, 6, 8, 12, 16, 24, 32, 64])
@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_the_number_of_equal_messages(parts, missing):
    position, weight = silences(parts, missing=missing, noise=2)
    assert equal_parts(position, weight, limit=256) == parts


def test_silences_anywhere_have_no_quantum():
    random = np.random.default_rng(1)
    for _ in range(20):
        assert equal_parts(random.random(400), random.uniform(1, 10, 400), limit=256) is None


def test_silences_at_the_ends_of_the_step_do_not_count():
    position, weight = silences(4)
    edges = np.tile([0.0, 1.0, 0.001, 0.999], 30)
    found = equal_parts(np.concatenate([position, edges]), np.concatenate([weight, np.full(120, 1e4)]), limit=64)
    assert found == 4
    assert equal_parts(edges, np.full(120, 1e4), limit=64) is None


def test_a_multiple_that_is_never_visited_is_no_message_boundary():
    place = np.tile([1 / 4, 2 / 4], 30)
    assert equal_parts(place, np.ones(60), limit=3) is None
    assert equal_parts(place, np.ones(60), limit=4) is None, "nobody pauses at three quarters"


def test_unequal_messages_are_not_equal_parts():
    place = np.tile([0.137, 0.291, 0.633], 30)
    assert equal_parts(place, np.ones(90), limit=32) is None


def test_the_share_that_must_be_explained_can_be_set():
    position, weight = silences(6, noise=0)
    stray = np.random.default_rng(3).random(position.size)
    place, length = np.concatenate([position, stray]), np.concatenate([weight, weight])
    assert equal_parts(place, length, limit=6) is None
    assert equal_parts(place, length, limit=6, explained=0.4) == 6


def test_nothing_has_no_parts():
    none = np.zeros(0)
    assert equal_parts(none, none, limit=64) is None
    assert equal_parts(np.array([0.5]), np.array([0.0]), limit=64) is None


@settings(max_examples=60)
@given(
    st.lists(st.tuples(st.floats(0, 1), st.floats(0, 1e12)), max_size=60),
    st.integers(1, 40),
    st.integers(-20, 20),
)
def test_any_input_gives_none_or_a_number_within_the_limit_whatever_the_unit(rows, limit, octaves):
    position = np.array([place for place, _ in rows])
    weight = np.array([float(round(length)) for _, length in rows])
    found = equal_parts(position, weight, limit)
    assert found is None or 2 <= found <= limit
    assert equal_parts(position, weight * 2.0**octaves, limit) == found


@pytest.mark.parametrize("parts", [3, 4, 8])
@pytest.mark.parametrize("seed", range(3))
def test_parts_of_places_that_scatter(parts, seed):
    position, weight = silences(parts, steps=60, seed=seed, wobble=0.02 if parts < 8 else 0.01)
    assert scattered_parts(position, weight) == parts


def test_places_without_any_order_scatter_round_nothing():
    random = np.random.default_rng(2)
    for _ in range(20):
        assert scattered_parts(random.random(300), random.uniform(1, 10, 300)) is None
    assert scattered_parts(np.zeros(0), np.zeros(0)) is None


def test_cosines_of_all_numbers_of_parts_follow_from_each_other():
    random = np.random.default_rng(4)
    position, weight = random.random(3_000), random.random(3_000)
    position[:2] = 0.002, 0.998
    turns = np.outer(np.arange(2, 65), position)
    assert np.allclose(_cosines(position, weight), np.cos(2.0 * np.pi * turns) @ weight, rtol=0, atol=1e-9)
