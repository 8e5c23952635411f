"""Messages of many lengths, counted by the places that the links of a pipeline agree about."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.agreed_ends import agreed_messages
from unit.builders import MS, Flow, transfer_table

STEPS = 12


def pipeline(batches, cut=0.0, last=0):
    """Three stages a, b, c whose messages have lengths of their own, the same on every link and each way; a share of
    the records is `cut` within a message, and the step ends with a message of `last` bytes."""
    random = np.random.default_rng(1)
    flows = []
    for step in range(STEPS):
        sizes = random.integers(1_000_000, 3_000_000, batches).tolist() + [last] * (last > 0)
        for late, ends in enumerate(("ab", "bc", "cb", "ba")):
            at = step * 1000 + 20 * late
            for size in sizes:
                part = int(size * random.uniform(0.2, 0.8)) if random.random() < cut else 0
                for piece in (part, size - part) if part else (size,):
                    flows.append(Flow(*ends, at * MS, (at + 5) * MS, piece))
                    at += 10
    clock = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 1000 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    transfers = transfer_table(flows)
    return transfers, np.arange(transfers.pair_count), clock


@pytest.mark.parametrize("batches", [2, 6, 24])
@pytest.mark.parametrize("cut", [0.0, 0.3])
def test_ends_at_the_same_places_of_all_links_are_counted(batches, cut):
    assert agreed_messages(*pipeline(batches, cut)) == batches


@pytest.mark.parametrize("last", [150_000, 30_000_000], ids=["small", "large"])
def test_what_is_no_sequence_by_its_size_is_no_micro_batch(last):
    assert agreed_messages(*pipeline(6, last=last)) == 6


def test_pieces_of_a_message_that_are_cut_alike_on_all_links_are_no_messages():
    sizes = np.random.default_rng(2).integers(1_000_000, 3_000_000, (STEPS, 5))
    flows = [
        Flow(*ends, (at + late) * MS, (at + late + 2) * MS, int(size) // 2)
        for late, ends in enumerate(("ab", "bc", "cb", "ba"))
        for step in range(STEPS)
        for batch, size in enumerate(sizes[step])
        for at in (1000 * step + 100 * batch, 1000 * step + 100 * batch + 3)
    ]
    clock = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 1000 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)
    assert agreed_messages(transfer_table(flows), np.arange(4), clock) == 5


def test_links_that_carry_different_bytes_agree_about_nothing():
    _, _, clock = pipeline(6)
    flows = [
        Flow(*ends, (1000 * k + 20 * i) * MS, (1000 * k + 20 * i + 1) * MS, size)
        for k in range(STEPS)
        for ends, sizes in (("ab", range(10_000, 60_000, 10_000)), ("ba", [70_000] * 5))
        for i, size in enumerate(sizes)
    ]
    assert agreed_messages(transfer_table(flows), np.arange(2), clock) is None
