import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.shared_links import collective_rows
from unit.builders import MS, Flow, transfer_table

STEPS = 12
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 200 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)


def rows_of(large_ms):
    """Which rows are a collective's, and which were made so: eight activations each way and, where asked, one large
    message each way at these moments."""
    flows, made = [], []
    for step in range(STEPS):
        base = step * 200 * MS
        for k in range(8):
            flows.append(Flow("a", "b", base + (5 + 15 * k) * MS, base + (6 + 15 * k) * MS, 1_000_000))
            flows.append(Flow("b", "a", base + (12 + 15 * k) * MS, base + (13 + 15 * k) * MS, 1_000_000))
        for ends, at in zip(("ab", "ba"), large_ms, strict=False):
            flows.append(Flow(*ends, base + at * MS, base + (at + 10) * MS, 12_000_000))
    transfers = transfer_table(flows)
    made = transfers.bytes > 2_000_000
    return collective_rows(transfers, [(0, 1)], CLOCK), made


def test_a_large_message_both_ways_at_once_is_a_collective_on_the_activations_link():
    found, made = rows_of((160, 161))
    assert made.sum() == 2 * STEPS
    assert found.tolist() == made.tolist()


def test_large_messages_at_different_times_are_none():
    assert not rows_of((160, 3))[0].any()


def test_without_a_large_message_nothing_is_taken_away():
    assert not rows_of(())[0].any()
