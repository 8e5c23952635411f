"""A stage that works longer for a while in all replicas, against one member of it and against single steps."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import silent_stage, slow_stage
from llmprism.diagnose.slow_stage import find_slow_stages
from llmprism.model import FindingKind, WhereType
from unit.diagnose.test_imbalance import evidence_of

STEPS = 30


def found(longer, excused=()):
    """`longer` says by what factor a stage of a replica computes in a step."""
    evidence = evidence_of(steps=STEPS, compute_factor=longer)
    left_aside = np.zeros(evidence.steps, dtype=np.bool_)
    left_aside[list(excused)] = True
    return evidence, find_slow_stages(evidence, left_aside)


def stage_two(first, last, factor=2.0):
    return lambda stage, _replica, step: factor if stage == 2 and first <= step < last else 1.0


def test_the_stage_is_named_with_its_time():
    evidence, (finding,) = found(stage_two(10, 20))
    assert (finding.kind, finding.where.type) == (FindingKind.IMBALANCE, WhereType.STAGE)
    assert finding.where.id == ("a04r0", "a05r0")
    steps = evidence.timeline.steps
    assert (finding.start_ns, finding.end_ns) == (steps.start_ns[9], steps.end_ns[18]), "steps count from the second"
    assert finding.evidence[0].value == pytest.approx(2.0, rel=0.15)
    assert finding.lost_gpu_seconds > 0.0


def test_one_that_lasts_to_the_end_has_no_end():
    _, (finding,) = found(stage_two(20, STEPS))
    assert finding.end_ns is None


def test_one_member_of_a_stage_is_no_slow_stage():
    one = lambda stage, replica, step: 2.0 if (stage, replica) == (2, 0) and 10 <= step < 20 else 1.0  # noqa: E731
    assert found(one)[1] == []


def test_all_stages_together_are_no_slow_stage():
    assert found(lambda _stage, _replica, step: 2.0 if 10 <= step < 20 else 1.0)[1] == []


def test_a_single_long_step_and_steps_that_slow_transfers_explain_are_no_slow_stage():
    assert found(stage_two(10, 11, 8.0))[1] == []
    assert found(stage_two(10, 20), excused=range(8, 20))[1] == []


class Gaps:
    """Own silences that grow by so much, and become so many times as many."""

    def __init__(self, grown, more=1.0):
        self._grown, self._more = grown, more

    def grown(self, *_):
        return self._grown

    def of_members(self, members, steps, *, piped):
        return np.zeros((members, steps))

    def times_as_many(self, *_):
        return self._more


def with_silences(monkeypatch, evidence, of, others, more=1.0):
    """`of` are what the silences of the third stage's two members grow by, in usual steps, `others` all others'."""
    names = [evidence.job.transfers.addresses[member] for member in evidence.job.members]
    grown = np.full(len(names), others * evidence.normal_ns)
    for name, share in zip(("a04r0", "a05r0"), of, strict=True):
        grown[names.index(name)] = share * evidence.normal_ns
    for module in (slow_stage, silent_stage):
        monkeypatch.setattr(module, "own_gaps", lambda *_: Gaps(grown, more))


@pytest.mark.parametrize(
    ("of", "others", "more", "names"),
    [
        ((0.9, 0.8), 0.1, 1.0, ("a04r0", "a05r0")),
        ((0.9, 0.8), 0.7, 1.0, None),
        ((0.9, 0.1), 0.0, 1.0, None),
        ((0.9, 0.8), 0.1, 4.0, None),
    ],
    ids=["all of a stage", "others too", "one of them", "many more silences"],
)
def test_where_first_passes_tell_nothing_the_stage_whose_silences_alone_grow_is_named(
    monkeypatch, of, others, more, names
):
    evidence = evidence_of(steps=STEPS, compute_factor=lambda *_: 1.0)
    duration = evidence.duration_ns.copy()
    duration[10:16] *= 2.0
    evidence = replace(evidence, duration_ns=duration)
    monkeypatch.setattr(slow_stage, "stage_work_ns", lambda *_: np.full((len(evidence.job.members), STEPS - 1), np.nan))
    with_silences(monkeypatch, evidence, of, others, more)
    found = find_slow_stages(evidence, np.zeros(evidence.steps, dtype=np.bool_))
    assert [finding.where.id for finding in found] == ([] if names is None else [names])


def test_a_stage_that_works_longer_while_somebody_else_is_silent_waits_for_it(monkeypatch):
    evidence = evidence_of(steps=STEPS, compute_factor=stage_two(10, 20))
    with_silences(monkeypatch, evidence, (0.2, 0.2), 0.0)
    assert len(find_slow_stages(evidence, np.zeros(evidence.steps, dtype=np.bool_))) == 1
    with_silences(monkeypatch, evidence, (0.2, 0.2), 0.9)
    assert find_slow_stages(evidence, np.zeros(evidence.steps, dtype=np.bool_)) == []


@pytest.mark.parametrize(("times", "findings"), [(2, 2), (5, 0)])
def test_a_stage_that_is_slow_again_and_again_is_the_jobs_own_rhythm(monkeypatch, times, findings):
    monkeypatch.setattr(slow_stage, "long_enough_ns", lambda *_: 0.0)
    often = lambda stage, _replica, step: 2.0 if stage == 2 and step % 6 >= 3 and step < 6 * times else 1.0  # noqa: E731
    assert len(found(often)[1]) == findings
