"""Signs of life: regular control messages, against those that belong to the steps."""

import numpy as np
import pytest

from llmprism.diagnose.heartbeats import Heartbeats
from llmprism.model import Job
from unit.builders import MS, SECOND, Flow, transfer_table

NAMES = ("a", "b", "c", "d")
PERIOD = 700 * MS


def job_with(every_ns, jitter=0.0, senders=NAMES):
    random = np.random.default_rng(0)
    flows = [Flow("a", "b", k * PERIOD, k * PERIOD + 10 * MS, 5_000_000) for k in range(60)]
    for number, name in enumerate(senders):
        moments = np.cumsum(every_ns * (1.0 + jitter * random.uniform(-1, 1, 30))).astype(np.int64) + number * MS
        flows += [Flow(name, NAMES[number - 1], int(when), int(when) + 1_000, 60) for when in moments]
    return Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows))


def test_regular_messages_with_a_rhythm_of_their_own_are_heartbeats():
    beats = Heartbeats.of(job_with(SECOND), 60 * PERIOD, PERIOD)
    assert beats.gap_ns == pytest.approx(SECOND, rel=0.01)


@pytest.mark.parametrize("how", [{"every_ns": PERIOD}, {"every_ns": SECOND, "jitter": 0.9}, {"every_ns": 100 * MS}])
def test_messages_of_the_steps_and_irregular_ones_are_not(how):
    assert Heartbeats.of(job_with(**how), 60 * PERIOD, PERIOD).gap_ns is None


def test_one_talkative_member_is_not_enough():
    assert Heartbeats.of(job_with(SECOND, senders=()), 60 * PERIOD, PERIOD).gap_ns is None


def test_they_go_on_or_have_stopped():
    beats = Heartbeats(0, float(PERIOD), float(SECOND))
    assert beats.go_on(3 * SECOND)
    assert not beats.go_on(SECOND)
    assert not beats.go_on(3 * SECOND, times=2.0)
    assert beats.stopped(SECOND, 4 * SECOND)
    assert not beats.stopped(SECOND, 2 * SECOND)
    assert not Heartbeats(0, float(PERIOD), None).stopped(SECOND, 60 * SECOND), "they were never there"


def few_of_each_pair(every_ns):
    """Everybody writes to everybody three times."""
    flows = [Flow("a", "b", k * PERIOD, k * PERIOD + 10 * MS, 5_000_000) for k in range(10)]
    flows += [
        Flow(a, b, beat, beat + 1_000, 60)
        for number, (a, b) in enumerate((a, b) for a in NAMES for b in NAMES if a != b)
        for beat in (number * 70 * MS, number * 70 * MS + every_ns, number * 70 * MS + 2 * every_ns)
    ]
    job = Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows))
    return Heartbeats.of(job, 2 * every_ns + PERIOD, PERIOD)


def test_a_few_beats_of_each_pair_make_a_rhythm_together():
    assert few_of_each_pair(SECOND).gap_ns == pytest.approx(SECOND, rel=0.01)


def test_what_comes_every_few_steps_belongs_to_the_training():
    """Metrics every third step; a rhythm of twelve and a half steps is one of its own."""
    assert few_of_each_pair(3 * PERIOD).gap_ns is None
    assert few_of_each_pair(25 * PERIOD // 2).gap_ns is not None


def test_a_rhythm_that_stopped_says_that_ranks_died_though_pings_go_on():
    pings = [Flow(name, "d", when, when + 1_000, 84) for name in "abc" for when in range(0, 60 * SECOND, 1300 * MS)]
    beating = [Flow(name, "d", when, when + 1_000, 60) for name in "abc" for when in range(0, 20 * SECOND, SECOND)]
    flows = [Flow("a", "b", k * PERIOD, k * PERIOD + 10 * MS, 5_000_000) for k in range(28)]
    last = 28 * PERIOD
    for small, died in (([*pings, *beating], True), (pings, False)):
        job = Job("job", (0, 1, 2, 3), (), 1.0, transfer_table([*flows, *small]))
        beats = Heartbeats.of(job, last, PERIOD, heard_until_ns=60 * SECOND)
        assert beats.go_on(59 * SECOND)
        assert beats.stopped(59 * SECOND, 60 * SECOND) is died
