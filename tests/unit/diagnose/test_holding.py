"""Who holds the others up: a ring that passes four pieces round in every step, one member slow for a while."""

import numpy as np

from llmprism.diagnose.holding import held_ns
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
