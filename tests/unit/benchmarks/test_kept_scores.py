"""Scores are kept for what they were measured on and with, and survive the way to disk and back."""

from __future__ import annotations

from pathlib import Path

import pytest

import kept_scores
from accuracy import EMPTY_REPORT, Result
from kept_scores import KeptScores
from llmprism.kernel_sources import PACKAGE, sources
from llmprism.score import LayoutFacts, ScoredJob, Truth, score_report
from support.perfect_report import truth_as_report

LAYOUT = LayoutFacts(tp=1, pp=1, dp=2, ep=None, cp=None, sharding="none", micro_batches=1, schedule="none")
TRUTH = Truth((ScoredJob("a", frozenset({"x", "y"}), LAYOUT, (), (), (), (0,), (10,)),), ())


@pytest.mark.parametrize("report", [EMPTY_REPORT, truth_as_report(TRUTH)])
def test_a_kept_result_comes_back_as_it_was(tmp_path: Path, report: dict) -> None:
    kept = KeptScores(tmp_path, Result)
    result = Result(score_report(report, TRUTH), 1.5, "", 7)
    kept.keep("prism", b"input", result)
    assert kept.find("prism", b"input") == result
    assert kept.find("prism", b"other input") is None
    assert kept.find("paper", b"input") is None


def test_a_change_of_what_a_method_imports_makes_its_score_unknown(tmp_path: Path, monkeypatch) -> None:
    kept = KeptScores(tmp_path, Result)
    kept.keep("prism", b"input", Result(score_report(EMPTY_REPORT, TRUTH), 1.5))
    changed = tmp_path / "changed.py"
    changed.write_text("# another file that the method reads")
    monkeypatch.setattr(kept_scores, "sources", lambda module: sources(module) | {changed})
    assert kept.find("prism", b"input") is None


def test_a_broken_file_is_no_score(tmp_path: Path) -> None:
    kept = KeptScores(tmp_path, Result)
    kept.keep("prism", b"input", Result(score_report(EMPTY_REPORT, TRUTH), 1.5))
    (file,) = tmp_path.iterdir()
    file.write_text(file.read_text()[:-9])
    assert kept.find("prism", b"input") is None


def test_the_published_rules_do_not_depend_on_our_layouts() -> None:
    assert PACKAGE / "parallelism/identify_layout.py" in sources(PACKAGE / kept_scores.METHODS["prism"])
    assert PACKAGE / "parallelism/identify_layout.py" not in sources(PACKAGE / kept_scores.METHODS["paper"])
