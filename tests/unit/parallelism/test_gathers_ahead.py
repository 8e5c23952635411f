"""A first stage that still gathers when it sends its first activation gathers for the step that this begins."""

import numpy as np
import pytest

from llmprism.model import StepClock
from llmprism.parallelism.gathers_ahead import before_gathers_ahead
from unit.builders import MS, Flow, transfer_table

STEPS, STEP, MB, PASS = 10, 400, 1_000_000, 20
"""Milliseconds: three activations, a forward pass apart; their gradients come back until 290 ms, and the first stage
reduces 80 MB from 310 ms on and gathers as much or half as much from 360 ms on. The second one reduces earlier, too."""


def job(gathers_ms, overlapped, exchanged=0):
    """Two stages of two replicas: a and b, c and d. The first activation leaves a forward pass after the gathers, or
    after the first quarter of them."""
    flows = []
    begin = 360
    awake = begin + (gathers_ms // 4 if overlapped else gathers_ms) + PASS
    for number in range(STEPS):
        at = number * STEP

        def send(pairs, start, length, size, at=at):
            flows.extend(Flow(*pair, (at + start) * MS, (at + start + length) * MS, size) for pair in pairs)

        for piece in range(gathers_ms):
            send(("ab", "ba"), begin - STEP + piece, 1, MB)
        for batch in range(3):
            send(("ac", "bd"), awake - STEP + batch * (PASS + 1), 1, MB)
            send(("ca", "db"), 200 + 44 * batch, 1, MB)
            if exchanged:
                send(("ab", "ba"), awake - STEP + batch * (PASS + 1) - 2, 1, exchanged * MB)
        for piece in range(40):
            send(("ab", "ba"), 310 + piece, 1, 2 * MB)
            send(("cd", "dc"), 310 + piece, 1, 2 * MB)
        for piece in range(30):
            send(("cd", "dc"), 100 + piece, 1, MB)
    table = transfer_table(flows)
    names = table.addresses
    pairs = [names[a] + names[b] for a, b in zip(table.pair_src, table.pair_dst, strict=True)]
    sign = np.array([(pair in ("ac", "bd")) - (pair in ("ca", "db")) for pair in pairs], dtype=np.int8)
    return table, sign, sign == 0, awake


def clock_at(place):
    ticks = np.arange(STEPS - 1, dtype=np.int64) * STEP * MS + place * MS
    return StepClock(ticks, np.ones(STEPS - 2, dtype=np.bool_), 1.0)


@pytest.mark.parametrize("gathers_ms", [40, 80])
def test_the_step_ends_before_what_is_gathered_under_the_forward_pass(gathers_ms):
    table, sign, gradient, _ = job(gathers_ms, overlapped=True)
    found = before_gathers_ahead(table, sign, gradient, clock_at(360 + gathers_ms))
    assert ((found.boundary_ns // MS) % STEP == 350).all()


@pytest.mark.parametrize("exchanged", [0, 1])
def test_what_is_gathered_before_the_forward_pass_belongs_to_the_step(exchanged):
    """The exchange of contexts in the forward pass is no gathering."""
    table, sign, gradient, _ = job(40, overlapped=False, exchanged=exchanged)
    clock = clock_at(400)
    assert before_gathers_ahead(table, sign, gradient, clock) is clock


def test_what_is_sent_in_the_midst_of_the_passes_is_no_gathering():
    """Where the direction is not known yet, the first stage may be the last one, which reduces while the other computes
    its backward pass."""
    table, sign, gradient, awake = job(40, overlapped=False)
    clock = clock_at(awake)
    assert before_gathers_ahead(table, -sign, gradient, clock) is clock
