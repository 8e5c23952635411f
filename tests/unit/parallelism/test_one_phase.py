import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.one_phase import Ticks, in_one_phase
from llmprism.stats.silences import Silences

STEP = 1_000


def silences(places, steps=20):
    """Equal silences at these times of every step."""
    begin = np.sort(np.concatenate([np.arange(steps) * STEP + place for place in places])).astype(np.int64)
    return Silences(begin, np.full(begin.size, 50, dtype=np.int64), begin.copy())


def clock(jitter=0):
    offset = np.random.default_rng(3).integers(-jitter, jitter + 1, 21) if jitter else np.zeros(21, dtype=np.int64)
    return StepClock((np.arange(21) * STEP + offset).astype(np.int64), np.ones(20, dtype=np.bool_), 1.0)


def ticks_at(quiet, times):
    return Ticks(np.searchsorted(quiet.begin_ns, times).astype(np.int64), np.ones(len(times) - 1, dtype=np.bool_))


def test_ticks_that_jump_to_another_pause_are_put_back():
    quiet = silences([100, 600])
    times = np.arange(20) * STEP + np.where(np.arange(20) % 4 == 3, 600, 100)
    moved = in_one_phase(ticks_at(quiet, times), quiet, clock())
    assert moved is not None
    assert np.array_equal(quiet.begin_ns[moved.silence], np.arange(20) * STEP + 100)


def test_no_phase_where_ticks_lie_anywhere():
    quiet = silences([50, 300, 550, 800])
    times = np.arange(20) * STEP + np.resize([50, 300, 550, 800], 20)
    assert in_one_phase(ticks_at(quiet, times), quiet, clock()) is None


def test_a_chain_that_is_no_more_uneven_than_the_clock_stays():
    uneven = clock(jitter=300)
    begin = (np.arange(20) * STEP + 500).astype(np.int64)
    quiet = Silences(begin, np.full(20, 50, dtype=np.int64), begin.copy())
    ticks = Ticks(np.arange(20), np.ones(19, dtype=np.bool_))
    assert in_one_phase(ticks, quiet, uneven) is ticks


def test_a_chain_that_is_evener_than_a_clock_that_changes_its_phase_stays():
    """The clock ticks at one pause for ten steps and at another one after that."""
    quiet = silences([100, 500, 900])
    wandering = np.arange(21) * STEP + np.where(np.arange(21) < 8, 0, 400)
    astray = StepClock(wandering.astype(np.int64), np.ones(20, dtype=np.bool_), 1.0)
    ticks = ticks_at(quiet, np.arange(20) * STEP + 500)
    assert in_one_phase(ticks, quiet, astray) is ticks
