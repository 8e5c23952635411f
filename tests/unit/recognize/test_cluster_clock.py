import numpy as np
import pytest

from llmprism.model import ClockCandidate, StepClock
from llmprism.recognize.bulk import pair_traffic
from llmprism.recognize.cluster_clock import _whole_steps, cluster_clocks, distinct_clocks
from llmprism.recognize.rules import RULES
from unit.builders import MS, Flow, build_job, chatter, cut_in_pieces, transfer_table


def clocks_of(records):
    transfers = transfer_table(records)
    pairs = np.arange(transfers.pair_count, dtype=np.int32)
    return cluster_clocks(transfers, pair_traffic(transfers), pairs)


def clock_of(records):
    return next((one.clock for one in clocks_of(records)), None)


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


@pytest.mark.parametrize("size", [500, 4 << 20])
def test_a_single_message_each_way_or_none_but_heartbeats_has_no_clock(size):
    """There is no silence between messages, so neither bytes nor messages show where a step ends."""
    assert clock_of([Flow(src, dst, 0, 5 * MS, size) for src, dst in ("ab", "ba")]) is None


def test_a_checkpoint_every_few_steps_is_a_candidate_behind_the_step():
    """A ring that rests for 60 ms after every step of 100 ms and for 300 ms after every tenth."""
    now, flows = 0, []
    for step in range(60):
        for _ in range(4):
            flows += [Flow(*pair, now, now + 8 * MS, 1_000_000) for pair in [("a", "b"), ("b", "c"), ("c", "a")]]
            now += 10 * MS
        now += (300 if step % 10 == 9 else 60) * MS
    periods = [one.clock.period_ns / MS for one in clocks_of(flows)]
    assert periods[0] == pytest.approx(100, rel=0.02)
    assert any(period == pytest.approx(1240, rel=0.02) for period in periods[1:])


def test_candidates_of_one_period_are_one():
    def ticking(period_ns, score):
        return ClockCandidate(StepClock(np.arange(9) * period_ns, np.ones(8, dtype=np.bool_), 1.0), score)

    kept = distinct_clocks([ticking(100, 0.9), ticking(101, 0.8), ticking(1000, 0.5), ticking(96, 0.4)])
    assert [one.clock.period_ns for one in kept] == [100, 1000]


def joined(amounts, irregular=(), noise=0.0):
    """A clock of ticks of 100 ms after `_whole_steps`; `amounts[pair]` lists its megabytes tick by tick, in turn."""
    ticks, random = 24, np.random.default_rng(0)
    flows = [
        Flow(*pair, (100 * k + 50) * MS, (100 * k + 51) * MS, int(1e6 * turn[k % len(turn)] * factor) or 1)
        for pair, turn in amounts.items()
        for k in range(ticks)
        for factor in [random.uniform(1 - noise, 1 + noise)]
    ]
    transfers = transfer_table(flows)
    regular = np.ones(ticks, dtype=np.bool_)
    regular[list(irregular)] = False
    clock = StepClock(np.arange(ticks + 1, dtype=np.int64) * 100 * MS, regular, 0.9)
    return _whole_steps(transfers, np.arange(transfers.pair_count, dtype=np.int32), clock, RULES), clock


def test_ticks_that_all_carry_the_same_are_steps():
    found, clock = joined({"ab": [5], "bc": [9]}, noise=0.2)
    assert found is clock


@pytest.mark.parametrize("ticks", [2, 3, 4])
def test_ticks_that_differ_in_turn_are_joined_to_whole_steps(ticks):
    """One link sends in every tick, the other in one of them."""
    found, _ = joined({"ab": [5] * ticks, "bc": [20] + [0] * (ticks - 1)}, noise=0.05)
    assert found.period_ns == ticks * 100 * MS
    assert found.boundary_ns[0] == 0
    assert found.steps == 24 // ticks
    assert found.dominance == 0.9


def test_five_ticks_are_too_many_to_be_one_step():
    found, clock = joined({"ab": [5] * 5, "bc": [20, 20, 0, 0, 0]})
    assert found is clock


def test_bytes_that_follow_no_turn_are_left_alone():
    random = np.random.default_rng(3)
    found, clock = joined({"ab": [5], "bc": random.lognormal(2.0, 1.5, 24).tolist()})
    assert found is clock


def test_a_joined_step_is_regular_where_all_its_ticks_are():
    found, _ = joined({"ab": [5, 5], "bc": [20, 0]}, irregular=[6, 11])
    assert np.flatnonzero(~found.regular).tolist() == [3, 5]


def test_the_clock_of_a_job_whose_busiest_link_repeats_itself_within_a_step():
    """Ticks of 100 ms on a-b; c-d is silent in every second one."""
    flows = []
    for step in range(30):
        for half in (0, 1):
            begin = (200 * step + 100 * half) * MS
            flows += [Flow("a", "b", begin + at * MS, begin + (at + 5) * MS, 50_000_000) for at in (10, 20, 30)]
        flows.append(Flow("c", "d", (200 * step + 12) * MS, (200 * step + 30) * MS, 200_000_000))
    clock = clock_of(flows)
    assert clock is not None
    assert clock.period_ns == pytest.approx(200 * MS, rel=0.02)
