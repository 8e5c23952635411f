from __future__ import annotations

import io

import pytest
from rich.console import Console

from llmprism.report.terminal import print_report
from support.read_reports import read_report
from support.reports import HOSTILE, tiny_report


def rendered(report: object, width: int = 100) -> str:
    out = io.StringIO()
    print_report(report, Console(file=out, width=width))  # type: ignore[arg-type]
    return out.getvalue()


def test_a_finding_shows_cause_owner_lines_and_contradictions() -> None:
    text = rendered(read_report(), 300)
    assert "user.resource: out of GPU memory (by flows and logs, confidence 0.9)" in text
    assert "job owner's" in text
    assert "rank 5, on logs, iteration 812" in text
    assert "logs.log:17 (3 times) CUDA out of memory" in text
    assert "Believed: the logs, nobody complains" in text
    assert "Logs logs" in text
    assert "1 of 1 matched to addresses" in text
    assert "5 s ahead of the flows" in text


def test_without_logs_nothing_of_it_is_shown() -> None:
    text = rendered(tiny_report())
    assert "Logs " not in text
    assert "   cause" not in text


@pytest.mark.parametrize("width", [40, 80, 200])
def test_hostile_lines_can_neither_steer_nor_widen(width: int) -> None:
    text = rendered(read_report(HOSTILE, HOSTILE), width)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(len(line) for line in text.splitlines()) <= width
