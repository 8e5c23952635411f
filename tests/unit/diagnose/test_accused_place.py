"""What is said against one accused place."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.accused_place import _PlaceEvidence, accuse
from llmprism.diagnose.place_signs import CellSign
from llmprism.diagnose.rules import RULES
from llmprism.diagnose.slow_cells import judge_transfers
from llmprism.diagnose.tally import SickPlace, Tally
from llmprism.model import WhereType
from unit.diagnose.evidence_builder import STEP, STEPS, during, evidence_of, ring_pairs


def test_signs_are_shares_of_what_passes_the_place_and_of_what_is_sick():
    suspect = SickPlace((WhereType.SWITCH, "t0"), 10, {})
    case = _PlaceEvidence(RULES, suspect.place, suspect, sick=10, known=20, others=30, slower=4, slower_elsewhere=12)
    assert (case.signs.of_cells, case.signs.of_sick, case.signs.of_slower) == (0.5, 0.25, 0.25)
    assert case.signs.alone
    assert not replace(case, elsewhere=1).signs.alone
    assert replace(case, suspect=replace(suspect, well=20)).signs.of_cells == pytest.approx(0.25)


def slowed(extra=()):
    """A NIC that is slow in six longer steps; `extra` are other steps that are as long."""
    rate = {pair: during(8, 14, 2.0, 10.0) for pair in ("ab", "bc")}
    long = (np.arange(STEPS) >= 8) & (np.arange(STEPS) < 14) | np.isin(np.arange(STEPS), extra)
    return judge_transfers(evidence_of(ring_pairs("abcdef"), rate=rate, duration=np.where(long, 1.5 * STEP, STEP)))


def test_an_accused_place_says_what_is_sick_and_what_is_healthy_elsewhere():
    cells = slowed()
    suspect = Tally([cells]).best()
    (place,) = accuse(suspect, [cells], {cells.job: cells}, {cells.job: cells}, RULES, CellSign.SLOW)
    assert place.finding.where.id == "b"
    assert (place.signs.fit, place.healthy, place.jobs) == (pytest.approx(1.0), 4 * 6, {cells.job})


def test_slower_steps_in_which_it_is_not_sick_speak_against_it():
    cells = slowed(extra=(2, 3, 17))
    (place,) = accuse(Tally([cells]).best(), [cells], {cells.job: cells}, {cells.job: cells}, RULES, CellSign.SLOW)
    assert place.signs.of_slower == pytest.approx(6 / 9)
