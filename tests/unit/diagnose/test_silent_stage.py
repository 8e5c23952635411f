"""A slow stage against one slow GPU of it, by the silences before messages to other stages."""

import numpy as np
import pytest

from llmprism.diagnose import silent_stage as module
from llmprism.diagnose.silent_stage import one_of_it, silent_stage
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs

SLOWER = during(6, 9, 1.0) > 0.0
STAGES = np.array([[0, 1], [2, 3]])


class Gaps:
    """What silences before messages to other stages, and all of them, grow by in slower steps."""

    def __init__(self, handed, grown):
        self._handed, self._grown = np.array(handed), np.array(grown)

    def of_members(self, members, steps, *, piped):
        assert piped
        assert steps == STEPS
        return np.where(SLOWER[None, :], self._handed[:, None], 0.0)

    def grown(self, *_):
        return self._grown


@pytest.fixture
def job(monkeypatch):
    """Four members in two stages of two replicas; three steps take twice as long."""
    evidence = evidence_of(ring_pairs("abcd"), duration=during(6, 9, 2.0 * STEP, STEP))
    monkeypatch.setattr(module, "blamed_stage", lambda *_: None)

    def with_silences(handed, grown):
        monkeypatch.setattr(module, "own_gaps", lambda *_: Gaps(*(np.array(one) * STEP for one in (handed, grown))))
        return evidence

    return with_silences


@pytest.mark.parametrize(
    ("handed", "grown", "rows"),
    [
        ((0.8, 0.7, 0.0, 0.0), (0.9, 0.7, 0.0, 0.5), [0, 1]),
        ((0.8, 0.7, 0.0, 0.0), (0.9, 0.7, 0.0, 0.8), None),
        ((0.8, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.1), None),
        ((0.0, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.1), [0, 1]),
        ((0.1, 0.0, 0.0, 0.0), (0.9, 0.5, 0.0, 0.1), [0, 1]),
        ((0.0, 0.0, 0.0, 0.0), (0.0, 0.0, 0.0, 0.0), None),
    ],
    ids=[
        "one waits for the stage",
        "somebody else is silent for longer",
        "one GPU of it",
        "no messages",
        "too little to tell",
        "nobody is silent",
    ],
)
def test_silences_before_messages_to_other_stages_decide_where_there_are_any(job, handed, grown, rows):
    found = silent_stage(job(handed, grown), STAGES, SLOWER, ~SLOWER)
    assert (None if found is None else found.tolist()) == rows


def test_one_of_a_stage_is_not_all_of_it(job):
    assert one_of_it(job((0.8, 0.1, 0.0, 0.0), (0.0,) * 4), np.array([0, 1]), SLOWER, ~SLOWER)
    assert not one_of_it(job((0.8, 0.6, 0.0, 0.0), (0.0,) * 4), np.array([0, 1]), SLOWER, ~SLOWER)
