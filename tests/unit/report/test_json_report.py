import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmprism.model import Steps
from llmprism.report import json_report
from support.gold import assert_gold
from support.reports import EXAMPLES, HOSTILE, empty_report, report_from_capture, tiny_report


def test_gold():
    assert_gold("tiny_report.json", json_report.render(tiny_report()).decode())


@pytest.mark.parametrize("name", ["slow_nic", "crash", "pp4dp2tp2"])
def test_the_document_has_the_fields_of_the_contract(name):
    document = json.loads(json_report.render(report_from_capture(EXAMPLES / name)))
    assert document["schema"] == "llmprism.report/1"
    assert {"window", "input", "jobs", "findings"} <= document.keys()
    job = document["jobs"][0]
    fields = {"id", "members", "servers", "state", "confidence", "layout", "groups", "pipelines", "pairs", "steps"}
    assert fields <= job.keys()
    degrees = {"tp", "pp", "dp", "ep", "cp", "sharding", "micro_batches", "schedule"}
    assert degrees <= job["layout"].keys()
    assert {"src", "dst", "kind", "confidence"} == job["pairs"][0].keys()
    assert [step["index"] for step in job["steps"]] == list(range(len(job["steps"])))
    for finding in document["findings"]:
        assert {
            "kind",
            "job",
            "where",
            "start_ns",
            "end_ns",
            "severity",
            "confidence",
            "lost_gpu_seconds",
        } <= finding.keys()
        assert {"type", "id"} == finding["where"].keys()


def test_times_stay_exact_integers():
    report = report_from_capture(EXAMPLES / "slow_nic")
    document = json.loads(json_report.render(report))
    assert document["window"]["start_ns"] == report.window.start_ns
    ends = [step["end_ns"] for step in document["jobs"][0]["steps"]]
    assert ends == report.jobs[0].timeline.steps.end_ns.tolist()


def test_keys_are_sorted_at_every_level():
    def check(value):
        if isinstance(value, dict):
            assert list(value) == sorted(value)
        for item in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
            check(item)

    check(json.loads(json_report.render(report_from_capture(EXAMPLES / "crash"))))


def test_equal_reports_give_equal_bytes():
    first, second = (json_report.render(report_from_capture(EXAMPLES / "slow_nic")) for _ in range(2))
    assert first == second


@given(st.text())
def test_any_name_survives(name):
    document = json.loads(json_report.render(tiny_report(name)))
    assert document["jobs"][0]["id"] == name
    assert document["jobs"][0]["members"][0] == name


def test_the_text_can_steer_no_terminal():
    rendered = json_report.render(tiny_report(HOSTILE))
    assert rendered.isascii()
    assert b"\x1b" not in rendered


def test_values_that_are_no_numbers_are_null():
    document = json.loads(json_report.render(tiny_report()))
    assert document["findings"][0]["evidence"][0]["value"] is None
    assert document["jobs"][0]["pairs"][0]["confidence"] is None


def test_an_empty_report_is_a_document():
    assert json.loads(json_report.render(empty_report()))["jobs"] == []


def test_rows_are_one_on_a_line_whatever_their_strings_hold():
    """Names may hold what stands between two rows."""
    simple, hostile = [{"a": 1}, {"a": "x"}], [{"a": "}, {"}, {"a": [{"b": 1}, {"b": 2}]}]
    for rows in (simple, hostile, [*simple, *hostile], ["}, {", "x"], [{"a": 1}]):
        lines = json_report._items(rows, ",\n").split(",\n")
        assert [json.loads(line) for line in lines] == rows


def test_a_step_is_over_when_its_last_member_is_done():
    steps = Steps(np.array([0, 100]), np.array([90, 190]), np.zeros(2, dtype=np.bool_), np.array([105, 195]))
    found = [(step["start_ns"], step["end_ns"]) for step in json_report._steps(steps)]
    assert found == [(0, 105), (105, 195)]
