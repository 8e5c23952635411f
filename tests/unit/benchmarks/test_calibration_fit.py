"""The fit finds what evidence is worth, and the numbers that it writes are read back."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from calibration_fit import (
    FAULTS,
    SEEDS,
    SIGNS,
    TARGET,
    WRONG_COUNTS,
    Said,
    confidence,
    cross_fitted,
    fit,
    fitted_elsewhere,
    section,
    table,
    written,
)


def layouts(count: int, weights: dict[str, float], seed: int = 1) -> list[Said]:
    """Layouts whose terms are random and which are right as often as these weights say."""
    random = np.random.default_rng(seed)
    found = []
    for number in range(count):
        evidence = dict.fromkeys(SIGNS, 0.0) | {"constant": 1.0, "width": 6.7}
        evidence |= {name: float(random.normal()) for name in ("links", "steps", "contexts")}
        right = bool(random.uniform() < confidence(weights, evidence))
        found.append(Said("dev", str(number), evidence, 0.99, right))
    return found


def modest(weights: dict[str, float]) -> dict[str, float]:
    """What is fitted where wrong layouts count more: the same with lower odds."""
    return weights | {"constant": weights["constant"] - float(np.log(WRONG_COUNTS))}


def test_the_fit_finds_the_weights_that_made_the_layouts() -> None:
    made = {"constant": 0.5, "links": 1.0, "steps": 0.7, "contexts": -1.5}
    found = fit(layouts(3000, made))
    assert {name: found[name] for name in made} == pytest.approx(modest(made), abs=0.2)


def test_a_weight_against_its_meaning_is_left_out() -> None:
    found = fit(layouts(3000, {"constant": 0.5, "links": 1.0, "steps": -0.7, "contexts": -1.5}))
    assert found["steps"] == 0.0
    assert found["links"] > 0.5


def test_layouts_without_evidence_say_nothing() -> None:
    made = layouts(300, {"constant": 0.5, "links": 1.0})
    assert fit([*made, Said("dev", "dark", {}, 0.0, right=False)]) == fit(made)


def test_weights_that_are_kept_stay_and_the_others_are_fitted_to_what_they_leave() -> None:
    made = {"constant": 0.5, "links": 1.0, "steps": 0.7}
    found = fit(layouts(3000, made), kept={"links": 1.0, "constant": 2.0})
    assert found["links"] == 1.0
    assert {name: found[name] for name in made} == pytest.approx(modest(made), abs=0.2)


def test_the_table_compares_what_was_stated_with_what_is_fitted() -> None:
    made = layouts(2000, {"constant": 0.5, "links": 1.0})
    row = next(line for line in table(made, cross_fitted(made, fit(made))) if line.startswith("| dev "))
    stated, fitted = (float(cell) for cell in (row.split("|")[4], row.split("|")[6]))
    assert stated > 0.3
    assert fitted < 0.05


def test_a_layout_is_judged_with_weights_of_others_and_unseen_ones_with_those_of_all() -> None:
    made = layouts(200, {"constant": 0.5, "links": 1.0})
    unseen = [Said("test", "9", made[0].evidence, 0.9, right=True)]
    weights = fit(made)
    fitted = cross_fitted([*made, *unseen], weights)
    assert fitted[-1] == confidence(weights, made[0].evidence)
    turned = [Said(made[0].part, made[0].case, made[0].evidence, 0.9, right=not made[0].right), *made[1:]]
    assert cross_fitted(turned, weights)[0] == fitted[0], "its own truth must not matter"
    assert fit(turned) != weights


def test_a_layout_is_also_judged_with_weights_of_other_sources_alone() -> None:
    sure = layouts(400, {"constant": 3.0, "links": 1.0})
    doubtful = [replace(one, part="gloo") for one in layouts(400, {"constant": -3.0, "links": 1.0}, seed=2)]
    found = fitted_elsewhere([*sure, *doubtful])
    assert found[0] == confidence(fit(doubtful), sure[0].evidence)
    assert found[-1] == confidence(fit(sure), doubtful[-1].evidence)


def test_planted_faults_are_no_scenarios_that_the_inference_was_made_with() -> None:
    more = layouts(1000, {"constant": 3.0, "links": 1.0}, seed=2)
    made = layouts(2000, {"constant": 0.5, "links": 1.0})
    faults = [replace(one, part=FAULTS, case=str(SEEDS[0])) for one in more]
    assert fit([*made, *faults])["constant"] > fit(made)["constant"] + 0.3
    rows = table([*made, *faults], [0.5] * 3000)
    assert any(row.startswith("| all captures and sources | 2000 |") for row in rows)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    weights = dict.fromkeys(SIGNS, 0.25)
    place = tmp_path / "written_confidence.py"
    place.write_text(written(TARGET.read_text(encoding="utf-8"), weights, "a test"), encoding="utf-8")
    values = runpy.run_path(str(place))
    assert dict(values["FITTED"].weights) == weights
    assert values["FITTED"].fitted_to == "a test"


def test_the_section_has_the_plot_and_a_row_per_part(tmp_path: Path) -> None:
    made = [*layouts(300, {"constant": 0.5, "links": 1.0}), Said("gloo", "1", {"constant": 1.0}, 0.5, right=True)]
    lines = section(made, [[0.5] * len(made)] * 2, "a test", tmp_path / "plot.svg")
    assert (tmp_path / "plot.svg").read_text(encoding="utf-8").startswith("<svg")
    assert any(line.startswith("| gloo | 1 |") for line in lines)
    assert any("images/plot.svg" in line for line in lines)
