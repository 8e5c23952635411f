from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import Job, StepClock
from llmprism.model.clock import ClockCandidate
from llmprism.model.flows import Int64
from llmprism.model.layout import Group, JobLayout, Layout, PairKind, PairRoles, Schedule, Sharding
from llmprism.parallelism.rival_clocks import BestClock
from llmprism.parallelism.slower_layout import slower_rivals, surer_layout
from unit.builders import transfer_table

NONE: Int64 = np.zeros(0, dtype=np.int64)


def clock(period: int, steps: int = 12) -> StepClock:
    return StepClock(np.arange(steps + 1, dtype=np.int64) * period, np.ones(steps, dtype=np.bool_), 1.0)


def job(*rhythms: StepClock) -> Job:
    """A job that was recognised by these rhythms."""
    return Job("job", (), (), 1.0, transfer_table([]), clock_candidates=tuple(ClockCandidate(c, 1.0) for c in rhythms))


def layout(period: int, batches: int | None, stages: int = 4, silent: float = 0.0) -> JobLayout:
    """Two pipelines; `silent` is the share of pairs that send nothing in most steps."""
    rows = np.arange(2 * stages).reshape(stages, 2)
    return JobLayout(
        layout=Layout(1, stages, 2, None, None, Sharding.NONE, batches, Schedule.UNKNOWN),
        groups=tuple(Group(PairKind.DP, tuple(row)) for row in rows.tolist()),
        pipelines=tuple(tuple(column) for column in rows.T.tolist()),
        pairs=PairRoles(NONE.astype(np.int32), NONE.astype(np.int32), NONE.astype(np.int8), NONE.astype(np.float64)),
        transfer_kind=NONE.astype(np.int8),
        clock=clock(period),
        evidence=(("constant", 1.0), ("silent_pairs", silent), ("open_micro_batches", float(batches is None))),
    )


@pytest.mark.parametrize(
    ("lead", "times", "tried"), [(0.05, 16, True), (-0.2, 2, True), (0.3, 16, False), (0.05, 0.25, False)]
)
def test_only_a_slower_clock_that_is_nearly_as_good_is_tried(lead, times, tried):
    best = BestClock.of(clock(100), clock(int(100 * times)), lead)
    found = slower_rivals(job(), best)
    assert found == ([best.rival] if tried else [])
    assert not found or found[0].lead == -lead
    assert not slower_rivals(job(), BestClock(clock(100), float("inf")))
    assert not slower_rivals(job(clock(6400)), replace(best, settled=True))


@pytest.mark.parametrize(
    ("rhythm", "tried"),
    [
        (clock(6400), True),
        (clock(6400, steps=4), False),
        (clock(100), False),
        (replace(clock(6400), dominance=0.5), False),
        (replace(clock(6400), boundary_ns=np.cumsum([0, *[6400, 7000, 5000] * 4])), False),
    ],
)
def test_a_slower_rhythm_that_stands_out_is_tried_whatever_its_lead(rhythm, tried):
    best = replace(BestClock.of(clock(100), clock(50), 2.0), step_bytes=1_000)
    found = slower_rivals(job(clock(100), rhythm, clock(64000)), best)
    assert [one.clock.period_ns for one in found] == [6400.0 if tried else 64000.0]
    assert found[0].step_bytes == 10 * found[0].clock.period_ns
    assert not slower_rivals(job(rhythm), BestClock(clock(100), float("inf")))


def test_the_layout_that_leaves_less_unexplained_stands():
    fast, slow = layout(100, 2, stages=2, silent=2.0), layout(1600, 16)
    assert surer_layout(fast, slow) is slow
    assert surer_layout(replace(fast, evidence=slow.evidence), slow) is not slow


@pytest.mark.parametrize("batches", [(8, 16), (None, None)])
def test_two_steps_together_tell_nothing_more(batches):
    fast, slow = layout(100, batches[0], silent=2.0), layout(200, batches[1])
    assert surer_layout(fast, slow) is fast


def test_a_number_of_micro_batches_that_is_open_does_not_count():
    fast, slow = layout(100, None, stages=2), layout(1600, 16)
    assert surer_layout(fast, slow) is fast


def test_a_slower_clock_that_is_less_sure_as_a_whole_does_not_stand():
    """Micro-batches do not count where the clocks are compared, but a number that no schedule explains makes all else
    doubtful."""
    fast, slow = layout(100, 2, stages=2, silent=2.0), layout(1600, 16)
    assert surer_layout(replace(fast, confidence=0.6), slow := replace(slow, confidence=0.9)) is slow
    assert surer_layout(replace(fast, confidence=0.95), slow) is not slow
