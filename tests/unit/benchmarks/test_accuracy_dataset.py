"""The tables of the open dataset."""

from __future__ import annotations

from pathlib import Path

from accuracy_dataset import Result, tables
from llmprism.dataset import Case
from llmprism.score import LayoutFacts, ScoredJob, Truth, score_report
from support.perfect_report import truth_as_report

TRUTH = Truth((ScoredJob("j", frozenset("ab"), LayoutFacts(dp=2), (), (), (("a", "b", "dp"),), (0, 10), (10, 20)),), ())
EMPTY = {"schema": "llmprism.report/1", "jobs": [], "findings": []}


def result(name: str, split: str, faults: tuple[str, ...], right: bool) -> Result:
    case = Case(name, split, "", ("torch DDP",), ("data",), faults, "nccl", 1, 30.0, 0, Path(name), {})
    score = score_report(truth_as_report(TRUTH) if right else EMPTY, TRUTH)
    return Result(case, {"prism": score}, {"prism": 1.5})


def rows(text: str, first: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in text.splitlines()
        if line.startswith(f"| {first} |")
    ]


def test_cases_are_summed_by_what_they_are() -> None:
    text = tables([result("one", "dev", ("crash",), True), result("two", "test", (), False)], ("prism",))
    assert rows(text, "both")[0][:6] == ["both", "2", "prism", "1/2", "50 %", "-"]
    assert rows(text, "torch DDP")[0][1] == "2"
    assert rows(text, "crash")[0][3] == "1/1"
    assert rows(text, "none (healthy)")[0][3] == "0/1"
    assert rows(text, "one")[0][-1] == "1.5"
