import json
import re
from html import unescape
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llmprism.report.html.data import page_data
from llmprism.report.html.page import LOG_SCRIPT, SCRIPTS, render, script_safe_json
from support.gold import assert_gold
from support.read_reports import read_report
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report

STATIC = files("llmprism.report.html").joinpath("static")


def embedded(page):
    return re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL).group(1)


def test_gold_of_the_data():
    assert_gold("tiny_page_data.json", json.dumps(page_data(tiny_report()), indent=1, sort_keys=True) + "\n")


def test_the_data_survive_the_way_into_the_page():
    report = report_from_capture(EXAMPLES / "crash")
    assert json.loads(embedded(render(report).decode())) == json.loads(json.dumps(page_data(report)))


@settings(max_examples=40)
@given(st.text())
def test_no_name_can_leave_its_script_element(name):
    text = script_safe_json({"name": name})
    assert not set("<>&") & set(text)
    assert text.isascii()
    assert json.loads(text) == {"name": name}


def test_hostile_names_stand_nowhere_outside_the_data():
    page = render(tiny_report(HOSTILE)).decode()
    assert "onerror" not in page.replace(embedded(page), "")
    assert page.count("<script") == 2
    assert "\u202e" not in page


def test_the_page_refers_to_nothing_outside():
    page = render(report_from_capture(EXAMPLES / "slow_nic")).decode()
    addresses = set(re.findall(r"[a-z]+://[^\s\"'`<>)]+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert not re.search(r"(?:src|srcset)=", page)
    assert set(re.findall(r'href="([^"]*)"', page)) == {"data:,", "#main"}
    assert "@import" not in page
    assert "url(" not in page


def test_the_policy_allows_this_style_and_this_script_only():
    page = render(empty_report()).decode()
    policy = unescape(re.search(r'Content-Security-Policy" content="([^"]*)"', page).group(1))
    assert policy.startswith("default-src 'none'; style-src 'sha256-")
    assert "unsafe" not in policy


def test_equal_reports_give_equal_pages():
    first, second = (render(report_from_capture(EXAMPLES / "slow_nic")) for _ in range(2))
    assert first == second


def test_every_script_of_the_folder_is_in_the_page_and_none_writes_markup():
    names = {entry.name for entry in STATIC.iterdir() if entry.name.endswith(".js")}
    assert names == {*SCRIPTS, LOG_SCRIPT}
    for name in names:
        source = STATIC.joinpath(name).read_text(encoding="utf-8")
        for forbidden in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "fetch(",
            "</script",
        ):
            assert forbidden not in source, f"{forbidden} in {name}"


@pytest.mark.parametrize("cap", [0, 1000])
def test_the_cap_is_stated_in_the_data(cap):
    data = page_data(report_from_capture(EXAMPLES / "slow_nic"), max_events=cap)
    assert data["max_events"] == cap
    assert data["jobs"][0]["events"]["offsets"][-1] <= cap < data["jobs"][0]["event_count"]


def test_an_unknown_job_in_a_finding_does_not_break_the_page():
    assert page_data(tiny_report())["findings"][0]["job"] == 0
    assert page_data(empty_report())["servers"] == []


def test_logs_are_in_the_page_only_where_they_were_read():
    assert "log-line" not in render(tiny_report()).decode()
    assert "logs" not in page_data(tiny_report())
    page = render(read_report()).decode()
    assert "log-line" in page
    data = json.loads(embedded(page))
    assert data["findings"][0]["why"]["lines"] == [0]
    assert data["logs"]["lines"][0]["text"] == "CUDA out of memory"
    assert data["logs"]["jobs"][0]["ranks"][0][2] == 0


def test_hostile_lines_stand_nowhere_outside_the_data():
    page = render(read_report(HOSTILE, HOSTILE)).decode()
    assert "onerror" not in page.replace(embedded(page), "")
    assert page.count("<script") == 2
    assert "\u202e" not in page
