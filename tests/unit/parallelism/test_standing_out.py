"""A rhythm that stands out is the step, unless the ticks of the faster clock may be steps themselves."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.model.clock import ClockCandidate
from llmprism.parallelism.clock_score import Pauses, pauses_of
from llmprism.parallelism.standing_out import may_be_steps, standing_out
from unit.builders import MS, Flow, transfer_table


def clock(times) -> StepClock:
    return StepClock(np.array(times, dtype=np.int64) * MS, np.ones(len(times) - 1, dtype=np.bool_), 1.0)


def sent(steps: int = 8, parts: int = 6, once: int = 0) -> Pauses:
    """Two pairs send in each part of a step, 100 ms long, the second of them `once` times as much more in the last."""
    flows = []
    for k in range(steps * parts):
        more = once if k % parts == parts - 1 else 0
        flows += [
            Flow("a", "b", 100 * k * MS, (100 * k + 50) * MS, 1_000_000),
            Flow("b", "a", 100 * k * MS, (100 * k + 50) * MS, 1_000_000 * (1 + more)),
        ]
    return pauses_of(transfer_table(flows), np.arange(2))


PARTS, STEPS = clock([100 * k - 1 for k in range(48)]), clock([600 * k - 1 for k in range(8)])


def test_equal_ticks_with_a_silence_of_their_own_may_be_steps_between_checkpoints():
    assert may_be_steps(sent(), PARTS, STEPS)


@pytest.mark.parametrize(
    ("pauses", "fast"),
    [
        (sent(), replace(PARTS, dominance=0.3)),  # no silence of their own
        (sent(), clock([170 * k - 1 for k in range(28)])),  # no whole number of them
        (sent(once=6), PARTS),  # a pair sends most of its bytes in the last part
    ],
)
def test_other_ticks_are_parts_of_steps(pauses, fast):
    assert not may_be_steps(pauses, fast, STEPS)


def test_the_fastest_slower_rhythm_stands_out_whose_steps_are_no_less_even_than_the_ticks():
    uneven = clock(np.cumsum([0, *[600, 700, 500] * 4]).tolist())
    rhythms = (clock([1200 * k for k in range(7)]), uneven, PARTS)
    job = Job("job", (), (), 1.0, transfer_table([]), clock_candidates=tuple(ClockCandidate(c, 1.0) for c in rhythms))
    assert standing_out(job, PARTS) is rhythms[0]
    assert standing_out(job, clock(np.cumsum([0, *[60, 80, 40] * 20]).tolist())) is PARTS
    assert standing_out(job, clock(np.cumsum([0, *[260, 360, 150] * 20]).tolist())) is uneven
    assert standing_out(job, rhythms[0]) is None
