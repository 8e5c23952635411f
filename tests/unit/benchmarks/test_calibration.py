"""Tables and plot of confidence against truth."""

from __future__ import annotations

from xml.etree import ElementTree

from calibration import HEADING, Measured, calibration_table, source_scores, with_parts_of, with_section
from calibration_plot import reliability_svg
from claims import Claim
from robust_case import Outcome

CLAIMS = [Claim("pair", 0.95, True)] * 3 + [Claim("pair", 0.95, False)] + [Claim("layout", 0.35, False)]


def test_the_table_has_a_row_per_kind_and_one_for_all() -> None:
    rows = [line.split("|")[1].strip() for line in calibration_table(CLAIMS)[2:]]
    assert rows == ["layout", "pair", "all"]
    assert "| pair | 4 | 75.0 % | 0.200 | 25.0 % |" in calibration_table(CLAIMS)


def test_the_plot_is_one_svg_with_a_panel_per_kind_and_no_outside_resource() -> None:
    text = reliability_svg(CLAIMS)
    root = ElementTree.fromstring(text)
    circles = [item for item in root.iter() if item.tag.endswith("circle")]
    assert len(circles) == 2
    assert "href" not in text
    assert "pair: error 0.200" in text


def test_scores_of_a_source_are_means_and_its_false_alarms_a_sum() -> None:
    cases = [
        Measured("a", Outcome("1", {"ran": True, "pairs": True}, {"pairs": 1.0, "quiet": 2.0})),
        Measured("a", Outcome("2", {"ran": True, "pairs": False}, {"pairs": 0.5, "quiet": 1.0})),
        Measured("b", Outcome("3", {"ran": True}, {"pairs": None})),
    ]
    scores = source_scores(cases)
    assert scores["a"]["pairs"] == 0.75
    assert scores["a"]["quiet"] == 3.0
    assert scores["a"]["layout"] == 0.5
    assert "pairs" not in scores["b"]


def test_the_part_on_confidence_is_replaced_and_the_rest_of_the_page_stays() -> None:
    page = "# Accuracy\n\ntable\n"
    once = with_section(page, ["old"])
    assert once == f"# Accuracy\n\ntable\n\n{HEADING}\n\nold\n"
    assert with_section(once, ["new"]) == once.replace("old", "new")
    assert with_section(once + "\n## Later\n\nmore\n", ["new"]).endswith("new\n\n## Later\n\nmore\n")


def test_a_page_that_is_written_anew_keeps_what_others_have_written():
    before = "# Page\n\n## Table\n\nold\n\n## By another\n\nkept\n"
    page = "# Page\n\n## Table\n\nnew\n"
    assert with_parts_of(page, before) == page + "\n## By another\n\nkept\n"
    assert with_parts_of(page, page) == page
