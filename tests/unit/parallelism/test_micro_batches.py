import itertools

import numpy as np
import pytest

from llmprism.model import Schedule, StepClock
from llmprism.parallelism.agreed_ends import agreed_messages
from llmprism.parallelism.micro_batches import micro_batches, schedule, virtual_stages
from unit.builders import MS, Flow, build_job, cut_in_pieces, transfer_table


def pipeline_pairs(job, records):
    """Transfers, (forward, backward) pairs of neighbouring stages, and the job's true clock."""
    transfers = transfer_table(records)
    names = transfers.addresses
    pair_of = {
        (names[s], names[d]): p for p, (s, d) in enumerate(zip(transfers.pair_src, transfers.pair_dst, strict=True))
    }
    links = [(pair_of[a, b], pair_of[b, a]) for pipeline in job.pipelines for a, b in itertools.pairwise(pipeline)]
    ends = np.array(job.step_ends_ns, dtype=np.int64)
    return transfers, links, StepClock(ends, np.ones(ends.size - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize(("pp", "batches"), [(2, 3), (2, 4), (2, 8), (4, 4), (4, 8), (4, 12)])
def test_micro_batches_are_counted_however_records_are_cut(order, pp, batches):
    job = build_job(pp=pp, dp=2, micro_batches=batches, order=order)
    for records in (job.records, cut_in_pieces(job.records)):
        transfers, links, clock = pipeline_pairs(job, records)
        assert micro_batches(transfers, links, clock) == batches


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


def both_ways(message_of, back=None):
    """Flows of 30 steps of 100 ms, forth and back 50 ms later; `message_of(step)` lists (place in ms, bytes), and so
    does `back` where what comes back is something else."""
    flows = []
    for step in range(30):
        for ends, later, listed in (("ab", 0, message_of), ("ba", 50, back or message_of)):
            for place, size in listed(step):
                start = int((step * 100 + later + place) * MS)
                flows.append(Flow(*ends, start, start + MS // 10, int(size)))
    clock = StepClock(np.arange(31, dtype=np.int64) * 100 * MS, np.ones(30, dtype=np.bool_), 1.0)
    return transfer_table(flows), [(0, 1)], clock


def test_one_message_per_step_is_one_micro_batch():
    assert micro_batches(*both_ways(lambda step: [(5, 1_000_000)])) == 1


def unequal(step):
    """Six messages of lengths of their own at moments of their own."""
    random = np.random.default_rng(step)
    return list(zip(np.arange(6) * 7 + random.uniform(2, 5, 6), random.integers(1_000_000, 3_000_000, 6), strict=True))


def test_messages_of_many_lengths_are_counted_where_both_directions_end_them_at_the_same_places():
    assert micro_batches(*both_ways(unequal)) == 6


def test_unequal_messages_that_stand_apart_are_counted_where_the_directions_differ_too():
    assert micro_batches(*both_ways(unequal, lambda step: unequal(step + 100))) == 6


def test_places_that_differ_between_the_directions_are_not_agreed_about():
    transfers, links, clock = both_ways(unequal, lambda step: unequal(step + 100))
    assert agreed_messages(transfers, np.array(links).ravel(), clock) is None


@pytest.mark.parametrize("batches", [2, 6, 8, 24])
@pytest.mark.parametrize("virtual", [2, 3, 4])
def test_an_interleaved_pipeline_passes_every_link_once_per_virtual_stage(batches, virtual):
    """The link back to the first stage is passed once less."""
    closing = (virtual - 1) / virtual
    assert virtual_stages(batches * virtual, closing, 2)[0] == virtual
    assert virtual_stages(batches * virtual, closing * 0.998, 2)[0] == virtual, "bytes are measured, not given"


def test_a_little_more_on_the_closing_link_is_something_else():
    """Tied embeddings go from the last stage to the first as well; there is a micro-batch for every stage."""
    assert virtual_stages(16, 0.5 + 0.1, 4) == [2]
    assert virtual_stages(12, 1.3, 4) == [3, 2]


@pytest.mark.parametrize(("messages", "closing"), [(1, 0.9), (8, 0.3), (7, 0.5), (8, 0.0)])
def test_messages_that_no_number_of_virtual_stages_explains_have_no_number(messages, closing):
    assert not virtual_stages(messages, closing, 2)


def test_steps_of_which_records_are_lost_do_not_count():
    lost = np.random.default_rng(3).random((30, 4)) < 0.15
    transfers, links, clock = both_ways(
        lambda step: [(10 * i, 1_000_000) for i in range(4) if not lost[step, i]]  # three, two or four of four
    )
    assert micro_batches(transfers, links, clock) == 4
