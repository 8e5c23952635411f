"""What a look must show before a job's steps are believed."""

import numpy as np

from llmprism.model import Events, Job, JobLayout, JobReport, JobState, Layout, PairRoles, Steps, Timeline, Window
from llmprism.model.flows import TransferTable
from llmprism.service.looks import is_clear, last_active, longest_pause

S = 1_000_000_000


def job(bounds_s, pairs_s, sizes=(10_000_000,)):
    """Steps between these times, and pairs that send at these times."""
    bounds = (np.array(bounds_s) * S).astype(np.int64)
    steps = Steps(bounds[:-1], bounds[1:], np.zeros(bounds.size - 1, np.bool_))
    ends = [(np.array(times) * S).astype(np.int64) for times in pairs_s]
    end = np.concatenate(ends)
    size = np.concatenate([np.full(one.size, sizes[k % len(sizes)], np.int64) for k, one in enumerate(ends)])
    offsets = np.concatenate(([0], np.cumsum([one.size for one in ends]))).astype(np.int64)
    count = end.size
    table = TransferTable(
        ("a", "b", "c"), (), np.arange(len(ends), dtype=np.int32), np.zeros(len(ends), np.int32), offsets,
        np.ones(len(ends), np.int64), end - S // 100, end, size, np.full(count, S // 100, np.int64),
        np.full(count, -1, np.int32), np.ones(count, np.int32),
    )  # fmt: skip
    layout = JobLayout(Layout(), (), (), PairRoles.empty(), np.zeros(0, np.int8), 0.9)
    timeline = Timeline(steps, np.zeros((3, steps.count), np.int64), Events.empty())
    return JobReport(Job("j", (0, 1, 2), (), 0.9, table), JobState.RUNNING, layout, timeline)


def test_steps_that_fill_the_time_and_carry_all_traffic_are_clear():
    times = np.arange(1, 11)
    assert is_clear(job(range(11), [times, times]), 0, Window(0, 10 * S))


def test_few_steps_are_not_clear():
    times = np.arange(1, 5)
    assert not is_clear(job(range(5), [times, times]), 0, Window(0, 5 * S))


def test_a_burst_of_ticks_after_which_nothing_comes_is_not_clear():
    times = np.arange(1, 11)
    assert not is_clear(job(range(11), [times, times]), 0, Window(0, 40 * S))


def test_micro_batches_without_gradients_are_not_steps():
    """One pair sends in every tick, the other only in each tenth: what looks like a step is a part of one."""
    ticks = np.arange(1, 41)
    gradients = ticks[9::10]
    assert not is_clear(job(range(41), [ticks, gradients], sizes=(10_000_000, 50_000_000)), 0, Window(0, 40 * S))
    assert is_clear(job(range(41), [ticks, gradients], sizes=(10_000_000, 100_000)), 0, Window(0, 40 * S))


def test_pauses_and_the_last_message():
    one = job(range(3), [[1, 2, 9]])
    assert last_active(one) == 9 * S
    assert abs(longest_pause(one, 0) - 6.99 * S) < S // 100
    assert longest_pause(one, 5 * S) == 0
