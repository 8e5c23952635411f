"""A stage that has the blame together, against one member of it and against the network below it."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose import blamed_stage as module
from llmprism.diagnose.blamed_stage import blamed_stage
from unit.diagnose.ring_builder import NAMES, USUAL, ring, ring_evidence

PIPELINES = ((0, 3), (1, 4), (2, 5))


@pytest.fixture
def staged(monkeypatch):
    """Three pipelines of two stages whose members (a, b, c and d, e, f) have these shares of the blame."""

    def made(shares, fall=1.0):
        evidence = ring_evidence(*ring(slow="c"))
        monkeypatch.setattr(module, "signs_of", lambda *_: None)
        monkeypatch.setattr(module, "shares_of", lambda *_: np.array(shares))
        rate = np.where(USUAL[None, :], evidence.rate, fall * evidence.rate)
        return replace(evidence, rate=rate, layout=replace(evidence.layout, pipelines=PIPELINES))

    return made


def test_a_stage_whose_members_share_nearly_all_of_the_blame_is_to_blame(staged):
    rows = blamed_stage(staged([0.01, 0.01, 0.01, 0.3, 0.32, 0.35]), ~USUAL, USUAL)
    assert [NAMES[row] for row in rows] == ["d", "e", "f"]


@pytest.mark.parametrize(
    "shares",
    [[0.01, 0.01, 0.01, 0.05, 0.82, 0.1], [0.2, 0.01, 0.01, 0.2, 0.3, 0.28]],
    ids=["one member of it", "others too"],
)
def test_it_is_not_where_the_blame_is_one_members_or_not_the_stages_alone(staged, shares):
    assert blamed_stage(staged(shares), ~USUAL, USUAL) is None


def test_it_is_not_where_the_network_became_slower(staged):
    assert blamed_stage(staged([0.01, 0.01, 0.01, 0.3, 0.32, 0.35], fall=0.2), ~USUAL, USUAL) is None


def test_without_pipelines_or_usual_steps_nobody_is(staged):
    made = staged([0.01, 0.01, 0.01, 0.3, 0.32, 0.35])
    assert blamed_stage(replace(made, layout=replace(made.layout, pipelines=())), ~USUAL, USUAL) is None
    assert blamed_stage(made, ~USUAL, np.zeros_like(USUAL)) is None
