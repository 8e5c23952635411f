"""A stage that works longer for a while in all replicas, against one member of it and against single steps."""

import numpy as np

from llmprism.diagnose.rules import RULES
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
    assert RULES.trust.likely < finding.confidence == finding.evidence[0].value
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
