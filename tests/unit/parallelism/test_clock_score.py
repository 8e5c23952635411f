import numpy as np
import pytest

from llmprism.parallelism.clock_score import _in_other_steps, pauses_of, price_of
from unit.builders import Flow, build_job, cut_in_pieces, transfer_table

WINDOW = (0, 1 << 62)


def prices(job, *clocks):
    transfers = transfer_table(cut_in_pieces(job.records))
    return price_of(pauses_of(transfers, np.arange(transfers.pair_count)), list(clocks), WINDOW)


@pytest.mark.parametrize("shape", [{"pp": 1, "dp": 4}, {"pp": 2, "dp": 2}, {"pp": 4, "dp": 1, "micro_batches": 8}])
def test_the_true_clock_is_cheaper_than_twice_and_half_the_period(shape):
    job = build_job(**shape)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    halves = np.sort(np.concatenate([ends, (ends[:-1] + ends[1:]) // 2]))
    true, half, double = prices(job, ends, halves, ends[::2])
    assert true < half
    assert true < double


def test_a_clock_that_ticks_where_ranks_are_not_together_costs_more():
    job = build_job(pp=4, dp=2, micro_batches=8)
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    true, shifted = prices(job, ends, ends - int(0.4 * np.median(np.diff(ends))))
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
    transfers = transfer_table(stalled)
    true, double = price_of(pauses_of(transfers, np.arange(transfers.pair_count)), [moved, moved[::2]], WINDOW)
    assert true < double


def test_a_pause_is_predicted_by_the_other_steps_alone():
    value = np.array([1.0, 2.0, 9.0, 5.0, 7.0])
    cell, step = np.array([0, 0, 0, 1, 2]), np.array([0, 1, 2, 0, 1])
    there = _in_other_steps(value, cell, step, 3)
    assert there[:3].tolist() == [5.5, 5.0, 1.5]
    assert np.isnan(there[3:]).all()


def test_pairs_of_one_step_do_not_predict_each_other():
    value, cell = np.array([1.0, 1.0, 4.0, 4.0]), np.zeros(4, dtype=np.int64)
    assert _in_other_steps(value, cell, np.array([0, 0, 1, 1]), 2).tolist() == [4.0, 4.0, 1.0, 1.0]


def steps_of_pieces(lengths, pieces=40):
    """Steps of a few even buckets whose pieces pause by chance, each step followed by a silence of half of it."""
    rng, rows, ends, now = np.random.default_rng(7), [], [], 0
    for length in lengths:
        for _ in range(pieces):
            now += int(length * rng.lognormal(0.0, 1.0) / pieces)
            rows.append(Flow("a", "b", now, now + 20_000, 1_000_000))
        now += length // 2
        ends.append(now)
    return rows, np.array(ends, dtype=np.int64)


def test_few_steps_with_pauses_of_chance_are_cheaper_than_their_fractions():
    rows, ends = steps_of_pieces([400_000_000] * 5)
    parts = np.sort(np.concatenate([ends[:-1] + (np.diff(ends) * share).astype(np.int64) for share in (0, 0.3, 0.5)]))
    pauses = pauses_of(transfer_table(rows), np.array([0]))
    true, fraction = price_of(pauses, [ends, parts], WINDOW)
    assert true < fraction


def test_a_clock_gains_nothing_by_leaving_out_the_steps_that_a_fault_stretched():
    rows, ends = steps_of_pieces([200_000_000] * 24 + [2_000_000_000] * 4)
    pauses = pauses_of(transfer_table(rows), np.array([0]))
    every, healthy_threes = price_of(pauses, [ends, ends[:24:3]], WINDOW)
    assert every < healthy_threes
