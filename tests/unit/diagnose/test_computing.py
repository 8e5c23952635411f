"""Who may have computed longer while messages are slow."""

import numpy as np
import pytest

from llmprism.diagnose import computing as module
from llmprism.diagnose.blame import WaitedFor
from llmprism.diagnose.computing import NOBODY, Computing, computing
from llmprism.diagnose.stage_signs import SuspectedStage
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs

EVIDENCE = evidence_of(ring_pairs("abcd"), duration=during(6, 9, 2.0 * STEP, STEP))
SLOWER = during(6, 9, 1.0) > 0.0


def sick(steps):
    return np.broadcast_to(steps, (len(ring_pairs("abcd")), steps.size))


@pytest.fixture
def questions(monkeypatch):
    """The steps that the question is about; `c` has most of the blame, a stage is likelier than a GPU."""
    seen = []
    monkeypatch.setattr(
        module, "blame", lambda _e, slower, *_: seen.append(slower) or WaitedFor(2, 0.8, -1, 0.0, 1e9, 0.3)
    )
    monkeypatch.setattr(module, "suspected_stage", lambda *_: SuspectedStage(1, np.array([2, 3]), 0.6))
    return seen


def test_it_is_as_likely_as_the_likelier_of_a_gpu_and_a_stage(questions):
    found = computing(EVIDENCE, sick(SLOWER))
    assert (found.chance, found.share, found.members) == (0.6, 0.8, ("c",))
    assert questions[0].tolist() == SLOWER.tolist()


def test_sick_cells_in_steps_as_long_as_ever_have_nobody(questions):
    assert computing(EVIDENCE, sick(~SLOWER)) is NOBODY
    assert not questions


def test_the_share_speaks_against_a_group_that_the_member_belongs_to():
    found = Computing(0.6, 0.8, ("c", "d"))
    assert found.share_in(("a", "c")) == 0.8
    assert found.share_in(("a", "b")) == 0.0
