from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.parallelism.rival_clocks import best_clock
from unit.builders import build_job, cut_in_pieces, transfer_table


def job_of(built, clock=None):
    transfers = transfer_table(cut_in_pieces(built.records))
    members = tuple(range(len(transfers.addresses)))
    return Job("job", members, (), 1.0, transfers, clock=clock), np.ones(transfers.pair_count, dtype=np.bool_)


@pytest.mark.parametrize(
    "shape", [{"pp": 1, "dp": 4}, {"pp": 2, "dp": 2}, {"pp": 4, "dp": 1, "micro_batches": 8}, {"pp": 2, "dp": 4}]
)
@pytest.mark.parametrize("ticks", [None, 1, 3])
def test_the_period_is_found_whatever_the_job_was_recognised_by(shape, ticks):
    built = build_job(**shape)
    ends = np.array(built.step_ends_ns, dtype=np.int64)
    clock = None if ticks is None else StepClock(ends[::ticks], np.ones(ends[::ticks].size - 1, dtype=np.bool_), 1.0)
    best = best_clock(*job_of(built, clock))
    assert best is not None
    assert best.clock.period_ns == pytest.approx(float(np.median(np.diff(ends))), rel=0.05)
    assert best.lead > 0


def test_no_clock_without_repetition():
    built = build_job(pp=1, dp=2)
    job, bulk = job_of(built)
    once = job.transfers.select_rows(job.transfers.start_ns <= built.step_ends_ns[0])
    assert best_clock(replace(job, transfers=once), bulk[: once.pair_count]) is None
