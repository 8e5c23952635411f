import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.last_messages import shared_rows
from llmprism.parallelism.shared_links import after_collectives, collective_rows
from unit.builders import MS, Flow, transfer_table

STEPS = 12
CLOCK = StepClock(np.arange(STEPS + 1, dtype=np.int64) * 200 * MS, np.ones(STEPS, dtype=np.bool_), 1.0)


def rows_of(large_ms, large=(12_000_000,), moved_ms=0):
    """Which rows are a collective's, and which were made so: eight activations each way and, where asked, large
    messages each way from these moments on. The clock ticks `moved_ms` later."""
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for k in range(8):
            flows.append(Flow("a", "b", base + (5 + 15 * k) * MS, base + (6 + 15 * k) * MS, 1_000_000))
            flows.append(Flow("b", "a", base + (12 + 15 * k) * MS, base + (13 + 15 * k) * MS, 1_000_000))
        for ends, at in zip(("ab", "ba"), large_ms, strict=False):
            for i, size in enumerate(large):
                begin = base + (at + 15 * i) * MS
                flows.append(Flow(*ends, begin, begin + 10 * MS, size))
    transfers = transfer_table(flows)
    made = transfers.bytes != 1_000_000
    clock = StepClock(CLOCK.boundary_ns + moved_ms * MS, CLOCK.regular, 1.0)
    return collective_rows(transfers, [(0, 1)], clock), made


def test_a_large_message_both_ways_at_once_is_a_collective_on_the_activations_link():
    found, made = rows_of((160, 161))
    assert made.sum() == 2 * STEPS
    assert found.tolist() == made.tolist()


def test_large_messages_at_different_times_are_none():
    assert not rows_of((160, 3))[0].any()


def test_without_a_large_message_nothing_is_taken_away():
    assert not rows_of(())[0].any()


@pytest.mark.parametrize("large", [(600_000,), (3_300_000,), (12_345_678,), (40_700_000,), (6_200_000, 9_900_000)])
@pytest.mark.parametrize("moved_ms", [0, 60, 168])
def test_it_may_have_any_size_and_a_pause_and_the_clock_may_tick_anywhere(large, moved_ms):
    found, made = rows_of((160, 161), large, moved_ms)
    inside = slice(None) if not moved_ms else slice(12, -30)  # what lies outside all steps has no place in one
    assert made.any()
    half = found.size // 2
    for rows in (slice(0, half), slice(half, None)):
        assert found[rows][inside].tolist() == made[rows][inside].tolist()


def test_a_step_ends_after_the_collective_that_follows_its_last_gradient():
    flows = []
    for step in range(3):
        base = step * 200 * MS
        flows += [Flow("a", "b", base + at * MS, base + (at + 5) * MS, 1_000_000) for at in (20, 60)]
        flows += [Flow("b", "a", base + at * MS, base + (at + 5) * MS, 1_000_000) for at in (40, 80)]
        flows.append(Flow("a", "b", base + 150 * MS, base + 170 * MS, 0))  # explained: it has no bytes any more
    transfers = transfer_table(flows)
    shared = transfers.bytes == 0
    early = StepClock(np.array([85, 285, 485], dtype=np.int64) * MS, np.ones(2, dtype=np.bool_), 1.0)
    assert after_collectives(transfers, [(0, 1)], shared, early).boundary_ns.tolist() == [170 * MS, 370 * MS, 570 * MS]
    nothing = after_collectives(transfers, [(0, 1)], np.zeros_like(shared), early)
    assert nothing.boundary_ns.tolist() == early.boundary_ns.tolist()


@pytest.mark.parametrize("begun_by_one", [False, True])
def test_with_two_micro_batches_it_is_the_burst_of_both_directions(begun_by_one):
    """Where one end is ready first, it fills the buffers of the other before that answers."""
    flows, made = [], []
    for step in range(STEPS):
        base = step * 200 * MS
        for at, ends in ((10, "ab"), (40, "ab"), (70, "ba"), (110, "ba")):
            flows.append(Flow(*ends, base + at * MS, base + (at + 2) * MS, 2_600_000))
        large = [("ab", 150, 21_000_000), ("ba", 150, 16_800_000 if begun_by_one else 21_000_000)]
        large += [("ba", 130, 4_200_000)] if begun_by_one else []
        flows += [Flow(*ends, base + at * MS, base + (at + 12) * MS, size) for ends, at, size in large]
        made += [size for _, _, size in large]
    transfers = transfer_table(flows)
    found = collective_rows(transfers, [(0, 1)], CLOCK)
    assert sorted(transfers.bytes[found].tolist()) == sorted(made)


