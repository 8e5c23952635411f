"""Collectives of a pipeline of two stages: what messages wait for serves the pass that ends, gathers begin one."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.leading_exchanges import lead_into_messages, rest_behind, same_follow
from unit.builders import MS, Flow, transfer_table

STEPS, BATCHES, PASS = 6, 4, 20
PERIOD = 400 * MS


def stages(at, *, after=(), size=2_000_000, later=2_000_000):
    """Two pipelines a to c and b to d. Each pass takes 20 ms, its message is sent in the next one; a and b exchange
    `at` these moments of every pass, and once more at those `after` the last message of the step."""
    flows = []
    for step in range(STEPS):
        for number in range(2 * BATCHES):
            begin = step * PERIOD + number * PASS * MS
            flows += [
                Flow(src, dst, begin + begins * MS, begin + ends * MS, size)
                for begins, ends in at
                for src, dst in ("ab", "ba")
            ]
            sent = begin + PASS * MS - MS
            flows += [Flow(src, dst, sent, sent + MS // 2, 5_000_000) for src, dst in ("ac", "bd")]
        end = step * PERIOD + 2 * BATCHES * PASS * MS
        flows += [Flow(s, d, end + when * MS, end + (when + 4) * MS, later) for when in after for s, d in ("ab", "ba")]
        flows += [Flow(src, dst, end, end + MS // 2, 5_000_000) for src, dst in ("ca", "db")]
    transfers = transfer_table(flows)
    names = list(transfers.addresses)

    def pair(ends):
        src, dst = (np.array([names.index(end)]) for end in ends)
        return int(transfers.pairs_between(src, dst)[0])

    clock = StepClock(np.arange(STEPS + 1, dtype=np.int64) * PERIOD, np.ones(STEPS, dtype=np.bool_), 1.0)
    forward = [(pair("ac"), pair("ca")), (pair("bd"), pair("db"))]
    return transfers, np.array(sorted([pair("ab"), pair("ba")])), forward, clock


def test_messages_wait_for_what_the_pass_exchanges():
    transfers, pairs, forward, _ = stages([(14, 18)])
    assert lead_into_messages(transfers, pairs, forward, STEPS)
    assert rest_behind(transfers, pairs, forward, STEPS) < 0.15


@pytest.mark.parametrize(
    "at",
    [
        [(0, 4)],  # gathered before anything is computed
        [(2, 4), (8, 10), (12, 14)],  # layer by layer
        [(17, 21)],  # busy while the message leaves: the next pass gathers already
    ],
)
def test_what_begins_or_fills_passes_leads_into_no_message(at):
    assert not lead_into_messages(*stages(at)[:3], STEPS)


def test_without_a_collective_there_is_nothing_to_compare():
    transfers, pairs, forward, _ = stages([(14, 18)])
    assert rest_behind(transfers, pairs[:0], forward, STEPS) is None


@pytest.mark.parametrize(
    ("after", "later", "same"),
    [
        ((5, 25, 45), 2_000_000, True),  # passes of the weights alone
        ((5, 25, 45), 30_000_000, False),  # gradients
        ((), 0, False),  # nothing
    ],
)
def test_passes_of_weights_exchange_the_same_and_gradients_do_not(after, later, same):
    assert same_follow(*stages([(14, 18)], after=after, later=later)) is same
