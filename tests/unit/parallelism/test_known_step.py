"""A step that is known by its bytes is found again where the window alone would take another one."""

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.parallelism.clock_score import pauses_of
from llmprism.parallelism.known_step import known_clock
from llmprism.parallelism.rival_clocks import best_clock
from unit.builders import Flow, transfer_table

MS = 1_000_000
BYTES = 6_000_000
PAIRS = 2


def clock_of(ticks: np.ndarray) -> StepClock:
    return StepClock(ticks.astype(np.int64), np.ones(ticks.size - 1, dtype=np.bool_), 1.0)


@pytest.fixture(scope="module")
def pauses_and_table():
    """40 steps of 500 ms, each with three messages of 2 MB on both of two pairs; the last ten take 900 ms."""
    lengths = np.where(np.arange(40) < 30, 500, 900) * MS
    begin = np.concatenate([[0], np.cumsum(lengths)])
    rows = [
        Flow(src, dst, int(at) + 300 * MS + 50 * MS * part, int(at) + 340 * MS + 50 * MS * part, BYTES // 3)
        for at in begin[:-1]
        for part in range(3)
        for src, dst in (("a", "b"), ("b", "a"))
    ]
    table = transfer_table(rows)
    return table, pauses_of(table, np.arange(table.pair_count)), begin + 490 * MS


def chosen_of(pauses_and_table, own, rivals, known):
    table, pauses, _ = pauses_and_table
    return known_clock(table, np.ones(table.pair_count, dtype=np.bool_), pauses, own, rivals, known)


def test_a_multiple_gives_way_to_the_known_step(pauses_and_table):
    ticks = pauses_and_table[2]
    fine, double = clock_of(ticks), clock_of(ticks[::2])
    found = chosen_of(pauses_and_table, double, [double, fine], PAIRS * BYTES)
    assert found.chosen is fine
    assert found.step_bytes == pytest.approx(2 * PAIRS * BYTES, rel=0.01)


def test_a_clock_of_some_steps_gives_way_to_one_of_all(pauses_and_table):
    ticks = pauses_and_table[2]
    some, every = clock_of(ticks[:31]), clock_of(ticks)
    assert chosen_of(pauses_and_table, some, [some, every], PAIRS * BYTES).chosen is every


def test_the_window_decides_where_nothing_is_known_or_nothing_fits(pauses_and_table):
    ticks = pauses_and_table[2]
    fine, double = clock_of(ticks), clock_of(ticks[::2])
    assert chosen_of(pauses_and_table, double, [double, fine], 0).chosen is None
    assert chosen_of(pauses_and_table, double, [double, fine], 5 * PAIRS * BYTES).chosen is None
    assert chosen_of(pauses_and_table, fine, [double, fine], PAIRS * BYTES).chosen is None


def test_the_best_clock_knows_the_bytes_of_a_step_and_can_be_given_others(pauses_and_table):
    table = pauses_and_table[0]
    bulk = np.ones(table.pair_count, dtype=np.bool_)
    rivals = tuple(clock_of(pauses_and_table[2][::ticks]) for ticks in (1, 2))
    job = Job("job", (0, 1), (), 1.0, table, clock=rivals[1])
    alone = best_clock(job, bulk)
    assert alone is not None
    other = best_clock(job, bulk, known_bytes=2 * alone.step_bytes)
    assert other is not None
    assert other.step_bytes == alone.step_bytes, "what the window alone shows does not depend on what is known"
    assert other.clock.steps < alone.clock.steps
