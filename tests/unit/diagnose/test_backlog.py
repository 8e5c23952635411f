"""Hops that lag behind send without their usual pauses."""

import numpy as np
import pytest

from llmprism.diagnose import slow_cells
from llmprism.diagnose.backlog import changed_cells
from llmprism.diagnose.computing import Computing
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.model import FindingKind
from support.stages import find_slow_transfers
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs

LONGER = during(8, 14, 1.0).astype(np.bool_)
LEAF = dict(zip("abcdefgh", ("l0", "l0", "l1", "l1", "l2", "l2", "l3", "l3"), strict=True))
PATHS = {
    one + other: (LEAF[one],) if LEAF[one] == LEAF[other] else (LEAF[one], "s0" if one in "bf" else "s1", LEAF[other])
    for one, other in ring_pairs("abcdefgh")
}


def lagging(pairs, times=8.0, length=1.5):
    rate = {pair: during(8, 14, 10.0 * times, 10.0) for pair in pairs}
    return evidence_of(
        ring_pairs("abcdefgh"), groups=("abcdefgh",), rate=rate, paths=PATHS,
        duration=during(8, 14, length * STEP, STEP),
    )  # fmt: skip


def test_cells_whose_rate_rose_in_longer_steps_are_sick_and_all_others_healthy():
    sick, known, share = changed_cells(lagging(["bc"]))
    assert sick.sum(axis=1).max() == LONGER.sum()
    assert (sick.any(axis=1).sum(), known.all()) == (1, True)
    assert share[sick] == pytest.approx(np.full(6, 8.0))


def test_nothing_is_judged_where_steps_are_as_long_as_ever_or_no_rate_rose():
    assert changed_cells(lagging(["bc"], length=1.0)) is None
    assert changed_cells(lagging(["bc"], times=0.1)) is None


def test_a_rate_that_varies_anyway_has_not_changed():
    job = lagging(["bc"], times=2.0)
    job.rate[:] *= np.where(np.arange(STEPS) % 2, 1.5, 1.0 / 1.5)
    assert changed_cells(job) is None


def test_the_switch_that_all_lagging_hops_pass_and_no_others_is_named():
    (finding,) = find_slow_transfers([lagging(["bc", "fg"])])
    assert (finding.kind, finding.where.id) == (FindingKind.SLOW_SWITCH, "s0")
    assert "lags behind" in finding.summary


def test_the_hops_of_one_card_tell_nothing():
    assert find_slow_transfers([lagging(["ab", "bc"])]) == []


def test_what_a_gpu_explains_better_is_no_place_that_lags_behind(monkeypatch):
    (alone,) = find_slow_transfers([lagging(["bc", "fg"])])
    monkeypatch.setattr(slow_cells, "computing", lambda *_: Computing(0.9, 0.95, ("c",)))
    assert all(both.confidence < alone.confidence for both in find_slow_transfers([lagging(["bc", "fg"])]))


@pytest.mark.parametrize(("kind", "healthy"), [(2, False), (1, True)], ids=["another kind", "the kind of the slow hop"])
def test_a_rate_that_rose_while_another_kinds_fell_shows_no_healthy_place(kind, healthy):
    job = lagging(["bc"])
    pairs = ring_pairs("abcdefgh")
    slow, rose = pairs.index("fg"), pairs.index("bc")
    job.rate[slow, LONGER] = 1.0
    job.pair_kind[:] = 1
    job.pair_kind[[rose, (rose + 1) % len(pairs)]] = kind
    cells = judge_transfers(job)
    assert cells.sick[slow, LONGER].all()
    assert cells.known[rose, LONGER].all() == healthy
    assert cells.known[rose, ~LONGER].all()
