import numpy as np
import pytest

from llmprism.recognize.bulk import pair_traffic
from llmprism.recognize.clock import cluster_clock
from unit.builders import MS, Flow, build_job, chatter, cut_in_pieces, transfer_table


def clock_of(records):
    transfers = transfer_table(records)
    pairs = np.arange(transfers.pair_count, dtype=np.int32)
    return cluster_clock(transfers, pair_traffic(transfers), pairs)


@pytest.mark.parametrize("shape", [{}, {"pp": 1, "dp": 4}, {"pp": 1, "dp": 2}, {"pp": 2, "dp": 3, "order": "gpipe"}])
@pytest.mark.parametrize("cut", [False, True])
def test_the_clock_ticks_once_per_step(shape, cut):
    job = build_job(**shape)
    clock = clock_of(cut_in_pieces(job.records) if cut else job.records)
    assert clock is not None
    assert abs(clock.steps - job.shape.steps) <= 1
    assert clock.period_ns == pytest.approx(np.median(np.diff(job.step_ends_ns)), rel=0.02)
    assert (np.diff(clock.boundary_ns) > 0).all()


def test_the_forward_and_the_backward_pass_are_one_step():
    job = build_job(pp=4, dp=1)
    clock = clock_of(job.records)
    assert clock is not None
    assert abs(clock.steps - job.shape.steps) <= 1


def test_heartbeats_break_no_silence():
    job = build_job()
    beats = chatter(job.members, job.shape.start_ns, job.step_ends_ns[-1], every_ns=7 * MS)
    quiet, loud = clock_of(job.records), clock_of(job.records + beats)
    assert quiet is not None
    assert loud is not None
    assert abs(loud.steps - quiet.steps) <= 1


def test_traffic_without_steps_has_no_clock():
    random = np.random.default_rng(0)
    now, flows = 0, []
    for _ in range(300):
        now += int(random.exponential(20 * MS))
        pair = [("a", "b"), ("b", "a")][int(random.integers(2))]
        flows.append(Flow(*pair, now, now + MS, int(random.lognormal(14, 1))))
    clock = clock_of(flows)
    assert clock is None or clock.steps <= 3