def test_activations_that_pass_each_other_are_no_collective():
    flows = [
        Flow(*ends, step * 200 * MS + at * MS, step * 200 * MS + (at + 4) * MS, 2_600_000)
        for step in range(STEPS) for at in (10, 60, 110, 160) for ends in ("ab", "ba")
    ]  # fmt: skip
    assert not collective_rows(transfer_table(flows), [(0, 1)], CLOCK).any()


def test_pauses_inside_of_messages_do_not_hide_the_collective():
    """Activations and gradients are sent in one batch, and some of them in two pieces."""
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for k in range(8):
            pieces = [(0, 300_000), (6, 700_000)] if k in (1, 4, 6) else [(0, 1_000_000)]
            for off, size in pieces:
                begin = base + (5 + 15 * k + off) * MS
                flows += [Flow(*ends, begin, begin + MS, size) for ends in ("ab", "ba")]
        flows += [Flow(*ends, base + 160 * MS, base + 170 * MS, 1_600_000) for ends in ("ab", "ba")]
    transfers = transfer_table(flows)
    found = collective_rows(transfers, [(0, 1)], CLOCK)
    assert found.tolist() == (transfers.bytes == 1_600_000).tolist()
    assert found.sum() == 2 * STEPS


def test_a_message_with_a_pause_inside_is_no_collective():
    """The fifth message of each direction stalls for a while, in both directions at once."""
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for k in range(8):
            for ends, at in (("ab", 5 + 15 * k), ("ba", 6 + 15 * k)):
                pieces = [(0, 400_000), (4, 600_000)] if k == 4 else [(0, 1_000_000)]
                flows += [Flow(*ends, base + (at + off) * MS, base + (at + off + 1) * MS, size) for off, size in pieces]
    assert not collective_rows(transfer_table(flows), [(0, 1)], CLOCK).any()


def test_stages_with_two_neighbours_share_no_link_with_a_collective():
    """Embeddings are tied between the first stage and the last; here every link of three stages has a large message."""
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for first, second in ("ab", "bc"):
            for k in range(8):
                flows.append(Flow(first, second, base + (5 + 15 * k) * MS, base + (6 + 15 * k) * MS, 1_000_000))
                flows.append(Flow(second, first, base + (12 + 15 * k) * MS, base + (13 + 15 * k) * MS, 1_000_000))
            flows.append(Flow(first, second, base + 160 * MS, base + 170 * MS, 12_000_000))
            flows.append(Flow(second, first, base + 160 * MS, base + 170 * MS, 12_000_000))
    transfers = transfer_table(flows)
    number = {(int(a), int(b)): i for i, (a, b) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))}
    links = [(number[a, b], number[b, a]) for a, b in ((0, 1), (1, 2))]
    assert not collective_rows(transfers, links, CLOCK).any()


def test_an_activation_and_a_gradient_that_meet_are_no_collective():
    """Of three micro-batches the second gradient meets the last activation in every step."""
    flows = [
        Flow(*ends, step * 200 * MS + at * MS, step * 200 * MS + (at + 4) * MS, 2_600_000)
        for step in range(STEPS)
        for ends, at in (("ab", 10), ("ba", 50), ("ab", 70), ("ab", 110), ("ba", 110), ("ba", 160))
    ]
    assert not collective_rows(transfer_table(flows), [(0, 1)], CLOCK).any()


@pytest.mark.parametrize(("left", "found"), [(2_000_000, False), (2_400_000, True)])
def test_what_is_a_whole_number_of_messages_is_messages_that_follow_each_other_at_once(left, found):
    flows = []
    for step in range(STEPS):
        base = step * 200 * MS
        for k in range(30):
            flows.append(Flow("a", "b", base + (5 + 5 * k) * MS, base + (6 + 5 * k) * MS, 1_000_000))
            flows.append(Flow("b", "a", base + (8 + 5 * k) * MS, base + (9 + 5 * k) * MS, 1_000_000))
        flows += [Flow(*ends, base + at * MS, base + (at + 3) * MS, left) for ends, at in (("ab", 160), ("ba", 164))]
    assert shared_rows(transfer_table(flows), [(0, 1)], CLOCK).any() == found
