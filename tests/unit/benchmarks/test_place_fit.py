"""The fit of how likely suspected places are."""

import numpy as np
import pytest

from llmprism.diagnose.place_signs import CellSign, PlaceSigns, terms_of
from place_fit import NAMES, Judged, lines_of, weights_of


def test_every_term_has_a_name() -> None:
    assert terms_of(PlaceSigns(CellSign.SLOW, 0.5, 0.5, 0.5, 0.5, False, 0.5)).size == len(NAMES)


def test_the_weights_are_found_again() -> None:
    random = np.random.default_rng(1)
    terms = np.column_stack([np.ones(4000), random.normal(size=(4000, 2))])
    against = 1.0 + random.uniform(size=4000)
    chance = 1.0 / (1.0 + against * np.exp(-terms @ [0.5, 1.5, 0.0]))
    right = random.uniform(size=4000) < chance
    assert weights_of(terms, against, right, np.ones(4000)) == pytest.approx([0.5, 1.5, 0.0], abs=0.2)


def test_many_wrong_places_of_one_case_weigh_no_more_than_one() -> None:
    terms = np.zeros(len(NAMES))
    terms[0] = 1.0
    places = [Judged("a", terms, 1.0, False)] * 50 + [Judged(name, terms, 1.0, True) for name in "bcdefghi"]
    lines = lines_of(places)
    assert "58 suspected places, 8 right" in lines[0]
    assert float(lines[1].removeprefix("fit_constant: ")) == pytest.approx(np.log(8), abs=0.01)
