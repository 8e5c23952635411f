import numpy as np

from llmprism.model import StepClock
from llmprism.parallelism.half_ticks import half_tick_clock
from llmprism.stats.silences import Silences
from unit.builders import MS

TICK, MB = 100 * MS, 1_000_000


def sent(parts, seed=0):
    """Silences of a job that sends these parts (in ticks), ten messages to a tick; those between two parts are long."""
    chance = np.random.default_rng(seed)
    begin, length, before, now, total = [], [], [], 0, 0
    ends = []
    for part in parts:
        for message in range(round(10 * part)):
            now, total = now + 8 * MS, total + MB
            last = message == round(10 * part) - 1
            quiet = int((8 if last else 0.2) * MS * chance.uniform(0.7, 1.4))
            begin.append(now)
            length.append(quiet)
            before.append(total)
            now += quiet
        ends.append(begin[-1])
    return Silences(*(np.array(column, dtype=np.int64) for column in (begin, length, before))), np.array(ends)


def ticks_of(silences):
    """A clock that ticks once in ten messages."""
    when = silences.begin_ns[9::10]
    return StepClock(when, np.ones(when.size - 1, dtype=np.bool_), 1.0)


def test_passes_and_a_gathering_of_half_a_tick_are_a_step():
    silences, ends = sent([1, 1, 1, 1, 0.5] * 12)
    found = half_tick_clock(silences, ticks_of(silences))
    assert found is not None
    assert found.passes == 4
    assert found.clock.steps >= 10
    assert np.isin(found.clock.boundary_ns, ends[4::5]).all()


def test_whole_ticks_stay():
    silences, _ = sent([1] * 60)
    assert half_tick_clock(silences, ticks_of(silences)) is None


def test_what_is_sent_once_or_twice_makes_no_steps():
    """After a restart all ticks are half-way between those before it."""
    silences, _ = sent([1] * 30 + [0.5] + [1] * 30)
    assert half_tick_clock(silences, ticks_of(silences)) is None


def test_ticks_without_silences_stay():
    silences, _ = sent([60])
    assert half_tick_clock(silences, ticks_of(silences)) is None
