"""The fit of which stage computes longer."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.model import FindingKind, Where, WhereType
from llmprism.score import Truth
from llmprism.score.document import IssueFact
from stage_fit import NAMES, Stretch, lines_of, stretches_of
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs

EVIDENCE = evidence_of(ring_pairs("abcd"), duration=during(6, 12, 2.0 * STEP, STEP))
STAGED = replace(EVIDENCE, layout=replace(EVIDENCE.layout, pipelines=((0, 2), (1, 3))))


def truth(names: tuple[str, ...]) -> Truth:
    fault = IssueFact(FindingKind.IMBALANCE, "job", Where(WhereType.STAGE, names), 0, None)
    return Truth(jobs=(), faults=(fault,))


@pytest.mark.parametrize(("names", "right"), [(("c", "d"), [False, True, False]), (("b", "d"), [False, False, True])])
def test_right_is_the_stage_of_the_truth_else_none(names, right) -> None:
    (stretch,) = stretches_of("case", [STAGED], [truth(names)])
    assert stretch.right.tolist() == right
    assert stretch.signs.shape == (3, len(NAMES))
    assert not stretch.signs[-1].any()


def test_a_sign_of_the_slow_stages_gets_weight() -> None:
    random = np.random.default_rng(1)
    stretches = []
    for number in range(120):
        signs = np.column_stack([np.ones(2), random.normal(size=(2, len(NAMES) - 1))])
        slow = number % 3
        signs[slow % 2, 1] += 3.0 if slow < 2 else 0.0
        right = np.arange(3) == (slow if slow < 2 else 2)
        stretches.append(Stretch(str(number), np.vstack([signs, np.zeros(len(NAMES))]), right))
    weight = {name: float(value) for name, value in (line.split(": ") for line in lines_of(stretches)[1:6])}
    assert weight["work"] > 0.5 > abs(weight["fallen"])
