"""Experts of two that exchange contexts as well: bursts take turns, and the larger ones are even besides."""

import numpy as np
import pytest

from llmprism.parallelism.contexts_among_tokens import contexts_among_tokens
from llmprism.parallelism.uneven_messages import both_ways
from unit.builders import MS, Flow, transfer_table

STEPS, PASSES, LINKS = 6, 8, 3


def exchanges(first, second, *, uneven=0.3, gradients=40e6):
    """Two bursts in every pass: `first` is (even bytes, tokens), `second` only tokens, both of them routed alike."""
    random = np.random.default_rng(5)
    flows, now = [], 0
    for _ in range(STEPS):
        for _ in range(PASSES):
            routed = random.uniform(-uneven, uneven)
            for wait, (even, tokens) in ((20, first), (8, (0.0, second))):
                now += wait * MS
                for link in range(LINKS):
                    for way, ends in enumerate(((f"a{link}", f"b{link}"), (f"b{link}", f"a{link}"))):
                        own = even + tokens * (1 + routed * (1 - 2 * way) + random.uniform(-0.02, 0.02))
                        flows.append(Flow(*ends, now, now + MS, int(own)))
                now += MS
        now += 20 * MS
        for link in range(LINKS):
            both = (f"a{link}", f"b{link}"), (f"b{link}", f"a{link}")
            flows += [Flow(*ends, now, now + 9 * MS, int(gradients)) for ends in both]
        now += 9 * MS
    transfers = transfer_table(flows)
    return transfers, both_ways(transfers, np.ones(transfers.pair_count, dtype=np.bool_))


@pytest.mark.parametrize("even", [1.5e6, 4e6])
def test_what_is_larger_and_even_are_contexts(even):
    assert contexts_among_tokens(*exchanges((even, 2e6), 2e6), STEPS)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((0.0, 2e6), 2e6),  # tokens there and back
        ((0.0, 2e6), 6e6),  # the way back in another format: as uneven
        ((0.0, 6e6), 2e6),
    ],
)
def test_tokens_alone_are_as_uneven_as_they_are_large(first, second):
    assert not contexts_among_tokens(*exchanges(first, second), STEPS)


def test_exchanges_of_a_step_and_its_gradients_are_no_turns_of_passes():
    """Where a collector joins all exchanges, one burst of tokens and one of gradients take turns, once in a step."""
    transfers, links = exchanges((4e6, 2e6), 2e6)
    assert not contexts_among_tokens(transfers, links, 20 * STEPS)
