import numpy as np
import pytest

from llmprism.parallelism.clock_score import bits_of, pauses_of, priced
from unit.builders import build_job, cut_in_pieces, transfer_table

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
