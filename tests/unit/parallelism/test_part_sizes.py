import numpy as np

from llmprism.parallelism.clock_score import pauses_of
from llmprism.parallelism.part_sizes import bits_of_unlike_parts
from unit.builders import Flow, transfer_table

STEP_NS = 1_000_000_000
MEGABYTE = 1_000_000


def messages(steps, sizes_of_parts):
    """One pair; every step sends ten messages for each part, of about the part's size, and no more bytes in one part
    than in the other."""
    rng = np.random.default_rng(5)
    rows, most = [], max(sizes_of_parts)
    for step in range(steps):
        for part, size in enumerate(sizes_of_parts):
            count = int(10 * most / size)
            begin = step * STEP_NS + part * STEP_NS // len(sizes_of_parts)
            for index in range(count):
                start = begin + index * 8_000_000
                rows.append(Flow("a", "b", start, start + 1_000_000, int(size * rng.uniform(0.97, 1.03))))
    return transfer_table(rows)


def bits(transfers, ticks, parts):
    return bits_of_unlike_parts(pauses_of(transfers, np.array([0])), ticks, parts)


def test_parts_with_messages_of_their_own_size_are_unlike():
    transfers = messages(20, [MEGABYTE, 2 * MEGABYTE])
    assert bits(transfers, np.arange(21) * STEP_NS, 2) > 0.2


def test_equal_steps_taken_together_are_alike_though_their_parts_are_not():
    transfers = messages(40, [MEGABYTE, 2 * MEGABYTE])
    assert bits(transfers, np.arange(21) * 2 * STEP_NS, 2) < 0.08


def test_a_step_whose_messages_a_fault_cuts_into_many_says_nothing_about_places():
    """One of 48 steps is cut into pieces of a fortieth; it is always the second of three steps taken together."""
    cut = [(STEP_NS + piece * 2_400_000, MEGABYTE // 40) for piece in range(400)]
    whole = [(step * STEP_NS + piece * 8_000_000, MEGABYTE) for step in range(48) if step != 1 for piece in range(10)]
    transfers = transfer_table([Flow("a", "b", start, start + 1_000_000, size) for start, size in cut + whole])
    assert bits(transfers, np.arange(17) * 3 * STEP_NS, 8) < 0.08


def test_nothing_inside_the_ticks_says_nothing():
    transfers = messages(4, [MEGABYTE])
    assert bits(transfers, np.array([-20, -10]) * STEP_NS, 2) == 0.0


def test_parts_of_a_few_steps_are_moments_and_say_nothing():
    transfers = messages(8, [MEGABYTE, 2 * MEGABYTE])
    assert bits(transfers, np.arange(0, 9, 4) * STEP_NS, 8) == 0.0


def test_messages_outside_of_the_ticks_save_nothing():
    transfers = messages(40, [MEGABYTE, 2 * MEGABYTE])
    half, whole = (bits(transfers, np.arange(steps + 1) * STEP_NS, 2) for steps in (20, 40))
    assert 0.4 * whole < half < 0.6 * whole
