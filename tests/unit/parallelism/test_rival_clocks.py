from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.parallelism import rival_clocks
from llmprism.parallelism.clock_candidates import silences_of
from llmprism.parallelism.clock_score import bits_of, pauses_of, priced
from llmprism.parallelism.rival_clocks import BestClock, _cheapest, _divides, _margin, _price, _single_steps, best_clock
from llmprism.parallelism.rules import RULES
from unit.builders import Flow, build_job, cut_in_pieces, transfer_table


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


def test_a_coarser_clock_knows_about_sizes_what_a_finer_one_knows():
    """Eight equal layers a step, each of large messages and then small ones: the layers' clock tells every size."""
    rows, layers = [], np.arange(160) * 80_000_000 + np.repeat(np.arange(20), 8) * 360_000_000
    for start in layers.tolist():
        for index, size in enumerate([2_000_000] * 4 + [500_000] * 16):
            rows.append(Flow("a", "b", start + index * 3_800_000, start + index * 3_800_000 + 1_000_000, size))
    pauses = pauses_of(transfer_table(rows), np.array([0]))
    fine, coarse = (StepClock(t - 1, np.ones(t.size - 1, dtype=np.bool_), 1.0) for t in (layers, layers[::8]))
    window = (0, int(layers[-1]))
    by_clock = priced(pauses, [fine.boundary_ns, coarse.boundary_ns], window)
    saved = bits_of(pauses, by_clock) - _price(pauses, [fine, coarse], by_clock, RULES)
    assert saved[0] > 0.5
    assert saved[1] >= saved[0]


def test_a_clock_that_ticks_less_often_divides_nothing():
    def every(period, ticks):
        return StepClock(np.arange(ticks + 1, dtype=np.int64) * period, np.ones(ticks, dtype=np.bool_), 1.0)

    assert _divides(every(50, 32), every(100, 16), RULES)
    assert not _divides(every(50, 12), every(100, 16), RULES)


def test_ticks_tell_that_a_clock_divides_one_of_uneven_steps():
    """Five ticks in each step, with a checkpoint in every second step: neither medians nor means are multiples."""
    length = np.full(60, 100)
    length[9::10] = 400
    fine = np.concatenate([[0], np.cumsum(length)]).astype(np.int64)
    clock, coarse = (StepClock(t, np.ones(t.size - 1, dtype=np.bool_), 1.0) for t in (fine[:58], fine[:45:5]))
    shifted = StepClock(coarse.boundary_ns + 50, coarse.regular, 1.0)
    assert _divides(clock, coarse, RULES)
    assert not _divides(clock, shifted, RULES)
    assert coarse.unevenness > 0.2 > clock.unevenness


def test_a_finer_clock_of_uneven_ticks_has_no_margin():
    even = StepClock(np.arange(0, 20) * 1_000_000, np.ones(19, dtype=np.bool_), 1.0)
    thirds = np.sort(np.concatenate([even.boundary_ns + part for part in (0, 200_000, 500_000)]))
    uneven = StepClock(thirds, np.ones(thirds.size - 1, dtype=np.bool_), 1.0)
    assert _margin(even, uneven, RULES) == 0.0
    assert _margin(even, even, RULES) == RULES.clock.margin_bits
    assert _margin(uneven, even, RULES) == RULES.clock.uneven_margin_bits


def test_ticks_are_no_parts_of_steps_of_which_there_are_few(monkeypatch):
    tried = []
    monkeypatch.setattr(rival_clocks, "slower_clock", lambda _pauses, _fast, slower, _rules: tried.extend(slower))

    def clock(period, steps):
        return StepClock(np.arange(steps + 1, dtype=np.int64) * period, np.ones(steps, dtype=np.bool_), 1.0)

    best = BestClock(clock(100, 40), 1.0)
    few, enough = clock(850, 4), clock(800, 5)
    assert rival_clocks._whole_steps(None, best, [few, enough], RULES) is best
    assert any(one is enough for one in tried)
    assert all(one.steps >= RULES.clock.compound_steps for one in tried)


def test_ticks_of_a_slower_clock_are_put_in_place_before_it_is_left():
    """Layers of a step pause alike but for a few; the step's clock ticks now at one of its places, now at another."""
    rng = np.random.default_rng(3)
    layers, steps, now, rows, ends = 12, 20, 0, [], []
    for _ in range(steps):
        for layer in range(layers):
            rows.append(Flow("a", "b", now, now + 5_000_000, 1_000_000))
            ends.append(now + 5_000_000)
            usual = {3: 20e6, 7: 30e6, 11: 60e6}.get(layer, 12e6)
            now += 5_000_000 + int(usual * rng.uniform(0.9, 1.1))
    transfers, every = transfer_table(rows), np.array([0])
    misplaced = np.array([ends[layers * step + (6, 6, 7, 8)[step % 4]] for step in range(steps)])
    clocks = [StepClock(np.array(one), np.ones(len(one) - 1, dtype=np.bool_), 1.0) for one in (ends, misplaced)]
    found = _cheapest(pauses_of(transfers, every), silences_of(transfers, every), clocks, (0, now), RULES)
    assert found.clock.steps < steps
    assert found.clock.unevenness < clocks[1].unevenness


def test_a_finer_clock_of_ticks_that_are_alike_is_that_of_the_steps():
    """Three steps taken together fit a few of their pauses better by chance; micro-batches differ in their bytes."""
    rng, now, rows, ends = np.random.default_rng(5), 0, [], []
    for _ in range(36):
        for part in range(4):
            rows.append(Flow("a", "b", now, now + 5_000_000, 1_000_000 + 500_000 * (part == 3)))
            now += 5_000_000 + int((20e6 if part < 3 else 60e6) * rng.uniform(0.9, 1.1))
        ends.append(now - 1)
    pauses = pauses_of(transfer_table(rows), np.array([0]))
    starts = np.array([row.start_ns for row in rows])
    fine, coarse, parts = (
        StepClock(ticks, np.ones(ticks.size - 1, dtype=np.bool_), 1.0)
        for ticks in (np.array(ends), np.array(ends[::3]), starts - 1)
    )
    found = _single_steps(pauses, BestClock.of(coarse, fine, 0.1), [fine, coarse, parts], (0, now), RULES)
    assert found.clock is fine
    assert _single_steps(pauses, BestClock.of(fine, parts, 0.1), [fine, coarse, parts], (0, now), RULES).clock is fine


def test_a_clock_of_few_steps_must_be_ahead_by_a_margin():
    job, bulk = job_of(build_job(pp=1, dp=4))
    pauses = pauses_of(job.transfers, np.flatnonzero(bulk))
    ticks = np.linspace(job.transfers.start_ns.min(), job.transfers.end_ns.max(), 4).astype(np.int64)
    clock = StepClock(ticks, np.ones(3, dtype=np.bool_), 1.0)
    by_clock = priced(pauses, [ticks], (0, 1 << 62))
    assert _price(pauses, [clock], by_clock, RULES)[0] >= bits_of(pauses, by_clock)[0] + RULES.clock.margin_bits - 1e-9
