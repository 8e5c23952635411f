"""Links of one program move together and carry the same bytes; requests arrive by themselves."""

import numpy as np
import pytest

from llmprism.recognize.coherence import _variety_bits, coherence_bits
from llmprism.recognize.rules import RULES
from unit.builders import MS, Flow, transfer_table

SECOND = 1000 * MS


def bits(flows):
    transfers = transfer_table(flows)
    return coherence_bits(transfers, np.arange(transfers.pair_count, dtype=np.int32))


def requests(nodes, seed, count=100):
    """Caches of random sizes handed from each node to the next, whenever somebody asks."""
    random = np.random.default_rng(seed)
    return [
        Flow(f"n{node}", f"n{(node + 1) % nodes}", int(start), int(start) + 5 * MS, int(size))
        for node in range(nodes)
        for start, size in zip(
            np.cumsum(random.exponential(0.8 * SECOND, count)), random.uniform(2e6, 6e7, count), strict=True
        )
    ]


def ring(nodes, seed, steps=40):
    """A ring whose steps and sizes are ragged in time, the same on all links but for a little."""
    random = np.random.default_rng(seed)
    start = np.cumsum(random.exponential(0.8 * SECOND, steps))
    size = random.uniform(2e6, 6e7, steps)
    return [
        Flow(f"n{node}", f"n{(node + 1) % nodes}", int(s + random.uniform(0, MS)), int(s) + 9 * MS, int(b))
        for node in range(nodes)
        for s, b in zip(start, size, strict=True)
    ]


@pytest.mark.parametrize("nodes", [2, 4])
def test_requests_speak_against_one_program(nodes):
    """Chance makes one set of servers in ten look like more; of forty sets 2 to 4 were above 0."""
    found = np.array([bits(requests(nodes, seed)) for seed in range(10)])
    assert np.median(found) < -4.0
    assert (found < 0.0).sum() >= 8


def test_requests_of_one_size_are_requests_though_all_links_carry_as_much():
    found = [bits([flow._replace(bytes=20_000_000) for flow in requests(2, seed)]) for seed in range(10)]
    assert np.median(found) < 0.0


@pytest.mark.parametrize("nodes", [2, 4])
@pytest.mark.parametrize("seed", range(5))
def test_links_that_move_together_are_one_program_though_nothing_repeats(nodes, seed):
    assert bits(ring(nodes, seed)) > 5.0


def test_equal_bytes_speak_for_one_program_though_there_are_few_messages():
    few = [Flow("n0", "n1", 0, MS, 5_000_000), Flow("n1", "n0", 10 * MS, 11 * MS, 5_000_000)]
    unequal = [few[0], Flow("n1", "n0", 10 * MS, 11 * MS, 40_000_000)]
    assert bits(few) > 0.0 > bits(unequal)


def test_one_link_cannot_be_compared():
    assert bits([Flow("n0", "n1", 0, MS, 5_000_000)]) == 0.0


def test_sizes_that_never_repeat_speak_against_training():
    size = np.random.default_rng(0).uniform(2e6, 6e7, 60)
    assert _variety_bits(size, RULES) > 2.0
    assert _variety_bits(np.concatenate([size[:30], size[:30]]), RULES) == 0.0


@pytest.mark.parametrize("noise", [0.0, 0.001])
def test_sizes_that_repeat_say_nothing(noise):
    random = np.random.default_rng(1)
    layers = np.tile([2e6, 9e6, 4e7], 20) * (1.0 + noise * random.normal(size=60))
    assert _variety_bits(layers, RULES) == 0.0
    assert _variety_bits(np.full(60, 5e6) * (1.0 + noise * random.normal(size=60)), RULES) == 0.0


def test_few_messages_have_no_sizes_to_compare():
    assert _variety_bits(np.array([1e6, 2e6, 5e6, 9e6, 0.0, 0.0]), RULES) == 0.0


def test_a_few_messages_are_a_few_bits():
    """Twelve messages that happen to start together, of any size: four caches, handed around once or twice."""
    few = ring(4, seed=2, steps=3)
    assert bits(few) <= RULES.message_bits * len(few) + RULES.likeness_bits
    assert bits(ring(4, seed=2)) > 12.0
