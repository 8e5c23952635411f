"""Who holds the others up: a ring that passes four pieces round in every step, one member slow for a while."""

import numpy as np

from llmprism.diagnose.holding import held_ns, released_by
from llmprism.model import Job, Steps
from unit.builders import MS, Flow, transfer_table

NAMES = "abcd"
STEPS = 20
SLOW_STEPS = range(8, 14)
PIECES = 8


def ring(slow: str | None):
    """Each member sends a piece when it has the one before it; the slow one thinks about each for 5 ms more."""
    flows, ends, now = [], [], 0
    for step in range(STEPS):
        ready = dict.fromkeys(NAMES, now + 40 * MS)
        for _ in range(PIECES):
            sent = {}
            for name in NAMES:
                wait = 5 * MS if name == slow and step in SLOW_STEPS else 0
                sent[name] = ready[name] + wait
                to = NAMES[(NAMES.index(name) + 1) % 4]
                flows.append(Flow(name, to, sent[name], sent[name] + 2 * MS, 1_000_000))
            ready = {name: max(sent[name], sent[NAMES[NAMES.index(name) - 1]]) + 3 * MS for name in NAMES}
        now = max(ready.values())
        ends.append(now)
    end = np.array(ends, dtype=np.int64)
    steps = Steps(np.concatenate([[0], end[:-1]]), end, np.zeros(STEPS, dtype=np.bool_))
    return Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows)), steps


def test_the_one_that_has_got_what_it_needs_holds_the_others_up():
    usual = np.array([step not in SLOW_STEPS for step in range(STEPS)])
    job, steps = ring("c")
    held = np.median(held_ns(job, steps, usual)[:, ~usual], axis=1)
    assert int(np.argmax(held)) == NAMES.index("c")
    assert held[NAMES.index("c")] > 3 * MS
    assert np.delete(held, NAMES.index("c")).max() < 0.5 * held[NAMES.index("c")]


def test_nobody_holds_in_a_healthy_ring_and_nothing_is_said_without_usual_steps():
    job, steps = ring(None)
    assert np.nanmax(np.abs(held_ns(job, steps, np.ones(STEPS, dtype=np.bool_)))) < MS // 10
    assert np.isnan(held_ns(job, steps, np.zeros(STEPS, dtype=np.bool_))).all()


def ready_first(late: str, *, says_so: bool):
    """A ring in which a message leaves when its receiver is ready: in the slow steps `late` is ready 30 ms after the
    others, and where it `says_so` by a small message the one before it sends at once; else that one holds by itself."""
    flows, ends, now = [], [], 0
    before = NAMES[NAMES.index(late) - 1]
    for step in range(STEPS):
        wait = 30 * MS if step in SLOW_STEPS else 0
        for name in NAMES:
            at = now + 40 * MS + (wait if name in (before, late) else 0)
            to = NAMES[(NAMES.index(name) + 1) % 4]
            flows.append(Flow(name, to, at, at + 2 * MS, 1_000_000))
        ready = now + 40 * MS + (wait if says_so else 0) - MS // 5
        flows.append(Flow(late, before, ready, ready + 1_000, 96))
        now += 50 * MS + wait
        ends.append(now)
    end = np.array(ends, dtype=np.int64)
    steps = Steps(np.concatenate([[0], end[:-1]]), end, np.zeros(STEPS, dtype=np.bool_))
    return Job("job", (0, 1, 2, 3), (), 1.0, transfer_table(flows)), steps


def test_one_that_is_kept_by_its_receiver_does_not_hold():
    slow = np.array([step in SLOW_STEPS for step in range(STEPS)])
    job, steps = ready_first("c", says_so=True)
    assert released_by(job, steps, NAMES.index("b"), slow, 30 * MS) == NAMES.index("c")


def test_one_whose_receiver_has_long_been_ready_holds():
    slow = np.array([step in SLOW_STEPS for step in range(STEPS)])
    job, steps = ready_first("c", says_so=False)
    assert released_by(job, steps, NAMES.index("b"), slow, 30 * MS) == -1
    ring_job, ring_steps = ring("c")
    assert released_by(ring_job, ring_steps, NAMES.index("c"), slow, 5 * MS) == -1
