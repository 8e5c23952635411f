import numpy as np
import pytest

from llmprism.parallelism.clock_score import Priced, _saved_by_a_stretch, bits_of, pauses_of, priced
from unit.builders import Flow, build_job, cut_in_pieces, transfer_table

WINDOW = (0, 1 << 62)


def prices(records, *clocks):
    transfers = transfer_table(records)
    pauses = pauses_of(transfers, np.arange(transfers.pair_count))
    return bits_of(pauses, priced(pauses, list(clocks), WINDOW))


@pytest.mark.parametrize("shape", [{"pp": 1, "dp": 4}, {"pp": 2, "dp": 2}, {"pp": 4, "dp": 1, "micro_batches": 8}])
def test_the_true_clock_is_cheaper_than_twice_and_half_the_period(shape):
    job = build_job(**shape)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    halves = np.sort(np.concatenate([ends, (ends[:-1] + ends[1:]) // 2]))
    true, half, double = prices(cut_in_pieces(job.records), ends, halves, ends[::2])
    assert true < half
    assert true < double


def test_a_clock_that_ticks_where_ranks_are_not_together_costs_more():
    job = build_job(pp=4, dp=2, micro_batches=8)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    true, shifted = prices(cut_in_pieces(job.records), ends, ends - int(0.4 * np.median(np.diff(ends))))
    assert true < shifted


def test_one_long_stall_does_not_change_which_clock_is_best():
    job = build_job(pp=2, dp=2)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    late = ends[ends.size // 2]
    stalled = [
        row._replace(start_ns=row.start_ns + 10**11, end_ns=row.end_ns + 10**11) if row.start_ns > late else row
        for row in job.records
    ]
    moved = np.where(ends > late, ends + 10**11, ends)
    true, double = prices(stalled, moved, moved[::2])
    assert true < double


def test_a_clock_gains_nothing_by_leaving_a_fault_outside():
    """Messages every 10 ms, four a step with a longer pause; after 30 steps all pauses are 20 times as long for 10
    steps. A clock of three steps each that ends with the fault explains no more than the clock of the steps."""
    rows, when, ends = [], 0, [0]
    for step in range(40):
        for part in range(4):
            when += (10_000_000 if part else 50_000_000) * (20 if step >= 30 else 1) + (
                7 * step + 3 * part
            ) % 5 * 10_000
            rows.append(Flow("a", "b", when, when + 1_000_000, 2_000_000))
        ends.append(when + 2_000_000)
    ticks = np.array(ends, dtype=np.int64)
    every, threes = prices(rows, ticks, ticks[:31:3])
    assert every < threes


def test_records_that_messages_are_cut_into_do_not_outvote_the_bytes_of_the_steps():
    """Steps of 200 records each: 0.05 bits per pause are less than bytes that vary a hundred times as much, and more
    than bytes that vary by less than one record."""
    rows = [Flow("a", "b", 10_000_000 * k, 10_000_000 * k + 1_000_000, 1 << 20) for k in range(4000)]
    pauses = pauses_of(transfer_table(rows), np.arange(1))
    clocks = [
        Priced(bits, 0.0, 20, 1e4, np.array([varies]))
        for bits, varies in ((0.0, 0.004), (-200.0, 0.4), (-200.0, 0.005))
    ]
    whole, other, near = bits_of(pauses, clocks)
    assert near < whole < other


def test_clocks_with_a_step_or_two_do_not_say_what_noise_is():
    """One step does not vary at all: by that measure the bytes of all other clocks would be far beyond noise."""
    pauses = pauses_of(
        transfer_table([Flow("a", "b", k * 10, k * 10 + 5, 2_000_000) for k in range(100)]), np.array([0])
    )
    fine = Priced(-200.0, 0.0, 60, 1.0, np.array([0.08]))
    coarse = Priced(-100.0, 0.0, 1, 8.0, np.array([0.0]))
    alone = bits_of(pauses, [fine])
    np.testing.assert_array_equal(bits_of(pauses, [fine, coarse])[:1], alone)


@pytest.mark.parametrize(
    ("saved", "expected"), [([-1.0, -2.0], 0.0), ([-5.0, 40.0, -1.0, 30.0, -5.0], 69.0 - 2 * np.log2(6)), ([], 0.0)]
)
def test_steps_in_a_row_are_coded_without_the_clock_where_that_saves_bits(saved, expected):
    assert _saved_by_a_stretch(np.array(saved)) == pytest.approx(expected)
