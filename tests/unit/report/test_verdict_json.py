from __future__ import annotations

import json

from llmprism.model.finding import FindingKind
from llmprism.report.json_report import document, render
from support.read_reports import read_report
from support.reports import HOSTILE, tiny_report


def test_without_logs_the_document_has_none_of_it() -> None:
    values = document(tiny_report())
    assert "logs" not in values
    assert set(values["findings"][0]) & {"cause", "source", "suspects", "lines"} == set()


def test_findings_say_why_who_and_by_which_lines() -> None:
    values = json.loads(render(read_report()))
    finding = values["findings"][0]
    assert finding["cause"] == {
        "class": "user.resource",
        "signature": "gpu.oom",
        "confidence": 0.9,
        "summary": "out of GPU memory",
        "advice": "Lower the batch.",
    }
    assert (finding["source"], finding["owner"], finding["rank"], finding["iteration"]) == ("both", "job owner", 5, 812)
    assert finding["lines"][0]["line"] == 17
    assert finding["contradictions"][0]["believed"] == "logs"
    assert [suspect["score"] for suspect in finding["suspects"]] == [0.9, 0.2]
    assert finding["flows"]["kind"] in {kind.value for kind in FindingKind}


def test_the_reading_of_the_logs_is_described() -> None:
    (job,) = json.loads(render(read_report()))["logs"]
    assert job["job"] is not None
    assert job["ranks"][0]["confidence"] == 0.97
    assert job["clocks"] == [{"host": "logs", "offset_ns": 5_000_000_000, "error_ns": 100_000_000, "steps": 40}]
    assert job["unmatched_addresses"] == ["10.9.9.9"]
    assert job["input"]["dropped"] == {"empty file": 1}


def test_hostile_lines_stay_ascii() -> None:
    assert render(read_report(HOSTILE, HOSTILE)).isascii()
