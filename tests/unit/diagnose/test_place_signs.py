"""How likely a suspected place is the sick one."""

from dataclasses import replace

import numpy as np
import pytest

from llmprism.diagnose.place_signs import CellSign, PlaceSigns, chance_of, terms_of
from llmprism.diagnose.rules import RULES

CLEAR = PlaceSigns(CellSign.SLOW, lead=0.97, of_cells=1.0, of_sick=1.0, of_slower=1.0, alone=False, clock=0.9)


def test_a_place_that_explains_everything_alone_is_as_sure_as_anything():
    assert chance_of(CLEAR) == RULES.trust.most_sure


@pytest.mark.parametrize(
    "worse",
    [
        {"lead": 0.5},
        {"of_cells": 0.4},
        {"of_sick": 0.4},
        {"of_slower": 0.2},
        {"clock": 0.3},
        {"alone": True},
        {"sign": CellSign.QUEUED},
        {"sign": CellSign.BROKEN},
        {"sign": CellSign.LAGGING},
        {"one_member": 0.8},
        {"computing": 0.9},
    ],
)
def test_every_sign_counts(worse):
    usual = replace(CLEAR, lead=0.8, of_cells=0.8, of_sick=0.8)
    assert chance_of(replace(usual, **worse)) < chance_of(usual)


def test_one_of_many_places_that_some_sick_cells_pass_is_none():
    assert chance_of(replace(CLEAR, of_sick=0.1, of_cells=0.6, lead=0.7)) < RULES.trust.worth_a_look


def test_signs_are_bounded():
    assert np.isfinite(terms_of(replace(CLEAR, lead=1.0, of_cells=0.0, of_sick=0.0, of_slower=0.0, clock=0.0))).all()


def test_the_fit_is_one_where_the_sick_cells_are_those_of_the_place_and_less_with_others():
    assert CLEAR.fit == pytest.approx(1.0)
    assert replace(CLEAR, of_sick=0.5).fit == replace(CLEAR, of_cells=0.5).fit == pytest.approx(2 / 3)
