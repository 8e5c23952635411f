"""A stage that computes longer against one GPU of it, against other stages and against the network below it."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import stage_signs as module
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.stage_signs import stage_terms, stages_of, suspected_stage
from unit.diagnose.evidence_builder import STEP, during, evidence_of, ring_pairs

SLOWER = during(6, 9, 1.0) > 0.0
PIPELINES = ((0, 2), (1, 3))


class Gaps:
    """What silences before messages to other stages, and all of them, grow by in slower steps."""

    def __init__(self, handed, silent):
        self._of = {True: np.array(handed) * STEP, None: np.array(silent) * STEP}

    def of_members(self, _members, _steps, *, piped):
        return np.where(SLOWER[None, :], self._of[piped][:, None], 0.0)


@pytest.fixture
def job(monkeypatch):
    """Four members (a, b and c, d) in two stages of two pipelines; three steps take twice as long."""
    evidence = evidence_of(ring_pairs("abcd"), duration=during(6, 9, 2.0 * STEP, STEP))
    evidence = replace(evidence, layout=replace(evidence.layout, pipelines=PIPELINES))

    def made(handed, silent, work=(1.0, 1.0, 1.0, 1.0), fall=1.0):
        monkeypatch.setattr(module, "own_gaps", lambda *_: Gaps(handed, silent))
        works = np.where(SLOWER[None, :], np.array(work)[:, None], 1.0) * STEP
        monkeypatch.setattr(module, "stage_work_ns", lambda *_: works)
        return replace(evidence, rate=np.where(SLOWER[None, :], fall * evidence.rate, evidence.rate))

    return made


def chance(evidence):
    found = suspected_stage(evidence, SLOWER, ~SLOWER)
    return found.number, found.chance


ALL = {"handed": (0.8, 0.7, 0.0, 0.0), "silent": (0.9, 0.8, 0.1, 0.1), "work": (3.0, 2.8, 1.0, 1.0)}


def test_a_stage_of_which_all_work_longer_and_are_silent_by_themselves_is_the_one(job):
    number, sure = chance(job(**ALL))
    assert number == 0
    assert sure > RULES.trust.likely
    assert [rows.tolist() for rows in stages_of(job(**ALL))] == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "other",
    [
        {"work": (3.0, 1.0, 1.0, 1.0)},
        {"handed": (0.8, 0.0, 0.0, 0.0)},
        {"silent": (0.9, 0.8, 0.9, 0.1)},
        {"fall": 0.2},
    ],
    ids=["one works longer", "one hands on late", "somebody else is silent", "the network became slower"],
)
def test_every_sign_counts(job, other):
    assert chance(job(**{**ALL, **other}))[1] < chance(job(**ALL))[1]


def test_where_nobody_computes_longer_no_stage_is_likely(job):
    assert chance(job(handed=(0.0,) * 4, silent=(0.0,) * 4))[1] < RULES.trust.worth_a_look


def test_of_a_job_without_pipelines_or_usual_steps_nothing_is_known(job):
    evidence = job(**ALL)
    assert stage_terms(replace(evidence, layout=replace(evidence.layout, pipelines=())), SLOWER, ~SLOWER) is None
    assert stage_terms(evidence, SLOWER, np.zeros_like(SLOWER)) is None
    assert suspected_stage(evidence, np.zeros_like(SLOWER), ~SLOWER) is None


def test_work_that_is_not_seen_says_nothing(job):
    assert np.isfinite(stage_terms(job(**{**ALL, "work": (np.nan,) * 4}), SLOWER, ~SLOWER)).all()
