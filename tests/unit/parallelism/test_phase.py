import itertools

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.one_phase import Ticks
from llmprism.parallelism.phase import (
    _reach,
    _sliding_extremes,
    _with_earlier,
    _with_stragglers,
    gradient_clock,
    outstanding,
    pipeline_clock,
    replicas_rest_clock,
    shifted_clock,
)
from llmprism.parallelism.rules import RULES
from llmprism.stats.byte_steps import Chain
from llmprism.stats.silences import Silences
from unit.builders import MS, Flow, build_job, cut_in_pieces, transfer_table


def signs(transfers, job):
    """+1 for forward pairs, -1 for backward ones; and which pairs carry gradients."""
    forward = {link for p in job.pipelines for link in itertools.pairwise(p)}
    names = transfers.addresses
    pairs = [(names[s], names[d]) for s, d in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    sign = np.array([1 if p in forward else -1 if p[::-1] in forward else 0 for p in pairs], dtype=np.int8)
    return sign, sign == 0


def shifted(job, phase):
    """A clock with the right steps that ticks at another phase."""
    ends = np.array(job.step_ends_ns[1:], dtype=np.int64)
    boundary = ends + int(phase * np.median(np.diff(ends)))
    return StepClock(boundary, np.ones(boundary.size - 1, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("order", ["1f1b", "gpipe"])
@pytest.mark.parametrize("phase", [0.0, 0.3, 0.7])
def test_a_step_of_pipelines_ends_when_nothing_is_outstanding_and_gradients_are_through(order, phase):
    job = build_job(pp=3, dp=2, micro_batches=6, order=order)
    transfers = transfer_table(cut_in_pieces(job.records))
    sign, gradient = signs(transfers, job)
    step_bytes = float(2 * 6 * 2 * 2 * job.shape.activation_bytes)
    clock = pipeline_clock(transfers, sign, gradient, step_bytes, shifted(job, phase))
    assert clock is not None
    assert clock.regular.all()
    assert clock.boundary_ns[1:].tolist() == job.step_ends_ns
    assert clock.boundary_ns[0] < job.step_ends_ns[0], "the first step was seen whole"


@pytest.mark.parametrize(("regular", "earlier"), [((True, True), 2), ((False, True), 1), ((True, False), 0)])
def test_ticks_of_the_chain_before_the_clocks_first_one_are_kept_while_whole_steps_lead_to_it(regular, earlier):
    silences = Silences(np.arange(6) * 100, np.full(6, 10), np.arange(6) * 1000)
    chain = Chain(np.arange(5), np.array([*regular, True, True]), 1000.0, 1.0, 1.0)
    ticks = _with_earlier(Ticks(np.array([2, 3, 4]), np.ones(2, np.bool_)), chain, silences, RULES)
    assert ticks.silence.tolist() == list(range(2 - earlier, 5))
    assert ticks.regular.all()


def test_ticks_of_another_phase_have_nothing_before_them():
    silences = Silences(np.arange(12) * 50, np.full(12, 10), np.arange(12) * 500)
    chain = Chain(np.arange(0, 12, 2), np.ones(5, np.bool_), 1000.0, 1.0, 1.0)
    ticks = Ticks(np.array([5, 7, 9]), np.ones(2, np.bool_))
    assert _with_earlier(ticks, chain, silences, RULES) is ticks


def overlapped(step, later):
    """Two stages (a and b, c and d) that reduce up to 160 ms and gather half as much: the first stage from 170 ms, the
    later one once it has its first activation, or with the first."""
    at = step * 200
    passes = [("a", "c", 40), ("b", "d", 40), ("c", "a", 100), ("d", "b", 100)]
    flows = [
        Flow(x, y, (at + t + 10 * m) * MS, (at + t + 10 * m + 1) * MS, 50_000) for x, y, t in passes for m in range(4)
    ]
    gathers = ((160, 170), (150, 242 if later else 170))
    for members, (reduced, gathered) in zip((("a", "b"), ("c", "d")), gathers, strict=True):
        for x, y in (members, members[::-1]):
            flows += [Flow(x, y, (at + reduced - 8 + k) * MS, (at + reduced - 7 + k) * MS, 1_000_000) for k in range(8)]
            flows += [Flow(x, y, (at + gathered + k) * MS, (at + gathered + k + 1) * MS, 1_000_000) for k in range(4)]
    return flows


@pytest.mark.parametrize(("later", "end"), [(True, 160), (False, 174)])
def test_what_later_stages_gather_after_the_pipelines_woke_belongs_to_the_next_step(later, end):
    """Where all gather before the first activation, the step ends with that; under the passes, with the reduction."""
    transfers = transfer_table([flow for step in range(8) for flow in overlapped(step, later)])
    names = transfers.addresses
    pairs = [names[src] + names[dst] for src, dst in zip(transfers.pair_src, transfers.pair_dst, strict=True)]
    sign = np.array([1 if pair in ("ac", "bd") else -1 if pair in ("ca", "db") else 0 for pair in pairs])
    ticks = StepClock(np.arange(8) * 200 * MS + 30 * MS, np.ones(7, dtype=np.bool_), 1.0)
    clock = pipeline_clock(transfers, sign.astype(np.int8), sign == 0, 16.0 * 50_000, ticks)
    assert clock is not None
    assert (clock.boundary_ns[1:-1] // MS).tolist() == [step * 200 + end for step in range(7)]


def test_pipelines_that_tell_other_steps_than_the_clock_are_not_believed():
    job = build_job(pp=2, dp=2)
    transfers = transfer_table(job.records)
    sign, gradient = signs(transfers, job)
    few = StepClock(np.array(job.step_ends_ns[::4], dtype=np.int64), np.ones(4, dtype=np.bool_), 1.0)
    assert pipeline_clock(transfers, sign, gradient, 8.0 * 2 * job.shape.activation_bytes, few) is None
    assert pipeline_clock(transfers, sign, gradient, 0.0, few) is None


def test_outstanding_counts_activations_without_an_answer():
    forth = [Flow("a", "b", k * 10 * MS, k * 10 * MS + MS, 100) for k in range(4)]
    back = [Flow("b", "a", 50 * MS + k * 10 * MS, 51 * MS + k * 10 * MS, 100) for k in range(4)]
    transfers = transfer_table(forth + back)
    when = np.array([0, 5, 15, 25, 35, 55, 65, 75, 85]) * MS
    level = outstanding(transfers, np.array([1, -1], dtype=np.int8), when, 200.0 * MS)
    assert level.bytes.tolist() == [0.0, 100.0, 200.0, 300.0, 400.0, 300.0, 200.0, 100.0, 0.0]
    assert level.share.tolist() == [0.0, 0.25, 0.5, 0.75, 1.0, 0.75, 0.5, 0.25, 0.0]


@pytest.mark.parametrize("dp", [2, 4])
def test_a_step_without_pipelines_ends_with_the_silence_of_the_group(dp):
    job = build_job(pp=1, dp=dp, setup_bytes=0)
    transfers = transfer_table(cut_in_pieces(job.records))
    everything = np.ones(transfers.pair_count, dtype=np.bool_)
    step_bytes = float(transfers.bytes.sum()) / job.shape.steps
    clock = gradient_clock(transfers, everything, step_bytes, shifted(job, 0.2))
    assert clock is not None
    assert clock.boundary_ns.tolist() == job.step_ends_ns


def test_a_group_that_tells_other_steps_than_the_clock_is_not_believed():
    job = build_job(pp=1, dp=4)
    transfers = transfer_table(job.records)
    few = StepClock(np.array(job.step_ends_ns[::5], dtype=np.int64), np.ones(3, dtype=np.bool_), 1.0)
    step_bytes = float(transfers.bytes.sum()) / job.shape.steps
    assert gradient_clock(transfers, np.ones(transfers.pair_count, dtype=np.bool_), step_bytes, few) is None


def test_sliding_extremes_equal_those_of_every_window():
    rng = np.random.default_rng(2)
    when, level = np.sort(rng.integers(0, 1_000, 300)), rng.integers(-9, 9, 300).astype(np.float64)
    lowest, highest = _sliding_extremes(when, level, 40.0)
    windows = [level[np.abs(when - moment) <= 40] for moment in when]
    assert lowest.tolist() == [window.min() for window in windows]
    assert highest.tolist() == [window.max() for window in windows]


@pytest.mark.parametrize(("rest", "share"), [(1, RULES.ends.whole_behind), (60, RULES.ends.far_behind)])
def test_who_goes_on_sending_is_slow_and_who_rests_lost_records(rest, share):
    start = np.array([0, 20, 40, 60 + rest, 80 + rest], dtype=np.int64) * MS
    assert _reach(0.8, 45 * MS, start, start + 19 * MS, RULES) == share
    assert _reach(0.2, 45 * MS, start, start + 19 * MS, RULES) == RULES.ends.far_behind
    assert _reach(0.01, 45 * MS, start, start + 19 * MS, RULES) == RULES.ends.straggle


@pytest.mark.parametrize(("extra", "late"), [({7}, []), ({7, 8, 9}, []), (set(), [5, 6])])
def test_who_sent_something_again_was_not_behind_before(extra, late):
    """Bytes that are sent again lift the line for the rest of the time; a slow pair is below it and comes back."""
    flows = [Flow("b", "a", 100 * k * MS, (100 * k + 90) * MS, 1_000_000) for k in range(20)]
    for k in range(20):
        every = 9.5 if k in late else 6
        starts = [100 * k + every * i for i in range(10 + 3 * (k in extra))]
        flows += [Flow("a", "b", int(start * MS), int((start + every) * MS), 100_000) for start in starts]
    transfers = transfer_table(flows)
    boundary = (np.arange(20, dtype=np.int64) * 100 + 90) * MS
    found = _with_stragglers(transfers, np.ones(transfers.pair_count, dtype=np.bool_), boundary, RULES)
    assert np.flatnonzero(found != boundary).tolist() == late


def test_shards_with_replicas_end_their_steps_when_the_replicas_begin_to_rest():
    """Shards send all the time, replicas in the last fifth of the step: 20 ms after their last message it ends."""
    rows = []
    for step in range(10):
        begin = step * 1_000 * MS
        rows += [Flow("a", "b", begin + k * 100 * MS, begin + (k * 100 + 60) * MS, 4 << 20) for k in range(10)]
        rows += [Flow("a", "c", begin + (810 + k * 50) * MS, begin + (840 + k * 50) * MS, 4 << 20) for k in range(3)]
    transfers = transfer_table(rows)
    replicas = np.array([transfers.addresses[dst] == "c" for dst in transfers.pair_dst])
    ticks = np.arange(11, dtype=np.int64) * 1_000 * MS + 400 * MS  # in the middle of the steps
    clock = StepClock(ticks, np.ones(10, dtype=np.bool_), 1.0)
    found = replicas_rest_clock(transfers, replicas, np.ones_like(replicas), clock)
    assert found is not None
    assert {int(tick) % (1_000 * MS) for tick in found.boundary_ns} == {960 * MS}
    assert replicas_rest_clock(transfers, ~replicas, np.ones_like(replicas), clock) is None  # no rest stands out


@pytest.mark.parametrize(("every_step", "ends"), [(False, 4), (True, 9)])
def test_a_step_whose_last_pause_others_fill_ends_at_the_nearest_silence(every_step, ends):
    """The step ends after its fourth message. In every other one that pause is filled, and the nearest silence is one
    message later."""
    rows = []
    for step in range(10):
        for k in range(8):
            start = (step * 1_000 + k * 100 + 50) * MS
            filled = step % 2 and k == 3
            rows.append(Flow("a", "b", start, start + (100 if filled else 60) * MS, 4 << 20))
    transfers = transfer_table(rows)
    pairs = np.ones(1, dtype=np.bool_)
    clock = StepClock(np.arange(10, dtype=np.int64) * 1_000 * MS + 900 * MS, np.ones(9, dtype=np.bool_), 1.0)
    found = shifted_clock(transfers, pairs, pairs, clock, 0.5, 8, every_step=every_step)
    assert found.boundary_ns.size == ends
    assert {int(end) % (2_000 * MS) for end in found.boundary_ns} <= {410 * MS, 1_510 * MS}


@pytest.mark.parametrize("messages", [1, 2])
def test_pairs_that_hardly_ever_rest_end_steps_where_they_can(messages):
    """One silence between two messages that take all of the time, or none."""
    rows = [Flow("a", "b", k * 5_000 * MS, (k * 5_000 + 4_900) * MS, 4 << 20) for k in range(messages)]
    pairs = np.ones(1, dtype=np.bool_)
    clock = StepClock(np.arange(1, 9, dtype=np.int64) * 1_000 * MS, np.ones(7, dtype=np.bool_), 1.0)
    found = shifted_clock(transfer_table(rows), pairs, pairs, clock, 0.5, 8, every_step=True)
    assert set(found.boundary_ns.tolist()) <= {*clock.boundary_ns.tolist(), 4_900 * MS}
