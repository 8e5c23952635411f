"""How sure one accused place is, and how well it fits."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.accused_place import CellSign, _fits, _PlaceEvidence, accuse
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.tally import SickPlace, Tally
from llmprism.model import WhereType
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs


@pytest.mark.parametrize(
    ("sick", "elsewhere", "sure"), [(95, 300, 0.97), (52, 300, 0.72), (20, 300, 0.6), (95, 0, 0.8), (52, 0, 0.72)]
)
def test_a_place_whose_cells_are_half_healthy_or_that_everything_passes_is_less_sure(sick, elsewhere, sure):
    suspect = SickPlace((WhereType.SWITCH, "t0"), sick, {})
    case = _PlaceEvidence(RULES, suspect.place, suspect, sick=sick, known=100, elsewhere=elsewhere)
    assert _fits(case) == pytest.approx(sure, abs=0.005)


def test_the_fit_is_one_where_the_sick_cells_are_those_of_the_place_and_less_with_others():
    suspect = SickPlace((WhereType.SWITCH, "t0"), 10, {})
    alone = _PlaceEvidence(RULES, suspect.place, suspect, sick=10, known=10)
    assert alone.fit == 1.0
    assert _PlaceEvidence(RULES, suspect.place, suspect, sick=10, known=20).fit == pytest.approx(2 / 3)
    assert _PlaceEvidence(RULES, suspect.place, suspect, sick=10, known=10, others=10).fit == pytest.approx(2 / 3)
    well = replace(suspect, well=10)
    assert _PlaceEvidence(RULES, suspect.place, well, sick=10, known=10).fit == pytest.approx(2 / 3)
    assert _fits(_PlaceEvidence(RULES, suspect.place, well, sick=7, known=7, elsewhere=9)) < 0.6 + 0.01


def test_an_accused_place_says_what_is_sick_and_what_is_healthy_elsewhere():
    rate = {pair: during(8, 14, 2.0, 10.0) for pair in ("ab", "bc")}
    duration = np.where((np.arange(STEPS) >= 8) & (np.arange(STEPS) < 14), 1.5 * STEP, STEP)
    cells = judge_transfers(evidence_of(ring_pairs("abcdef"), rate=rate, duration=duration))
    suspect = Tally([cells]).best()
    (place,) = accuse(suspect, [cells], {cells.job: cells}, RULES, CellSign.SLOW)
    assert place.finding.where.id == "b"
    assert (place.fit, place.healthy) == (1.0, 4 * 6)
