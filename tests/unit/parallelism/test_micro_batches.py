import numpy as np
import pytest

from llmprism.model import Schedule, StepClock
from llmprism.parallelism.micro_batches import micro_batches, schedule
from unit.builders import MS, Flow, build_job, cut_in_pieces, transfer_table


def pipeline_pairs(job, records):
    """Transfers, (forward, backward) pairs of neighbouring stages, and the job's true clock."""
    transfers = transfer_table(records)
    names = transfers.addresses
    pair_of = {
        (names[s], names[d]): p for p, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))
    }
    links = [
        (pair_of[a, b], pair_of[b, a])
        for pipeline in job.pipelines
        for a, b in zip(pipeline, pipeline[1:], strict=False)
    ]
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    return transfers, links, StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("pp", "batches"), [(2, 3), (2, 4), (2, 8), (4, 4), (4, 8), (4, 12)])
def test_micro_batches_are_counted_however_records_are_cut(order, pp, batches):
    job = build_job(pp=pp, dp=2, micro_batches=batches, order=order)
    for records in (job.records, cut_in_pieces(job.records)):
        transfers, links, clock = pipeline_pairs(job, records)
        assert micro_batches(transfers, [pair for link in links for pair in link], clock) == batches


@pytest.mark.parametrize(("pp", "batches"), [(2, 4), (2, 8), (4, 8), (3, 6)])
@pytest.mark.parametrize(("order", "expected"), [("1f1b", Schedule.ONE_F_ONE_B), ("gpipe", Schedule.GPIPE)])
def test_the_schedule_shows_in_what_is_sent_before_the_first_gradient_returns(pp, batches, order, expected):
    job = build_job(pp=pp, dp=2, micro_batches=batches, order=order)
    transfers, links, clock = pipeline_pairs(job, job.records)
    assert schedule(transfers, links, clock, pp, batches) is expected


def test_too_few_micro_batches_tell_no_schedule():
    job = build_job(micro_batches=2)
    transfers, links, clock = pipeline_pairs(job, job.records)
    assert schedule(transfers, links, clock, 2, 2) is Schedule.UNKNOWN
    assert schedule(transfers, links, clock, 2, None) is Schedule.UNKNOWN
    assert schedule(transfers, [], clock, 2, 8) is Schedule.UNKNOWN


def test_one_message_per_step_is_one_micro_batch():
    flows = [Flow("a", "b", k * 100 * MS + 5 * MS, k * 100 * MS + 9 * MS, 1_000_000) for k in range(20)]
    clock = StepClock(np.arange(21, dtype=np.int64) * 100 * MS, np.ones(20, dtype=np.bool_), 1.0)
    assert micro_batches(transfer_table(flows), [0], clock) == 1


def test_no_pairs_no_answer():
    clock = StepClock(np.arange(3, dtype=np.int64), np.ones(2, dtype=np.bool_), 1.0)
    assert micro_batches(transfer_table([]), [], clock) is None


def test_unequal_messages_have_no_number():
    random = np.random.default_rng(0)
    flows = []
    for step in range(30):
        for place, size in zip(np.sort(random.uniform(5, 90, 6)), random.integers(10_000, 3_000_000, 6), strict=True):
            start = int((step * 100 + place) * MS)
            flows.append(Flow("a", "b", start, start + MS // 10, int(size)))
    clock = StepClock(np.arange(31, dtype=np.int64) * 100 * MS, np.ones(30, dtype=np.bool_), 1.0)
    assert micro_batches(transfer_table(flows), [0], clock) is None
