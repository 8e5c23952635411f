"""Messages at the moments of a schedule, with noise: the schedule and its micro-batches come out."""

import numpy as np
import pytest

from llmprism.model import Schedule, StepClock
from llmprism.parallelism.rules import RULES
from llmprism.parallelism.schedule_fit import _is_folded, fitting_schedule
from llmprism.parallelism.schedules import PassOrder, gpipe, interleaved, message_times, one_f_one_b, v_shaped
from unit.builders import MS, Flow, transfer_table

STEPS = 12


def played(order, *, jitter=0.1, backward=2.0, lost=0.0):
    """Transfers, pipelines and clock of two pipelines that follow an order, each message off by some of a pass."""
    random = np.random.default_rng(7)
    times = message_times(order, backward, delay=0.2)
    period = int((max(moments[-1] for moments in times.values()) + 6) * 10 * MS)
    flows = []
    for step in range(STEPS):
        for name in "ab":
            for (here, there), moments in times.items():
                for moment in moments:
                    start = int(step * period + (moment + random.normal(0, jitter)) * 10 * MS)
                    if random.random() >= lost:
                        flows.append(Flow(f"{name}{here}", f"{name}{there}", start, start + MS, 1_000_000))
    transfers = transfer_table(flows)
    number = {name: i for i, name in enumerate(transfers.addresses)}
    stages = max(order.rank_of) + 1
    pipelines = tuple(tuple(number[f"{name}{rank}"] for rank in range(stages)) for name in "ab")
    ticks = np.arange(STEPS + 1, dtype=np.int64) * period
    messages = times[0, 1].size
    return transfers, pipelines, StepClock(ticks, np.ones(STEPS, dtype=np.bool_), 1.0), messages


@pytest.mark.parametrize(
    ("order", "schedule"),
    [
        (one_f_one_b(2, 18), Schedule.ONE_F_ONE_B),
        (one_f_one_b(4, 16), Schedule.ONE_F_ONE_B),
        (gpipe(2, 6), Schedule.GPIPE),
        (gpipe(4, 8), Schedule.GPIPE),
        (interleaved(2, 6, 2), Schedule.INTERLEAVED),
        (interleaved(2, 2, 3), Schedule.INTERLEAVED),
        (interleaved(2, 8, 4), Schedule.INTERLEAVED),
        (v_shaped(4, 8), Schedule.UNKNOWN),
    ],
    ids=lambda value: f"{value.name}-{value.micro_batches}" if isinstance(value, PassOrder) else value.value,
)
@pytest.mark.parametrize("backward", [1.5, 2.0, 2.5])
def test_the_schedule_that_was_played_is_found(order, schedule, backward):
    fit = fitting_schedule(*played(order, backward=backward))
    assert fit is not None
    assert (fit.schedule, fit.micro_batches) == (schedule, order.micro_batches)


def test_moments_without_order_stay_one_micro_batch_per_message():
    transfers, pipelines, clock, messages = played(interleaved(2, 6, 2), jitter=30.0)
    fit = fitting_schedule(transfers, pipelines, clock, messages)
    assert fit is None or fit.micro_batches == messages


def test_steps_with_lost_messages_are_left_out():
    order = interleaved(2, 6, 2)
    fit = fitting_schedule(*played(order, lost=0.01))
    assert fit is not None
    assert fit.micro_batches == 6


def test_nothing_is_said_of_one_message_or_of_pipelines_that_are_not_seen():
    transfers, pipelines, clock, _ = played(one_f_one_b(2, 4))
    assert fitting_schedule(transfers, pipelines, clock, 1) is None
    assert fitting_schedule(transfers, (), clock, 4) is None
    assert fitting_schedule(transfers, ((0, 0),), clock, 4) is None


@pytest.mark.parametrize(
    ("order", "batches", "folded"), [(interleaved(4, 8, 2), 8, True), (one_f_one_b(4, 16), 8, False)]
)
def test_moments_tell_interleaved_stages_from_something_else_between_first_and_last(order, batches, folded):
    transfers, pipelines, clock, messages = played(order)
    assert messages == 16
    assert _is_folded(transfers, pipelines, clock, messages, batches, RULES) is folded
